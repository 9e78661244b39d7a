"""The store: keeps what must survive a restart, and is the only package that knows SQL (ADR 2). One file per area.

    store, opening, backend                         the store as one object; opening it; the interface of a database
    preflight, preflight_checks                     checks before a start, without SQLAlchemy
    tables, migrations                              the schema; its revisions
    transactions, database_faults                   reads and writes; messages for the errors of database drivers
    sqlite, postgres                                the code for one database only: SQLite or PostgreSQL
    changes, cluster, failover                      the change log; leases; recovery after a failover that lost commits
    connection_store, connection_rows, edits        connections; rows and lists; changes without a new credential
    refreshes                                       the writes of the refresh protocol
    history, due_connections                        state history; connections that are due for a refresh or end soon
    journal_recovery                                finds replies that a dead process left in the refresh journal
    data_keys, rotation                             data keys; seals all values again under a new master key
    pending_authorizations, pending_connections     sessions, flows and connections while an end user connects
    outbox, deliveries, received_webhooks           events to the application; webhooks of providers
    event_signing_keys, minted_keys                 keys that sign events; keys of callers
    console_sessions                                sign-ins to the console
    stored_integrations                             integrations created through the API
    audit                                           the audit trail, in a chain of hashes
    call_log                                        the call log, in files or tables of its own

Always true: a write commits its data, its change log entry and its events in one transaction. Secrets are sealed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.store.changes import ChangeLog, ChangesMissed, LogPosition
    from gateway.store.connection_rows import ListFilter, cursor_after
    from gateway.store.connection_store import ConnectionStore
    from gateway.store.deliveries import EventFilter
    from gateway.store.edits import Edit, InvalidMetadata, UnknownConnection
    from gateway.store.opening import open_store
    from gateway.store.pending_authorizations import FlowStore, SessionStore
    from gateway.store.preflight_checks import StoreRefused
    from gateway.store.store import Store

__all__ = [
    "ChangeLog",
    "ChangesMissed",
    "ConnectionStore",
    "Edit",
    "EventFilter",
    "FlowStore",
    "InvalidMetadata",
    "ListFilter",
    "LogPosition",
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
    "ConnectionStore": "connection_store",
    "EventFilter": "deliveries",
    "Edit": "edits",
    "FlowStore": "pending_authorizations",
    "ListFilter": "connection_rows",
    "LogPosition": "changes",
    "InvalidMetadata": "edits",
    "SessionStore": "pending_authorizations",
    "Store": "store",
    "StoreRefused": "preflight_checks",
    "UnknownConnection": "edits",
    "cursor_after": "connection_rows",
    "open_store": "opening",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
