"""What must survive a restart, and the only folder that knows SQL (ADR 2).

Names are imported when first asked for: `look` and what it needs do without SQLAlchemy, whose loading alone may take a
second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.store.changes import ChangeLog, ChangesMissed, LogPosition
    from gateway.store.connections import ConnectionStore
    from gateway.store.edits import Edit, UnknownConnection
    from gateway.store.event_log import EventFilter
    from gateway.store.flows import FlowStore
    from gateway.store.listing import ListFilter, cursor_after
    from gateway.store.opening import open_store
    from gateway.store.refusal import StoreRefused
    from gateway.store.request_log import RequestLog
    from gateway.store.sessions import SessionStore
    from gateway.store.store import Store

__all__ = [
    "ChangeLog",
    "ChangesMissed",
    "ConnectionStore",
    "Edit",
    "EventFilter",
    "FlowStore",
    "ListFilter",
    "LogPosition",
    "RequestLog",
    "SessionStore",
    "Store",
    "StoreRefused",
    "UnknownConnection",
    "cursor_after",
    "open_store",
]

_HOMES: Final = {
    "ChangeLog": "changes",
    "ChangesMissed": "changes",
    "ConnectionStore": "connections",
    "EventFilter": "event_log",
    "Edit": "edits",
    "FlowStore": "flows",
    "ListFilter": "listing",
    "LogPosition": "changes",
    "RequestLog": "request_log",
    "SessionStore": "sessions",
    "Store": "store",
    "StoreRefused": "refusal",
    "UnknownConnection": "edits",
    "cursor_after": "listing",
    "open_store": "opening",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
