"""OAUTH2_CC: the end user's own OAuth client gets tokens, without a redirect (RFC 6749 §4.4)."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import MAX_TYPED_CHARS, CredentialForm, typed_values
from gateway.auth.jwt import sign, signed_token
from gateway.auth.mode import Dialogue, RevocableToken, TokenExchangeMode, TokenRevocation
from gateway.auth.pasted_keys import certificate_fields
from gateway.auth.provider_responses import accepted_response, token_at, token_paths
from gateway.catalog.provider import Provider
from gateway.oauth.authorize import joined_scopes, scope_list
from gateway.oauth.token_requests import OAuthClient, client_credentials_request
from gateway.oauth.token_responses import expires_at
from gateway.secret import Secret
from gateway.timestamps import iso

TOKEN_MEMBERS: Final = ("token", "expires_at", "raw")
OTHER_TOKEN_PATHS: Final = ("data.token", "jwt")  # paths of the token for providers that do not follow RFC 6749 §5.1
LIFETIME: Final = timedelta(minutes=55)  # used if the provider reports no lifetime
METHODS_WITHOUT_SECRET: Final = frozenset({"private_key_jwt", "custom", "none"})
ASSERTION_METHODS: Final = frozenset({"private_key_jwt"})
ASSERTION_LIFETIME_S: Final = 300


class ClientCredentialsMode(TokenExchangeMode):
    """The credential is stored as ``{"type": "OAUTH2_CC", "token", "client_id", "client_secret", "client_certificate"?,
    "client_private_key"?, <further fields of the entry>, "expires_at"?, "raw"}``. With a certificate and a private key
    (both PEM), token requests and proxied requests use mutual TLS (RFC 8705).
    """

    name = "OAUTH2_CC"
    imported_token_member: ClassVar = "token"  # noqa: S105 (the name of a member, not a token)

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return the credential to store. The `token` is optional; without it, the gateway requests the first one."""
        fields = CredentialForm(form, self.types())
        credential: dict[str, Any] = {"type": self.name}
        credential["client_id"] = fields.text("client_id", limit=1024)
        credential["client_secret"] = fields.text("client_secret", limit=MAX_TYPED_CHARS, required=False, empty=True)
        credential |= certificate_fields(fields, provider)
        credential |= fields.read_other_declared_fields(provider.credentials)
        if not (credential["client_secret"] or credential.get("client_private_key")) and not needs_no_secret(provider):
            fields.fault("client_secret", "'client_secret' is missing.")
        credential["token"] = fields.token("token", limit=MAX_TYPED_CHARS, required=False)
        ends_at = fields.moment("expires_at")
        if credential["token"]:
            credential["expires_at"] = iso(ends_at or now + LIFETIME)
        fields.finish("raw")
        return {name: value for name, value in credential.items() if value not in ("", None)}

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Request a new token for the same client (RFC 6749 §4.4.2)."""
        provider = context.provider
        typed_fields = {name: value for name, value in credential.items() if name not in TOKEN_MEMBERS}
        values = {**typed_values(typed_fields), **client_values(typed_fields)}
        url = context.url("token_url")
        context = context.for_destinations(url)
        call = client_credentials_request(
            provider,
            url,
            self.client(typed_fields, context, url),
            scope=joined_scopes(provider, client_scopes(context)) or None,
            params=context.texts(provider.token_params, values),
            headers=context.texts(provider.token_headers, values),
        )
        reply = yield context.with_secrets(call, identity=self.identity(credential), secrets=values.values())
        response = accepted_response(reply)
        token = token_at(response, (*token_paths(provider, "access_token"), *OTHER_TOKEN_PATHS))
        ends_at = expires_at(provider, response, reply.asked_at) or reply.asked_at + LIFETIME
        return {**typed_fields, "token": token, "expires_at": iso(ends_at), "raw": response}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return {**typed_values(credential, credential.get("token")), **client_values(credential)}

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        return [RevocableToken("access_token", Secret(credential["token"]))] if credential.get("token") else []

    def revocation(self, credential: Mapping[str, Any], context: AuthContext) -> TokenRevocation | None:
        provider = context.provider
        if not provider.revocation_url:
            return None
        url = context.url("revocation_url", self.values(credential))
        return TokenRevocation(
            url, self.client(credential, context, url), provider.token_request_auth_method, self.identity(credential)
        )

    def client(self, credential: Mapping[str, Any], context: AuthContext, url: str) -> OAuthClient:
        """Return the end user's client, which authenticates as the entry says. `url`: the URL of the request, which is
        the audience of a client assertion. Raises TokenRefused if the client's key cannot sign."""
        if context.provider.token_request_auth_method in ASSERTION_METHODS:
            return OAuthClient(credential["client_id"], assertion=self._assertion(credential, context, url))
        secret = credential.get("client_secret")
        return OAuthClient(credential["client_id"], Secret(secret) if secret else None)

    @staticmethod
    def _assertion(credential: Mapping[str, Any], context: AuthContext, url: str) -> Secret:
        """Return the signed client assertion (RFC 7523 §2.2, §3)."""
        now = clock.now()
        if context.provider.jwt is not None:
            values = {**typed_values(credential), **client_values(credential)}
            return signed_token(context.provider.jwt, context.for_destinations(url), values, now)[0]
        issued_at_s = int(now.timestamp())
        claims = {"iss": credential["client_id"], "sub": credential["client_id"], "aud": url, "jti": str(uuid.uuid4())}
        claims |= {"iat": issued_at_s, "exp": issued_at_s + ASSERTION_LIFETIME_S}
        return sign(
            {"alg": "RS256"}, claims, credential.get("client_private_key") or credential.get("client_secret") or ""
        )


def client_values(credential: Mapping[str, Any]) -> dict[str, Secret]:
    """Return the values of ``clientId`` and ``clientSecret``. In this mode, these values belong to the end user's
    client, not to the integration's client."""
    values = {"clientId": credential.get("client_id"), "clientSecret": credential.get("client_secret")}
    return {name: Secret(value) for name, value in values.items() if value}


def client_scopes(context: AuthContext) -> tuple[str, ...]:
    """Return the scopes in the connection's setting `oauth_scopes`, else the integration's scopes, else the entry's
    default scopes."""
    connection_scopes = context.config.get("oauth_scopes")
    return scope_list(connection_scopes) if isinstance(connection_scopes, str) and connection_scopes else context.scopes


def needs_no_secret(provider: Provider) -> bool:
    """Return whether the client authenticates without a secret: with a certificate, with a key, or as the entry
    defines."""
    return bool(provider.require_client_certificate) or provider.token_request_auth_method in METHODS_WITHOUT_SECRET
