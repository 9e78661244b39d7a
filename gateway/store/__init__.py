"""What must survive a restart, and the only folder that knows SQL (ADR 2).

    store.py                   The store as the rest of the gateway sees it: one object, one part a table.
    opening.py                 From a URL to an open store: look, prepare, migrate, load the keys. What it refuses,
                               it refuses in one line.
    preflight.py               `store.url` looked at before a start, by whichever way its database needs; the other
                               way is not even loaded.
    preflight_checks.py        What is refused in a database before it is opened, whichever it is; known without
                               SQLAlchemy.
    backend.py                 What a database must offer beneath the store; the name of this machine in leases.
    tables.py                  The schema. What is written here and what the migrations build is the same; a test
                               compares them.
    transactions.py            How the store reads and writes: every write in a task of its own; and the one
                               statement that differs by dialect.
    engine.py                  Engines: a writer and a reader. Those for SQLite: one connection writes and some
                               read; nothing else opens the file.
    database_faults.py         The store's edge: what drivers raise becomes one sentence for whoever runs or calls
                               the gateway.
    changes.py                 The change log: what other processes must see, and what this one has written itself;
                               old rows removed.
    connection_rows.py         Between a row of `connections` and the record; which rows a list names.
    connection_store.py        Connections: stored with their credential sealed, and versioned so that a late writer
                               loses.
    refreshes.py               What a refresh writes: lease, intent before the call, and what came of it, each
                               fenced (ADR 5, ADR 20).
    history.py                 The history of a connection's state, the last fifty changes; rejected credentials.
    edits.py                   What is changed of a connection without a new credential: metadata, tags, its end
                               user, where its events go.
    due_connections.py         Connections that need something soon: whose end is in sight, or whose refresh token
                               dies of disuse.
    cluster.py                 What nodes share: work that one does for all, who holds a lease, a failover of the
                               database.
    journal_recovery.py        The refresh journal as the store's processes use it: which connection a record
                               belongs to, and what an earlier process
    data_keys.py               Data keys: one that seals in each environment, wrapped in the database, counted,
                               replaced; missing master keys.
    rotation.py                Sealing everything again under the first master key, beside gateways that serve (ADR
                               22); how many values each key seals.
    pending_authorizations.py  Connect sessions, authorizations under way and what came of them, kept by digests.
    pending_connections.py     Connections that wait for the application to complete them: sealed as JSON, for ten
                               minutes, in no list and behind no proxy.
    outbox.py                  The outbox: events are written in the transaction of the change that they tell of, so
                               that none is lost and none is made up.
    deliveries.py              Deliveries: which are due and whose turn it is; events as an operator looks at them.
    received_webhooks.py       Providers' webhooks on their way in: whose they are, whether they came before, and
                               their place in the outbox.
    event_signing_keys.py      The keys that sign events, of environments whose configuration names none: minted
                               once, sealed, and rotated with an overlap.
    stored_integrations.py     Integrations made through the API, their secrets sealed. Every change is noted in
                               `changes`, by the integration's address.
    minted_keys.py             Minted keys, kept by their digests; each change is noted in `changes`, so that it
                               holds on every node at once.
    request_log_rows.py        The log of proxied requests: written in batches, pruned by age and number, never
                               waited for by a request.

Always true: a write is one transaction with its change log and its events; `preflight` and what it needs load no
SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.store.changes import ChangeLog, ChangesMissed, LogPosition
    from gateway.store.connection_rows import ListFilter, cursor_after
    from gateway.store.connection_store import ConnectionStore
    from gateway.store.deliveries import EventFilter
    from gateway.store.edits import Edit, UnknownConnection
    from gateway.store.opening import open_store
    from gateway.store.pending_authorizations import FlowStore, SessionStore
    from gateway.store.preflight_checks import StoreRefused
    from gateway.store.request_log_rows import RequestLog
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
    "ConnectionStore": "connection_store",
    "EventFilter": "deliveries",
    "Edit": "edits",
    "FlowStore": "pending_authorizations",
    "ListFilter": "connection_rows",
    "LogPosition": "changes",
    "RequestLog": "request_log_rows",
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
