"""A connection that is not stored yet, as JSON to be sealed, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from gateway.records.connection import Account, ConnectionRef, Lifespan, NewConnection, RefreshFailure
from gateway.store.end_users import end_user_from_json, end_user_to_json

PLAIN: Final = (
    "provider",
    "credential",
    "config",
    "secret_config",
    "metadata",
    "tags",
    "webhook_url_override",
    "warning",
)


def new_to_json(new: NewConnection) -> dict[str, Any]:
    """Everything of it but its address."""
    return {
        **{name: _plain(getattr(new, name)) for name in PLAIN},
        "expires_at": _text(new.expires_at),
        "end_user": end_user_to_json(new.end_user),
        "life": [_text(new.life.dies_at), _text(new.life.keep_alive_at), new.life.settled],
        "account": [new.account.id, new.account.label],
        "ended": None
        if new.ended is None
        else {**asdict(new.ended), "at": _text(new.ended.at), "retry_at": _text(new.ended.retry_at)},
    }


def new_from_json(ref: ConnectionRef, stored: Mapping[str, Any]) -> NewConnection:
    dies_at, keep_alive_at, settled = stored["life"]
    ended = stored["ended"]
    return NewConnection(
        ref=ref,
        **{name: stored[name] for name in PLAIN},
        expires_at=_time(stored["expires_at"]),
        end_user=end_user_from_json(stored["end_user"]),
        life=Lifespan(_time(dies_at), _time(keep_alive_at), settled),
        account=Account(*stored["account"]),
        ended=None
        if ended is None
        else RefreshFailure(**{**ended, "at": _time(ended["at"]), "retry_at": _time(ended["retry_at"])}),
    )


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _text(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
