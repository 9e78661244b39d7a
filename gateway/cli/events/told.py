"""A delivery as the commands show it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from gateway.records.event import Delivery


def told(one: "Delivery") -> dict[str, Any]:
    """As JSON, times in ISO 8601."""
    return {
        "id": one.message_id,
        "event": one.event,
        "at": _stamp(one.at),
        "environment": one.environment,
        "provider_config_key": one.integration_id,
        "connection_id": one.connection_id,
        "target": one.target,
        "state": one.state.value,
        "attempts": one.attempts,
        "next_attempt_at": _stamp(one.due_at),
        "ended_at": _stamp(one.ended_at),
        "status": one.status,
        "detail": one.detail,
    }


def day(moment: "datetime | None") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def _stamp(moment: "datetime | None") -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")
