"""What must survive a restart, and the only folder that knows SQL (ADR 2)."""

from gateway.store.changes import ChangeLog, ChangesMissed
from gateway.store.connections import ConnectionStore
from gateway.store.faults import StoreRefused
from gateway.store.flows import FlowStore
from gateway.store.listing import ListFilter, cursor_after
from gateway.store.opening import open_store
from gateway.store.request_log import RequestLog
from gateway.store.sessions import SessionStore
from gateway.store.store import Store

__all__ = [
    "ChangeLog",
    "ChangesMissed",
    "ConnectionStore",
    "FlowStore",
    "ListFilter",
    "RequestLog",
    "SessionStore",
    "Store",
    "StoreRefused",
    "cursor_after",
    "open_store",
]
