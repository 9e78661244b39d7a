"""CUSTOM: an app installation together with the end user's own OAuth grant."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.app_installation import (
    INSTALLATION_ID,
    TOKEN_FIELDS,
    check_app_key,
    installation_credential,
    installation_in,
    installation_settings,
    installation_token,
    with_link,
)
from gateway.auth.context import AuthContext, authority, may_receive
from gateway.auth.credential_form import token_values
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Dialogue, Granted, RevocableToken
from gateway.auth.oauth2 import OAuth2
from gateway.auth.provider_responses import TEMPORARY_STATUSES, refusal_text
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, UpstreamFailed
from gateway.oauth.token_responses import GRANT_GONE, TokenRefused, TokenUnavailable, retry_after
from gateway.records.provider_call import ProviderCall
from gateway.secret import Secret
from gateway.timestamps import parse_time

# The app's token is refreshed every hour. If the end user's token expires before the next of these refreshes, both
# tokens are refreshed together.
RENEW_USER_WITHIN: Final = timedelta(minutes=70)


class Custom(OAuth2):
    """The credential is stored as ``{"type": "APP", "access_token", "expires_at", "raw", "installation_id", "user":
    {…}}``. Requests carry the app's token. `user` is the end user's grant, in the format of the mode OAUTH2. Templates
    use the grant's token as ``${credentials.user.access_token}``. Until the app is installed, only this grant is
    stored.

    If the provider refuses this grant later, the grant is dropped, and the connection's history and the log report it.
    The connection continues with the app's token.

    The installation's ID comes from the end user's browser. If the entry has `installation_access_url`, the gateway
    accepts only an installation that this end user can access, as the provider confirms. Without this URL, an end user
    can connect another customer's installation.
    """

    name = "CUSTOM"
    stored_as: ClassVar = ("APP", "OAUTH2", "CUSTOM")

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        return installation_credential(form, (self.name, "APP"), "user", *TOKEN_FIELDS)

    def settings(self, credential: Mapping[str, Any]) -> dict[str, str]:
        return installation_settings(credential)

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        check_app_key(context)
        return (yield from super().start_consent(with_link(context), authorization))

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """First exchange the code for the end user's grant. Then check with this grant that the end user can access the
        installation that the query names. Only then request the installation's token.
        """
        user_grant = yield from super().finish_consent(context, flow_details, query)
        credential = {**user_grant.held, "type": "OAUTH2"}
        if not query.get(INSTALLATION_ID):
            return Granted(credential, user_grant.config)
        installation_id = installation_in(context.provider, query)
        installation_context = replace(context, config={**context.config, INSTALLATION_ID: installation_id})
        yield from _check_access(installation_context, Secret(credential["access_token"]))
        app_token_fields = yield from installation_token(installation_context, "installation_token_url")
        combined_credential = {"type": "APP", **app_token_fields, INSTALLATION_ID: installation_id, "user": credential}
        return Granted(combined_credential, {**user_grant.config, INSTALLATION_ID: installation_id})

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        return dict(credential) if credential.get("access_token") else (yield from self.renew(credential, context))

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return bool(credential.get(INSTALLATION_ID)) or super().refreshable(credential, provider)

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        if not credential.get(INSTALLATION_ID):
            return {**(yield from super().renew(credential, context)), "type": "OAUTH2"}
        installation_context = replace(context, config={**context.config, INSTALLATION_ID: credential[INSTALLATION_ID]})
        app_token_fields = yield from installation_token(
            installation_context, "installation_token_url", credential.get("app_id")
        )
        user = credential.get("user")
        if user and self.sends_refresh_token(credential, context.provider):
            try:
                user = {**(yield from super().renew(user, context)), "type": "OAUTH2"}
            except TokenRefused as fault:
                # The grant is gone, and the installation stays usable. `dropped_part` reports this. A refused client says
                # nothing about the grant: the next refresh tries again.
                user = None if fault.code in GRANT_GONE else user
        return {
            **{name: value for name, value in credential.items() if name != "user"},
            **app_token_fields,
            **({"user": user} if user else {}),
        }

    def sends_refresh_token(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        if not credential.get(INSTALLATION_ID):
            return super().sends_refresh_token(credential, provider)
        user: Mapping[str, Any] = credential.get("user") or {}
        return bool(user) and self._ends_soon(user) and super().refreshable(user, provider)

    def dropped_part(self, old_credential: Mapping[str, Any], new_credential: Mapping[str, Any]) -> str | None:
        return "the end user's grant" if old_credential.get("user") and not new_credential.get("user") else None

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return token_values(credential, credential.get("access_token"))

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        return super().revocable(credential.get("user") or credential)

    @staticmethod
    def _ends_soon(user: Mapping[str, Any]) -> bool:
        ends_at = parse_time(user.get("expires_at"))
        return ends_at is not None and ends_at - clock.now() < RENEW_USER_WITHIN


def _check_access(context: AuthContext, token: Secret) -> Dialogue[None]:
    """Check with the end user's `token` that this end user can access the installation in the settings. Nothing is sent
    if the entry has no `installation_access_url`.

    Raises InvalidRequest if the end user cannot access the installation. Also raises InvalidRequest if neither the
    entry nor the integration names the URL's host, because a host that the end user chose could confirm any access.
    Raises UpstreamFailed if the provider cannot respond now.
    """
    provider, integration = context.provider, context.integration
    if not context.template("installation_access_url"):
        return
    url = context.url("installation_access_url")
    if not may_receive(context.entry or provider, integration, url):
        raise InvalidRequest(
            "unresolved_setting",
            f"Access to the installation was not checked at {authority(url)}: the host is neither in the provider's catalog "
            f"entry nor in allowed_hosts of integration '{integration.integration_id}'. If you trust the host, add it to "
            "allowed_hosts.",
        )
    entry_headers = context.for_destinations(url).texts(provider.token_headers)
    headers = {"accept": "application/json", **{name.lower(): text for name, text in entry_headers.items()}}
    headers["authorization"] = f"Bearer {token.reveal()}"  # replaces a field of the entry, which is not the end user's
    call = context.with_secrets(ProviderCall(url, headers, method="GET"), secrets=[token])
    try:
        reply = yield call
    except TokenUnavailable as fault:
        raise _check_unavailable_error(context, "the provider could not be reached") from fault
    if reply.status == 200 and _is_json(reply.body):  # the login page of a proxy is not JSON
        return
    if reply.status in TEMPORARY_STATUSES or not 400 <= reply.status < 500:
        raise _check_unavailable_error(context, f"the check returned {reply.status}", retry_after(reply.headers))
    provider_text = call.scrubbed(refusal_text(reply))
    status = f"{reply.status}: {provider_text}" if provider_text else f"{reply.status}"
    raise InvalidRequest(
        "authorization_refused",
        f"Your account at {provider.display_name} cannot access installation {context.config[INSTALLATION_ID]} ({status}). "
        "Nothing was connected; start again with an account that can access it.",
    )


def _check_unavailable_error(context: AuthContext, reason: str, retry_after_s: int | None = None) -> UpstreamFailed:
    return UpstreamFailed(
        "upstream_unreachable",
        f"{context.provider.display_name} did not confirm now that your account can access installation "
        f"{context.config[INSTALLATION_ID]}: {reason}. Nothing was connected; try again.",
        retry_after_s=retry_after_s,
    )


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict | list)
    except (ValueError, RecursionError):
        return False
