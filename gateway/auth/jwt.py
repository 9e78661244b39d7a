"""JWT: a token that we sign with the end user's key is the access token; it is signed anew before it ends (RFC 7519)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.exchanged import ExchangedMode
from gateway.auth.form import Form
from gateway.auth.jwts import signed
from gateway.auth.members import typed_values
from gateway.auth.mode import Dialogue
from gateway.auth.moments import iso
from gateway.catalog.provider import Provider
from gateway.oauth.token import TokenRefused
from gateway.secret import Secret

OURS: Final = ("token", "expires_at")


class Jwt(ExchangedMode):
    """Held as ``{"type": "JWT", <what the entry asks for>, "token", "expires_at"}``. Nothing is asked of the provider."""

    name = "JWT"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = Form(form, self.types())
        typed = {name: fields.given(name, setting) for name, setting in provider.credentials.items()}
        fields.finish(*OURS)  # a token that somebody else signed is not ours to renew: it is signed anew
        return {"type": self.name, **{name: value for name, value in typed.items() if value is not None}}

    def renew(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        yield from ()
        if context.provider.jwt is None:
            raise TokenRefused("invalid_key", f"the entry of '{context.provider.name}' does not say what to sign")
        typed = {name: value for name, value in held.items() if name not in OURS}
        token, ends = signed(context.provider.jwt, context, typed_values(typed), clock.now())
        return {**typed, "token": token.reveal(), "expires_at": iso(ends)}

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(held, held.get("token"))

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}
