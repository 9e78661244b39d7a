"""Who holds a lease, told from the owner's name: `{node}.{process}.{attempt}`.

`node` names a machine (`node_id`), `process` the file that a process of it keeps locked for as long as it lives. Owners of
former versions are `{process}.{attempt}`.
"""

import asyncio
import secrets
import uuid
from pathlib import Path
from typing import Final

from gateway.records.connection import Lease
from gateway.refresh.decision import Holder
from gateway.store.node_id import NONE, ONLY
from gateway.store.pairs import Pairs
from gateway.store.slot_file import is_dead

PARTS: Final = 3


class Holders:
    """`place`: what the names of those files begin with; None where there is no folder for them."""

    def __init__(self, place: Path | None, node: str, pairs: Pairs) -> None:
        self._place = place
        self._node = node
        self._pairs = pairs
        self._without_file = secrets.token_hex(6)
        self._ours = {self._without_file}

    async def new_owner(self) -> str:
        """A name for one attempt of this process."""
        process = await self._pairs.file_name() or self._without_file
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
        if self._place is None or not (former or node == self._node):
            return elsewhere
        file = self._place.with_name(f"{self._place.name}-{process}")
        return await asyncio.to_thread(_by_file, file) or (elsewhere if former else Holder.HERE_ENDED)


def process_of(lease: Lease) -> str:
    """The name of its holder's process, and of the end of its file's name; empty where the owner names none."""
    return lease.owner.rpartition(".")[0].rpartition(".")[2]


def _by_file(file: Path) -> Holder | None:
    """None where it is not there."""
    if is_dead(file):
        return Holder.HERE_DEAD
    return Holder.HERE_ALIVE if file.exists() else None
