"""The interface that each database implements for the store; the name of this machine in leases."""

import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.journal.segment import sync_folder
from gateway.store.call_log.call_log_store import CallLogStore
from gateway.store.transactions import Transactions

# ── How a process notices the changes of other processes: the part that differs by database.


class ChangeWatch(Protocol):
    timeline: str | None
    """The database's timeline, which a failover to a standby changes; None if unknown."""
    timeline_sql: str | None
    """The SQL expression that returns the timeline."""

    async def wait_for_change(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after `at_most_s`. Never raises."""

    async def version(self) -> Hashable:
        """Return a value that differs from the last one if anything was committed since.

        Raises Unavailable, ChangesMissed.
        """

    async def close(self) -> None: ...


# ── The name of this machine in lease owners: a random id in the folder of the refresh journal, for all its processes.

FILE: Final = "node-id"
ONLY: Final = "local"
"""The name with SQLite: the database belongs to one machine, so there is no other node."""
NONE: Final = ""
"""The name without a journal folder: tokens that this machine has received are lost when its processes die."""


def node_id(folder: Path) -> str:
    """Return this machine's name from `folder`; the first process creates it. Returns `NONE` if it can be neither read
    nor written."""
    path = folder / FILE
    try:
        if path.exists() and not _read(path):
            path.unlink()  # damaged, such as cut off by a power failure
        if not path.exists():
            fresh = folder / f"{FILE}.{secrets.token_hex(6)}"
            with fresh.open("x") as file:
                file.write(secrets.token_hex(8))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # atomic: other processes only see the complete file
            fresh.unlink()
            sync_folder(folder)
        return _read(path)
    except OSError:
        return NONE


def _read(path: Path) -> str:
    found = path.read_text(errors="replace").strip()
    return found if found.isascii() and found.isalnum() else NONE


# ── The interface of an opened database.

Upgrade: TypeAlias = Callable[[AsyncConnection], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Backend:
    """A database, checked and connected, but not migrated. `place` names it in messages, without a password.

    `alone` runs an upgrade in one transaction while no other process runs one. `journal`: the folder of the refresh
    journal, if any. `node`: the name of this machine (`node_id`). `backed_up_at` returns when `gateway backup` last
    copied the database; None if unknown.
    """

    place: str
    transactions: Transactions
    watch: ChangeWatch
    alone: Callable[[Upgrade], Awaitable[Any]]
    call_log: CallLogStore
    journal: Path | None = None
    node: str = NONE
    backed_up_at: Callable[[], datetime | None] = lambda: None

    async def close(self) -> None:
        await self.call_log.close()
        await self.watch.close()
        await self.transactions.close()
