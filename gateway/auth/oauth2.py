"""OAUTH2: an access token granted by the end user, refreshed with a refresh token (RFC 6749, RFC 6750)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm
from gateway.auth.mode import (
    AuthorizationRequestInput,
    ConsentRedirect,
    Dialogue,
    Granted,
    GrantingMode,
    RevocableToken,
)
from gateway.auth.provider_responses import accepted_response, safe_text
from gateway.auth.token_steps import step_call, step_values
from gateway.catalog.provider import Provider
from gateway.catalog.render import Moment
from gateway.catalog.value import MAX_SECRET_LENGTH
from gateway.errors import InvalidRequest
from gateway.oauth import authorize
from gateway.oauth.authorize import authorization_url, issuer_accepted, with_params
from gateway.oauth.token_requests import OAuthClient, code_request, refresh_request
from gateway.oauth.token_responses import TokenUnavailable, dig, expires_at, positive_seconds, read_response
from gateway.records.provider_call import Reply
from gateway.secret import Secret
from gateway.timestamps import iso, parse_time

MAX_TOKEN_CHARS: Final = 16_384
# Members of an earlier step's response that describe only that step's own token.
_MEMBERS_OF_ONE_TOKEN: Final = frozenset({"access_token", "token_type", "expires_in", "expires_at"})


class OAuth2(GrantingMode):
    """The credential is stored as ``{"type": "OAUTH2", "access_token", "refresh_token"?, "expires_at"?,
    "config_override"?, "raw"}``."""

    name = "OAUTH2"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return an imported grant. The posted object is kept as `raw`, as Nango's API defines."""
        fields = CredentialForm(form, (*self.types(), self.name))
        credential: dict[str, Any] = {
            "type": self.types()[0],
            "access_token": fields.token("access_token", limit=MAX_TOKEN_CHARS),
        }
        refresh_token = fields.token("refresh_token", limit=MAX_TOKEN_CHARS, required=False)
        if refresh_token:
            credential["refresh_token"] = refresh_token
        stated_expiry, computed_expiry = fields.moment("expires_at"), fields.lifetime("expires_in", now)
        ends_at = stated_expiry or computed_expiry
        if ends_at is not None:
            credential["expires_at"] = iso(ends_at)
        override = fields.mapping("config_override", ("client_id", "client_secret"))
        if override:
            credential["config_override"] = override
        fields.finish("raw")
        credential["raw"] = {key: value for key, value in form.items() if key not in {"config_override", "raw"}}
        return credential

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        """Return the authorization request of RFC 6749 §4.1.1 with PKCE (RFC 7636), and with a nonce if an ID token is
        requested. The token URL is stored now, so that the callback uses the same URL (RFC 9700 §4.4).
        """
        yield from ()
        provider = context.provider
        verifier = None if provider.disable_pkce else authorize.new_verifier()
        consent_url = context.url("authorization_url")
        consent_params = context.texts(provider.authorization_params)
        for name, value in authorization.params.items():
            if value == "undefined":  # the Nango SDKs remove a parameter of the entry in this way
                consent_params.pop(name, None)
            else:
                consent_params[name] = value
        if authorization.user_scope:
            consent_params["user_scope"] = authorization.user_scope
        scopes = authorization.scopes if authorization.scopes is not None else context.scopes
        if (
            authorize.requests_id_token(scopes, consent_params) and "nonce" not in authorization.params
        ):  # replaces a fixed nonce of the entry, which would prove nothing
            consent_params["nonce"] = authorize.new_nonce()
        has_state_in_redirect_uri = bool(provider.state_in_redirect_uri)
        callback = context.redirect_uri
        if has_state_in_redirect_uri:
            callback = with_params(callback, {"state": authorization.state})
        url = authorization_url(
            provider,
            consent_url,
            client_id=context.client_id(authorization.override),
            redirect_uri=callback,
            scopes=scopes,
            state=None if has_state_in_redirect_uri else authorization.state,
            code_challenge=authorize.challenge(verifier) if verifier else None,
            params=consent_params,
        )
        token_url = context.url("token_url")
        flow_details = {
            "address": consent_url,
            "token_url": token_url,
            "code_verifier": verifier,
            "nonce": consent_params.get("nonce"),
        }
        if has_state_in_redirect_uri:
            flow_details["redirect_uri"] = callback
        # If the token URL may not receive the integration's secret, the client works without a secret, now and in every
        # refresh.
        public_client = (
            {} if authorization.override.get("client_id") else context.for_destinations(token_url).public_client()
        )
        override = {**public_client, **authorization.override}
        return ConsentRedirect(url, {**flow_details, "override": override} if override else flow_details)

    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        return code_name(context.provider) in query or "error" in query

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """Exchange the code (RFC 6749 §4.1.3) at the token URL fixed in `start_consent`.

        The issuer check of RFC 9207 comes first."""
        provider, token_context = context.provider, context.for_destinations(flow_details["token_url"])
        check_response(provider, flow_details["address"], query)
        client = token_context.client(flow_details.get("override"))
        reply = yield code_request(
            provider,
            flow_details["token_url"],
            client,
            code=query[code_name(provider)],
            redirect_uri=flow_details.get("redirect_uri") or context.redirect_uri,
            code_verifier=flow_details["code_verifier"],
            params=token_context.texts(
                provider.token_params, {f"callback.{name}": Secret(text) for name, text in query.items()}
            ),
            headers=token_context.texts(provider.token_headers),
        )
        override = flow_details.get("override") or {}
        client_values = {name: text for name, text in override.items() if name != "refresh_token"}
        stored_fields = (
            {"config_override": client_values, "refresh_token": override.get("refresh_token")} if override else None
        )
        response = self._read(provider, reply)
        if flow_details.get("nonce") and not authorize.nonce_acceptable(flow_details["nonce"], response):
            raise InvalidRequest(
                "invalid_nonce",
                f"The ID token of {provider.display_name} has the wrong nonce and was rejected. Start again.",
            )
        own_client = client if override.get("client_id") else context.registered
        steps_context = replace(context, registered=own_client)
        response, asked_at = yield from self._later_steps(steps_context, client, response, reply.asked_at)
        credential = self.credential_from_response(provider, response, asked_at, stored_fields)
        return Granted(credential, captured_settings(provider, credential["raw"], query))

    def _later_steps(
        self, context: AuthContext, client: OAuthClient, response: dict[str, Any], asked_at: datetime
    ) -> Dialogue[tuple[dict[str, Any], datetime]]:
        """Run the entry's `additional_steps`. Return the response to the last step, and the time of its request. The
        returned response also has the members of earlier responses, except members that describe an earlier token.

        `context`: decides which step gets the integration's secret. `client`: the client whose secrets are masked.
        `response` and `asked_at`: the response to the token request, and the time of that request.
        """
        provider = context.provider
        steps, responses, moment = provider.additional_steps or (), {"step1": response}, Moment(clock.now())
        merged_response = response
        for number, step in enumerate(steps, start=2):
            values = step_values(responses)
            tokens = (token for name, token in values.items() if name.endswith("_token"))
            secrets = (*tokens, *map(Secret, client.secrets()))
            reply = yield step_call(context, step.url, step, values, moment, secrets=secrets)
            last_response = self._read(provider, reply) if number == len(steps) + 1 else accepted_response(reply)
            responses[f"step{number}"] = last_response
            merged_response = {
                **{name: value for name, value in merged_response.items() if name not in _MEMBERS_OF_ONE_TOKEN},
                **last_response,
            }
            asked_at = reply.asked_at
        return merged_response, asked_at

    def credential_from_response(
        self,
        provider: Provider,
        response: Mapping[str, Any],
        asked_at: datetime,
        stored_fields: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the credential from a token response. If the response has no `refresh_token`, the refresh token in
        `stored_fields` is kept (RFC 6749 §6)."""
        stored_fields = stored_fields or {}
        credential: dict[str, Any] = {"type": self.types()[0], "access_token": response["access_token"]}
        refresh_token = response.get("refresh_token") or stored_fields.get("refresh_token")
        if refresh_token:
            credential["refresh_token"] = refresh_token
        ends_at = expires_at(provider, response, asked_at)
        if ends_at is not None:
            credential["expires_at"] = iso(ends_at)
        if stored_fields.get("config_override"):
            credential["config_override"] = stored_fields["config_override"]
        credential["raw"] = dict(response)
        return credential

    def expires_at(self, credential: Mapping[str, Any]) -> datetime | None:
        return parse_time(credential.get("expires_at"))

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return bool(credential.get("refresh_token")) or refreshes_by_access_token(provider)

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Refresh the token (RFC 6749 §6). Some providers instead exchange a valid access token for a new access
        token."""
        provider = context.provider
        by_access_token = refreshes_by_access_token(provider)
        wait_s = seconds_until_refreshable(provider, credential)
        if wait_s:
            raise TokenUnavailable(
                f"{provider.display_name} refreshes a token only after a minimum age, which it reaches in {wait_s} s; "
                "no request was sent",
                wait_s,
            )
        url = context.url("refresh_url" if provider.refresh_url else "token_url")
        token_context = context.for_destinations(url)
        reply = yield refresh_request(
            provider,
            url,
            token_context.client(credential.get("config_override")),
            refresh_token=credential["access_token" if by_access_token else "refresh_token"],
            params=token_context.texts(provider.refresh_params or provider.token_params),
            headers=token_context.texts(provider.token_headers),
            method=(provider.refresh and provider.refresh.method) or "POST",
            other_grant=by_access_token,
        )
        return self.credential_from_response(provider, self._read(provider, reply), reply.asked_at, credential)

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        token = Secret(credential["access_token"])
        return {"accessToken": token, "access_token": token, "credentials.access_token": token}

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        names = ("refresh_token", "access_token")
        return [RevocableToken(name, Secret(credential[name])) for name in names if credential.get(name)]

    @staticmethod
    def _read(provider: Provider, reply: Reply) -> dict[str, Any]:
        return read_response(provider, reply.status, reply.headers, reply.body)


def code_name(provider: Provider) -> str:
    """Return the name of the callback parameter that holds the code."""
    return provider.authorization_code_param_in_callback or "code"


def refreshes_by_access_token(provider: Provider) -> bool:
    """Return whether the provider refreshes a credential with its valid access token instead of a refresh token."""
    return bool(provider.refresh and provider.refresh.by_access_token)


def seconds_until_refreshable(provider: Provider, credential: Mapping[str, Any]) -> int:
    """Return the number of seconds until the provider accepts a refresh of this token. Return 0 if the provider accepts
    a refresh now, or if the token's age is unknown."""
    from_age_s = provider.refresh.from_age_s if provider.refresh else None
    ends_at, lifetime_s = (
        parse_time(credential.get("expires_at")),
        positive_seconds((credential.get("raw") or {}).get("expires_in")),
    )
    if from_age_s is None or ends_at is None or lifetime_s is None or lifetime_s <= from_age_s:
        return 0
    now = clock.now()
    wait = ends_at - timedelta(seconds=lifetime_s) + timedelta(seconds=from_age_s) - now
    return math.ceil(wait.total_seconds()) if now < ends_at and wait > timedelta(0) else 0


def check_response(provider: Provider, consent_url: str, query: Mapping[str, str]) -> None:
    """Raise InvalidRequest if the callback comes from another issuer or reports an error (RFC 6749 §4.1.2.1)."""
    if not issuer_accepted(provider, consent_url, query.get("iss")):
        raise InvalidRequest(
            "invalid_issuer",
            f"The response came from another issuer than {provider.display_name} and was rejected. Start again.",
        )
    if "error" in query:
        error_text = ": ".join(safe_text(query[name]) for name in ("error", "error_description") if query.get(name))
        raise InvalidRequest(
            "authorization_refused",
            f"{provider.display_name} did not grant access: {error_text}. Nothing was changed; start again to allow it.",
        )


def captured_settings(provider: Provider, response: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the entry takes from the token response and from the callback's query."""
    values = {path: dig(response, path) for path in provider.token_response_metadata or ()}
    values |= {name: query.get(name) for name in provider.redirect_uri_metadata or ()}
    return valid_setting_values(values)


def valid_setting_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Return `values` as texts, without the values that a setting cannot have: objects, fractions, and text that is
    empty, too long or not printable.
    """
    texts = {
        name: str(value).lower() if isinstance(value, bool | int) else value
        for name, value in values.items()
        if isinstance(value, bool | int | str)
    }
    return {name: text for name, text in texts.items() if 0 < len(text) <= MAX_SECRET_LENGTH and text.isprintable()}
