"""OAUTH2: an access token granted by the end user, renewed with a refresh token (RFC 6749, RFC 6750)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway.auth.form import Form
from gateway.auth.moments import iso, moment
from gateway.catalog.provider import Provider
from gateway.oauth.token import expires_at
from gateway.secret import Secret

TOKEN_LIMIT: Final = 16_384


class OAuth2:
    """Held as ``{"type": "OAUTH2", "access_token", "refresh_token"?, "expires_at"?, "config_override"?, "raw"}``."""

    name = "OAUTH2"

    def accept(self, form: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """An imported grant; the posted object is kept as `raw`, as the contract has it."""
        fields = Form(form, self.name)
        held: dict[str, Any] = {"type": self.name, "access_token": fields.token("access_token", limit=TOKEN_LIMIT)}
        refresh = fields.token("refresh_token", limit=TOKEN_LIMIT, required=False)
        if refresh:
            held["refresh_token"] = refresh
        ends = fields.moment("expires_at")
        if ends is None and form.get("expires_in") is not None:
            ends = fields.lifetime("expires_in", now)
        if ends is not None:
            held["expires_at"] = iso(ends)
        override = fields.mapping("config_override", ("client_id", "client_secret"))
        if override:
            held["config_override"] = override
        fields.finish("raw")
        held["raw"] = {key: value for key, value in form.items() if key not in {"config_override", "raw"}}
        return held

    def granted(
        self, provider: Provider, answer: Mapping[str, Any], received: datetime, before: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The credential in a token answer. An absent `refresh_token` keeps the one `before` held (RFC 6749 §6)."""
        before = before or {}
        held: dict[str, Any] = {"type": self.name, "access_token": answer["access_token"]}
        refresh = answer.get("refresh_token") or before.get("refresh_token")
        if refresh:
            held["refresh_token"] = refresh
        ends = expires_at(provider, answer, received)
        if ends is not None:
            held["expires_at"] = iso(ends)
        if before.get("config_override"):
            held["config_override"] = before["config_override"]
        held["raw"] = dict(answer)
        return held

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        return moment(held.get("expires_at"))

    def refreshable(self, held: Mapping[str, Any]) -> bool:
        return bool(held.get("refresh_token"))

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        token = Secret(held["access_token"])
        return {"accessToken": token, "access_token": token, "credentials.access_token": token}

    def default_headers(self, _provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}
