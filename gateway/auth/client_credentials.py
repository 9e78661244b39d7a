"""OAUTH2_CC: the end user's own client is exchanged for tokens, without a redirect (RFC 6749 §4.4)."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.jwt import sign, signed
from gateway.auth.mode import Dialogue, RevocableToken, TokenExchangeMode, TokenRevocation
from gateway.auth.pasted_keys import certificate_fields
from gateway.auth.provider_responses import accepted_response, token_at, token_paths
from gateway.catalog.provider import Provider
from gateway.oauth.authorize import joined_scopes, scope_list
from gateway.oauth.token_requests import OAuthClient, client_credentials_request
from gateway.oauth.token_responses import expires_at
from gateway.secret import Secret
from gateway.timestamps import iso

OURS: Final = ("token", "expires_at", "raw")
ALSO: Final = ("data.token", "jwt")  # paths of the token for providers that do not follow RFC 6749 §5.1
LIFETIME: Final = timedelta(minutes=55)  # if the provider reports no lifetime
WITHOUT_SECRET: Final = frozenset({"private_key_jwt", "custom", "none"})
BY_ASSERTION: Final = frozenset({"private_key_jwt"})
ASSERTION_S: Final = 300
TYPED_LIMIT: Final = 16_384


class ClientCredentialsMode(TokenExchangeMode):
    """Stored as ``{"type": "OAUTH2_CC", "token", "client_id", "client_secret", "client_certificate"?,
    "client_private_key"?, <further fields of the entry>, "expires_at"?, "raw"}``. With a certificate and a private key
    (both PEM), token requests and proxied requests use mutual TLS (RFC 8705).
    """

    name = "OAUTH2_CC"
    brought: ClassVar = "token"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return the credential to store. `token` is optional; without it, the gateway requests the first token."""
        fields = CredentialForm(form, self.types())
        held: dict[str, Any] = {"type": self.name}
        held["client_id"] = fields.text("client_id", limit=1024)
        held["client_secret"] = fields.text("client_secret", limit=TYPED_LIMIT, required=False, empty=True)
        held |= certificate_fields(fields, provider)
        held |= fields.declared(provider.credentials)
        if not (held["client_secret"] or held.get("client_private_key")) and not proves_itself(provider):
            fields.fault("client_secret", "'client_secret' is missing.")
        held["token"] = fields.token("token", limit=TYPED_LIMIT, required=False)
        ends = fields.moment("expires_at")
        if held["token"]:
            held["expires_at"] = iso(ends or now + LIFETIME)
        fields.finish("raw")
        return {name: value for name, value in held.items() if value not in ("", None)}

    def renew(self, held: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Request a new token for the same client (RFC 6749 §4.4.2)."""
        provider = context.provider
        own = {name: value for name, value in held.items() if name not in OURS}
        known = {**typed_values(own), **client_values(own)}
        url = context.url("token_url")
        context = context.for_destinations(url)
        call = client_credentials_request(
            provider,
            url,
            self.client(own, context, url),
            scope=joined_scopes(provider, scopes_of(context)) or None,
            params=context.texts(provider.token_params, known),
            headers=context.texts(provider.token_headers, known),
        )
        reply = yield context.with_secrets(call, identity=self.identity(held), secrets=known.values())
        response = accepted_response(reply)
        token = token_at(response, (*token_paths(provider, "access_token"), *ALSO))
        ends = expires_at(provider, response, reply.asked_at) or reply.asked_at + LIFETIME
        return {**own, "token": token, "expires_at": iso(ends), "raw": response}

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        return {**typed_values(held, held.get("token")), **client_values(held)}

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}

    def revocable(self, held: Mapping[str, Any]) -> Sequence[RevocableToken]:
        return [RevocableToken("access_token", Secret(held["token"]))] if held.get("token") else []

    def revocation(self, held: Mapping[str, Any], context: AuthContext) -> TokenRevocation | None:
        provider = context.provider
        if not provider.revocation_url:
            return None
        url = context.url("revocation_url", self.values(held))
        return TokenRevocation(
            url, self.client(held, context, url), provider.token_request_auth_method, self.identity(held)
        )

    def client(self, held: Mapping[str, Any], context: AuthContext, url: str) -> OAuthClient:
        """Return the end user's client, authenticated as the entry says. `url`: the audience of a client assertion.
        Raises TokenRefused if its key cannot sign."""
        if context.provider.token_request_auth_method in BY_ASSERTION:
            return OAuthClient(held["client_id"], assertion=self._assertion(held, context, url))
        secret = held.get("client_secret")
        return OAuthClient(held["client_id"], Secret(secret) if secret else None)

    @staticmethod
    def _assertion(held: Mapping[str, Any], context: AuthContext, url: str) -> Secret:
        """Return the signed client assertion (RFC 7523 §2.2, §3)."""
        now = clock.now()
        if context.provider.jwt is not None:
            known = {**typed_values(held), **client_values(held)}
            return signed(context.provider.jwt, context.for_destinations(url), known, now)[0]
        issued = int(now.timestamp())
        claims = {"iss": held["client_id"], "sub": held["client_id"], "aud": url, "jti": str(uuid.uuid4())}
        claims |= {"iat": issued, "exp": issued + ASSERTION_S}
        return sign({"alg": "RS256"}, claims, held.get("client_private_key") or held.get("client_secret") or "")


def client_values(held: Mapping[str, Any]) -> dict[str, Secret]:
    """Return ``clientId`` and ``clientSecret``: in this mode the end user's, not the integration's."""
    named = {"clientId": held.get("client_id"), "clientSecret": held.get("client_secret")}
    return {name: Secret(value) for name, value in named.items() if value}


def scopes_of(context: AuthContext) -> tuple[str, ...]:
    """Return the scopes of the connection's own setting `oauth_scopes`, else the integration's or the entry's."""
    own = context.config.get("oauth_scopes")
    return scope_list(own) if isinstance(own, str) and own else context.scopes


def proves_itself(provider: Provider) -> bool:
    """Return whether the client authenticates without a secret: by certificate, by key, or as the entry defines."""
    return bool(provider.require_client_certificate) or provider.token_request_auth_method in WITHOUT_SECRET
