"""APP: the end user installs the operator's app; a JWT signed by the app is exchanged for the installation's tokens.

Only the callback's query connects an installation ID with the person whose browser returns, and a browser can change
that query. The mode CUSTOM checks the ID with the end user's own OAuth grant if the entry has
`installation_access_url`. APP has no such grant and cannot check the ID.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, token_values
from gateway.auth.jwt import sign, signed_token
from gateway.auth.mode import (
    AuthorizationRequestInput,
    ConsentRedirect,
    Dialogue,
    Granted,
    GrantingMode,
    RevocableToken,
    TokenExchangeMode,
)
from gateway.auth.provider_responses import accepted_response, token_at, token_paths
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.authorize import with_params
from gateway.oauth.token_responses import TokenRefused, expires_at
from gateway.records.provider_call import ProviderCall
from gateway.secret import Secret
from gateway.timestamps import iso

INSTALLATION_ID: Final = "installation_id"
APP_ID: Final = "app_id"
APP_LINK: Final = "appPublicLink"
TOKEN_FIELDS: Final = ("raw", "access_token", "expires_at")  # an export has them; an import requests a new token
CLOCK_SKEW: Final = timedelta(seconds=60)  # GitHub refuses a JWT with `iat` in the future, and clocks differ
JWT_LIFETIME: Final = timedelta(seconds=540)
LIFETIME: Final = timedelta(minutes=55)  # of an installation token, if the provider reports none


def installation_credential(form: Mapping[str, Any], types: Sequence[str], *ignored: str) -> dict[str, Any]:
    """Return the credential for the installation that a form or an import names. Raises InvalidRequest.

    `types`: the allowed values of the form's ``type``. `ignored`: names of further fields, which the form may have.
    """
    fields = CredentialForm(form, types)
    credential = {"type": "APP", INSTALLATION_ID: fields.token(INSTALLATION_ID, limit=255)}
    credential[APP_ID] = fields.token(APP_ID, limit=255, required=False)
    fields.finish(*ignored)
    return {name: value for name, value in credential.items() if value}


def installation_settings(credential: Mapping[str, Any]) -> dict[str, str]:
    """Return the connection setting with the installation's ID; empty if the credential has none."""
    return {INSTALLATION_ID: credential[INSTALLATION_ID]} if credential.get(INSTALLATION_ID) else {}


class App(TokenExchangeMode, GrantingMode):
    """The credential is stored as ``{"type": "APP", "access_token", "expires_at", "raw", "installation_id"}``. An
    import gives ``installation_id`` and, optionally, ``app_id``. The integration has `app_id`, `app_link` and
    `private_key`.

    The installation's ID comes from the end user's browser, and this mode cannot check the ID. Therefore an end user
    can connect another customer's installation. If end users do not trust each other, use CUSTOM (for GitHub:
    `github-app-user`).
    """

    name = "APP"
    imported_token_member: ClassVar = "access_token"  # noqa: S105 (the name of a member, not a token)

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        return installation_credential(form, (self.name,), *TOKEN_FIELDS)

    def settings(self, credential: Mapping[str, Any]) -> dict[str, str]:
        return installation_settings(credential)

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        yield from ()
        check_app_key(context)
        url = with_link(context).url("authorization_url")
        return ConsentRedirect(
            with_params(url, {**context.texts(context.provider.authorization_params), "state": authorization.state})
        )

    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        return INSTALLATION_ID in query or "setup_action" in query or "error" in query

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        installation_id = installation_in(context.provider, query)
        installation_context = replace(context, config={**context.config, INSTALLATION_ID: installation_id})
        credential = yield from installation_token(installation_context, "token_url")
        return Granted(
            {"type": self.name, **credential, INSTALLATION_ID: installation_id}, {INSTALLATION_ID: installation_id}
        )

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return bool(credential.get(INSTALLATION_ID))

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        installation_context = replace(context, config={**context.config, INSTALLATION_ID: credential[INSTALLATION_ID]})
        return {
            **credential,
            **(yield from installation_token(installation_context, "token_url", credential.get(APP_ID))),
        }

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return token_values(credential, credential.get("access_token"))

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        return (
            [RevocableToken("access_token", Secret(credential["access_token"]))]
            if credential.get("access_token")
            else []
        )


def installation_token(context: AuthContext, url_field: str, app_id: str | None = None) -> Dialogue[dict[str, Any]]:
    """Request a token for the installation in the setting ``installation_id``, and return the members of the
    credential. `url_field`: the name of the entry's field with the URL. `app_id`: the app's ID, None for the
    integration's app. The app authenticates with a JWT."""
    provider, url = context.provider, context.url(url_field)
    context = context.for_destinations(url)
    app_jwt = _app_jwt(context, app_id)
    headers = {"Accept": "application/json", "Authorization": f"Bearer {app_jwt.reveal()}"}
    headers |= context.texts(provider.token_headers, {"jwt": app_jwt})
    reply = yield context.with_secrets(ProviderCall(url, headers, b""), secrets=[app_jwt])
    response = accepted_response(reply)
    token = token_at(response, (*token_paths(provider, "token"), "access_token"))
    ends_at = expires_at(provider, response, reply.asked_at) or reply.asked_at + LIFETIME
    return {"access_token": token, "expires_at": iso(ends_at), "raw": response}


def installation_in(provider: Provider, query: Mapping[str, str]) -> str:
    """Return the installation ID from the callback's query. Raises InvalidRequest if the ID is missing or invalid, or
    if an administrator must approve the installation first."""
    installation_id = query.get(INSTALLATION_ID, "")
    if not installation_id and query.get("setup_action") == "request":
        raise InvalidRequest(
            "authorization_refused",
            f"An administrator at {provider.display_name} must approve the installation first. Start again after the "
            "approval.",
        )
    if not installation_id.isascii() or not installation_id.isalnum() or len(installation_id) > 64:
        raise InvalidRequest(
            "authorization_refused",
            f"{provider.display_name} returned no installation: the app was not installed. Start again to install it.",
        )
    return installation_id


def with_link(context: AuthContext) -> AuthContext:
    """Return the context with the app's page in the setting `appPublicLink`, which entries use in templates."""
    link = context.integration.app_link
    return replace(context, config={APP_LINK: link, **context.config}) if link else context


def check_app_key(context: AuthContext) -> None:
    """Raise InvalidRequest if the integration has no key for its app to sign with."""
    context.for_destinations("", fixed_in_code=True).app_key()


def _app_jwt(context: AuthContext, app_id: str | None) -> Secret:
    """Return the JWT that authenticates the app. The JWT is built as the entry's `jwt` says, or in GitHub's format
    without one. `app_id`: the app's ID, None for the integration's app."""
    key = context.app_key()
    issuer = app_id or context.integration.app_id or context.integration.client_id
    if not issuer:
        raise TokenRefused("invalid_client", "the integration has no app_id")
    now = clock.now()
    if context.provider.jwt is not None:
        return signed_token(context.provider.jwt, context, {"appId": Secret(issuer), "privateKey": key}, now)[0]
    issued_at = now - CLOCK_SKEW
    claims = {"iss": issuer, "iat": int(issued_at.timestamp()), "exp": int((now + JWT_LIFETIME).timestamp())}
    return sign({"alg": "RS256", "typ": "JWT"}, claims, key.reveal())
