"""CUSTOM: an app installation together with the end user's own OAuth grant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.app_installation import INSTALLATION, check_key, installation_token, installed, with_link
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, token_values
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Dialogue, Granted, RevocableToken
from gateway.auth.oauth2 import OAuth2
from gateway.catalog.provider import Provider
from gateway.oauth.token_responses import TokenRefused
from gateway.secret import Secret
from gateway.timestamps import moment

# The app's token is refreshed every hour; the end user's token is refreshed with it if it expires before the next
# refresh.
SOON: Final = timedelta(minutes=70)


class Custom(OAuth2):
    """Stored as ``{"type": "APP", "access_token", "expires_at", "raw", "installation_id", "user": {…}}``. Requests
    carry the app's token. `user` is the end user's grant in OAUTH2's format; templates use
    ``${credentials.user.access_token}``. Until the app is installed, only this grant is stored.
    """

    name = "CUSTOM"
    stored_as: ClassVar = ("APP", "OAUTH2", "CUSTOM")

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, (self.name, "APP"))
        held: dict[str, Any] = {"type": "APP", INSTALLATION: fields.token(INSTALLATION, limit=255)}
        held["app_id"] = fields.token("app_id", limit=255, required=False)
        fields.finish("user", "raw", "access_token", "expires_at")
        return {name: value for name, value in held.items() if value}

    def settings(self, held: Mapping[str, Any]) -> dict[str, str]:
        return {INSTALLATION: held[INSTALLATION]} if held.get(INSTALLATION) else {}

    def start_consent(self, context: AuthContext, wish: AuthorizationRequestInput) -> Dialogue[ConsentRedirect]:
        check_key(context)
        return (yield from super().start_consent(with_link(context), wish))

    def finish_consent(
        self, context: AuthContext, kept: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """Exchange the end user's grant first: it proves that the person who names the installation can sign in, not
        that this person can access the installation.
        """
        user = yield from super().finish_consent(context, kept, query)
        held = {**user.held, "type": "OAUTH2"}
        if not query.get(INSTALLATION):
            return Granted(held, user.config)
        installation = installed(context.provider, query)
        at = replace(context, config={**context.config, INSTALLATION: installation})
        app = yield from installation_token(at, "installation_token_url")
        together = {"type": "APP", **app, INSTALLATION: installation, "user": held}
        return Granted(together, {**user.config, INSTALLATION: installation})

    def complete(self, held: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        return dict(held) if held.get("access_token") else (yield from self.renew(held, context))

    def refreshable(self, held: Mapping[str, Any], provider: Provider) -> bool:
        return bool(held.get(INSTALLATION)) or super().refreshable(held, provider)

    def renew(self, held: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        if not held.get(INSTALLATION):
            return {**(yield from super().renew(held, context)), "type": "OAUTH2"}
        at = replace(context, config={**context.config, INSTALLATION: held[INSTALLATION]})
        app = yield from installation_token(at, "installation_token_url", held.get("app_id"))
        user = held.get("user")
        if user and self._ends_soon(user) and super().refreshable(user, context.provider):
            try:
                user = {**(yield from super().renew(user, context)), "type": "OAUTH2"}
            except TokenRefused:
                user = None  # the end user revoked the grant; the installation stays usable
        return {
            **{name: value for name, value in held.items() if name != "user"},
            **app,
            **({"user": user} if user else {}),
        }

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        return token_values(held, held.get("access_token"))

    def revocable(self, held: Mapping[str, Any]) -> Sequence[RevocableToken]:
        return super().revocable(held.get("user") or held)

    @staticmethod
    def _ends_soon(user: Mapping[str, Any]) -> bool:
        ends = moment(user.get("expires_at"))
        return ends is not None and ends - clock.now() < SOON
