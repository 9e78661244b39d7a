"""The interface between the store and its two databases, and this machine's name, with which its lease owners begin."""

import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.journal.segment import sync_folder
from gateway.store.call_log.call_log_store import CallLogStore
from gateway.store.transactions import Transactions

# ── How a process notices the changes of other processes. SQLite and PostgreSQL need different code for this.


class ChangeWatch(Protocol):
    timeline: str | None
    """The database's timeline. The timeline changes when a standby takes over. None if unknown."""
    timeline_sql: str | None
    """The SQL expression that returns the timeline; None if the database has none."""

    async def wait_for_change(self, at_most_s: float) -> None:
        """Return when the database has possibly changed, at the latest after `at_most_s` seconds. Never raises."""

    async def version(self) -> Hashable:
        """Return a value that changes at least with each new entry in the change log.

        Compare it with the previous value to notice new entries. Raises Unavailable, ChangesMissed.
        """

    async def close(self) -> None: ...


# ── This machine's name, with which the names of its lease owners begin: a random id in the folder of the refresh
# journal. All processes of the machine use the same id.

NODE_ID_FILE: Final = "node-id"
ONLY_NODE: Final = "local"
"""The name with SQLite: only one machine uses the database, so there is no other node."""
NO_NODE_ID: Final = ""
"""The name without a journal folder. If a process of this machine dies, tokens that it has not stored are lost."""


def node_id(folder: Path) -> str:
    """Return this machine's name from `folder`; the first process creates the file.

    Returns `NO_NODE_ID` if the file can be neither read nor written.
    """
    path = folder / NODE_ID_FILE
    try:
        if path.exists() and not _read(path):
            path.unlink()  # the file is damaged, for example cut off by a power failure
        if not path.exists():
            new_file = folder / f"{NODE_ID_FILE}.{secrets.token_hex(6)}"
            with new_file.open("x") as file:
                file.write(secrets.token_hex(8))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(new_file, path)  # atomic: other processes see either no file or the complete file
            new_file.unlink()
            sync_folder(folder)
        return _read(path)
    except OSError:
        return NO_NODE_ID


def _read(path: Path) -> str:
    text = path.read_text(errors="replace").strip()
    return text if text.isascii() and text.isalnum() else NO_NODE_ID


# ── The interface of an opened database.

Upgrade: TypeAlias = Callable[[AsyncConnection], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Backend:
    """A database, checked and connected, but not migrated.

    - `database_name`: the name of the database in messages, without a password
    - `upgrade_exclusively`: runs an upgrade in one transaction, while no other process upgrades
    - `journal`: the folder of the refresh journal; None without a journal
    - `other_journals`: returns further folders of this machine that possibly have records for this database
    - `node`: the name of this machine (`node_id`)
    - `backed_up_at`: returns when `gateway backup` last copied the database; None if unknown
    """

    database_name: str
    transactions: Transactions
    watch: ChangeWatch
    upgrade_exclusively: Callable[[Upgrade], Awaitable[Any]]
    call_log: CallLogStore
    journal: Path | None = None
    other_journals: Callable[[], Sequence[Path]] = tuple
    node: str = NO_NODE_ID
    backed_up_at: Callable[[], datetime | None] = lambda: None

    async def close(self) -> None:
        await self.call_log.close()
        await self.watch.close()
        await self.transactions.close()
