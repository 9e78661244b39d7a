"""Who holds a lease, by the owner's name: `{node}.{process}.{attempt}`.

`node` names a machine (`node_id`), `process` the file that a process of it keeps locked for as long as it lives. Owners of
former versions are `{process}.{attempt}`.
"""

import asyncio
import secrets
import uuid
from pathlib import Path
from typing import Final

from gateway.journal.marker import lives
from gateway.records.connection import Lease
from gateway.refresh.decision import Holder
from gateway.store.node_id import NONE, ONLY
from gateway.store.refresh_journal import RefreshJournal

PARTS: Final = 3


class Holders:
    """`folder`: the journal's, where those files lie; None where there is none."""

    def __init__(self, folder: Path | None, node: str, journal: RefreshJournal) -> None:
        self._folder = folder
        self._node = node
        self._journal = journal
        self._without_file = secrets.token_hex(6)
        self._ours = {self._without_file}

    async def new_owner(self) -> str:
        """A name for one attempt of this process."""
        process = await self._journal.process_name() or self._without_file
        self._ours.add(process)
        return f"{self._node}.{process}.{uuid.uuid4().hex}"

    async def of(self, lease: Lease | None) -> Holder:
        """What is known here of the process that holds or held `lease`."""
        if lease is None:
            return Holder.NOBODY
        node, process = lease.owner.rpartition(".")[0].rpartition(".")[0], process_of(lease)
        former = lease.owner.count(".") == PARTS - 2
        elsewhere = Holder.HERE_ENDED if self._node == ONLY else Holder.ELSEWHERE
        if lease.owner.count(".") not in (PARTS - 1, PARTS - 2) or not process.isalnum():
            return elsewhere
        if process in self._ours:
            return Holder.HERE_ENDED
        if not former and node == NONE:
            return Holder.WITHOUT_JOURNAL
        if self._folder is None or not (former or node == self._node):
            return elsewhere
        alive = await asyncio.to_thread(lives, self._folder, process)
        if alive is None:
            return elsewhere if former else Holder.HERE_ENDED
        return Holder.HERE_ALIVE if alive else Holder.HERE_DEAD


def process_of(lease: Lease) -> str:
    """The name of its holder's process, and of its marker; empty where the owner names none."""
    return lease.owner.rpartition(".")[0].rpartition(".")[2]
