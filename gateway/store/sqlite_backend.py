"""The store in a SQLite file."""

import asyncio
from typing import Final

from gateway.journal.place import journal_beside
from gateway.store.backend import Backend
from gateway.store.common_commit import CommonCommit
from gateway.store.engine import sqlite_engines, sqlite_watcher
from gateway.store.look import look, sqlite_path
from gateway.store.node_id import ONLY
from gateway.store.sqlite_file import prepare, still_there
from gateway.store.sqlite_watch import SqliteWatch
from gateway.vault import Keyring

QUEUED: Final = 3  # times as long as for others: whoever waits for its turn here sees the queue move


async def open_sqlite(url: str, keyring: Keyring, *, busy_s: float) -> Backend:
    """A write waits at most `busy_s` for other processes, and three times as long for its turn here. Raises StoreRefused."""
    path = sqlite_path(url)
    await asyncio.to_thread(look, path, keyring)
    await asyncio.to_thread(prepare, path, busy_s=busy_s)
    transactions = CommonCommit(sqlite_engines(path, busy_s=busy_s), queue_s=QUEUED * busy_s, check=still_there(path))
    watch = SqliteWatch(sqlite_watcher(path, busy_s=busy_s), path)
    # The one writer's lock keeps others waiting.
    return Backend(str(path), transactions, watch, transactions.write, journal_beside(path), ONLY)
