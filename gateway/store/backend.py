"""The interface of a database beneath the store; the name of this machine in leases."""

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

# ── How a process learns that another one has changed something: the part that differs by database.


class ChangeWatch(Protocol):
    timeline: str | None
    """Names the history that the database goes by, which a failover to a standby changes; None where that is not known."""
    timeline_sql: str | None
    """The SQL expression for that name."""

    async def moved(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after so many seconds. Never raises."""

    async def version(self) -> Hashable:
        """Return a value that differs from the last one if something was committed since.

        Raises Unavailable, ChangesMissed.
        """

    async def close(self) -> None: ...


# ── The name of this machine in the owners of leases: a random id in the folder of its refresh journal, shared by its
# processes.

FILE: Final = "node-id"
ONLY: Final = "local"
"""With SQLite: the folder goes with the database, so there is no other node."""
NONE: Final = ""
"""Where there is no folder: what this machine has received dies with its processes."""


def node_id(folder: Path) -> str:
    """Read it, or make it: of several processes the first one does. `NONE` where it can be neither read nor written."""
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
                os.link(fresh, path)  # complete from the moment that it can be seen
            fresh.unlink()
            sync_folder(folder)
        return _read(path)
    except OSError:
        return NONE


def _read(path: Path) -> str:
    found = path.read_text(errors="replace").strip()
    return found if found.isascii() and found.isalnum() else NONE


# ── What a database must offer beneath the store, and what is the same above it.

Upgrade: TypeAlias = Callable[[AsyncConnection], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Backend:
    """Looked at and connected, but not migrated. `place` names it without a password.

    `alone` runs an upgrade in one transaction while no other process runs one. `journal`: the folder of the refresh
    journal, if there is one. `node`: the name of this machine (`node_id`). `backed_up_at`: when `gateway backup` last
    copied it; None where that is not known.
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
