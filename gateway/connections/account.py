"""Who authorized: told by the provider where the entry says how, by an ID token, or by a setting that names an account."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from gateway.auth.words import short
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.token import dig
from gateway.records.connection import Account
from gateway.scripts.context import ProviderUnreadable

LABELS: Final = ("email", "preferred_username", "name")  # of an ID token, in the order that people know them best
LONGEST: Final = 255


class Asking(Protocol):
    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    async def get_json(self, path: str) -> Any: ...


async def account_of(asking: Asking, held: Mapping[str, Any]) -> Account:
    """As far as it can be told. A provider that cannot be asked, or a scope that is lacking, is no failure."""
    form, raw = asking.provider.account, held.get("raw")
    if form is not None:
        answer: Any = raw
        if form.endpoint is not None:
            try:
                answer = await asking.get_json(form.endpoint)
            except ProviderUnreadable:
                answer = None
        if isinstance(answer, Mapping):
            label = next(filter(None, (_text(dig(answer, path)) for path in form.label)), None)
            found = Account(_text(dig(answer, form.id)) if form.id else None, label)
            if found != Account():
                return found
    claims = claims_in(raw.get("id_token")) if isinstance(raw, Mapping) else {}
    if subject := _text(claims.get("sub")):
        return Account(subject, next(filter(None, (_text(claims.get(name)) for name in LABELS)), None))
    return Account(_text(asking.config.get("accountId")), None)


def claims_in(id_token: object) -> Mapping[str, Any]:
    """The claims of an ID token that came straight from the token endpoint, where TLS stands for its signature (OpenID
    Connect Core 1.0 §3.1.3.7, 6). Empty for anything else.
    """
    parts = id_token.split(".") if isinstance(id_token, str) else []
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, Mapping) else {}


def check_same(provider: Provider, before: Account, now: Account) -> None:
    """Raises InvalidRequest where both are known and differ: what is stored for the one must not serve the other."""
    if before.id is None or now.id is None or before.id == now.id:
        return
    who = f" as {before.label}" if before.label else ""
    other = f" {now.label}" if now.label else ""
    raise InvalidRequest(
        "connection_validation_failed",
        f"This is another account of {provider.display_name}{other} than the one that was connected before. Nothing was "
        f"changed. Sign in{who} to renew this connection, or make a new one.",
        payload={"reason": "another_account"},
    )


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return short(str(value))[:LONGEST] or None
