"""Leases on tasks that one node does for all, and the state of the process that holds a lease."""

import asyncio
import secrets
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import delete, or_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.journal.marker import is_alive
from gateway.records.connection import Lease
from gateway.refresh.decision import Holder
from gateway.store.backend import NO_NODE_ID, ONLY_NODE
from gateway.store.journal_recovery import RefreshJournal
from gateway.store.tables import task_leases
from gateway.store.transactions import Transactions, insert_if_absent

# ── Tasks that one node does for all nodes. Each task has a lease, by name. If the holder stops renewing a lease,
# another node takes the lease over.


class TaskLeases:
    """Leases on tasks. `owner`: the name of a process. An owner renews a lease by taking it again."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def hold(self, name: str, *, owner: str, now: datetime, ttl: timedelta) -> bool:
        """Take or renew the lease `name` for `owner` until `now` + `ttl`. Return whether `owner` has the lease."""
        values = {"owner": owner, "until": now + ttl}
        is_free = or_(task_leases.c.owner == owner, task_leases.c.until <= now)

        async def write(db: AsyncConnection) -> bool:
            if await insert_if_absent(db, task_leases, {"name": name, **values}, key=["name"]):
                return True
            claim_update = update(task_leases).where(task_leases.c.name == name, is_free)
            return (await db.execute(claim_update.values(values))).rowcount == 1

        return await self._transactions.write(write)

    async def release(self, name: str, *, owner: str) -> None:
        """Release the lease, so that another owner can acquire it immediately. Do nothing if another owner has the lease."""
        lease_delete = delete(task_leases).where(task_leases.c.name == name, task_leases.c.owner == owner)
        await self._transactions.write(lambda db: db.execute(lease_delete))


# ── The holder of a lease. The lease names its owner: `{node}.{process}.{attempt}`.
#
# `node` names a machine (`node_id`). `process` names a marker file, which the process keeps locked as long as it runs.
# Former versions wrote owners as `{process}.{attempt}`.

OWNER_PARTS: Final = 3


class Holders:
    """Reports what this process knows about the holder of a lease.

    `folder`: the journal's folder with the marker files; None if this machine keeps no journal. `other_folders`: returns
    further folders of this machine with marker files.
    """

    def __init__(
        self,
        folder: Path | None,
        node: str,
        journal: RefreshJournal,
        other_folders: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._folder = folder
        self._other_folders = other_folders
        self._node = node
        self._journal = journal
        self.shared = node != ONLY_NODE
        """Whether gateways on several machines can use the database."""
        self._name_without_file = secrets.token_hex(6)
        self._own_processes = {self._name_without_file}

    async def new_owner(self) -> str:
        """Return the name of a lease owner, for one attempt of this process."""
        process = await self._journal.process_name() or self._name_without_file
        self._own_processes.add(process)
        return f"{self._node}.{process}.{uuid.uuid4().hex}"

    async def holder_of(self, lease: Lease | None) -> Holder:
        """Return what this process knows about the process that holds or held `lease`."""
        if lease is None:
            return Holder.NOBODY
        node, process = lease.owner.rpartition(".")[0].rpartition(".")[0], process_of(lease)
        has_former_form = lease.owner.count(".") == OWNER_PARTS - 2
        elsewhere_or_ended = Holder.HERE_ENDED if self._node == ONLY_NODE else Holder.ELSEWHERE
        if lease.owner.count(".") not in (OWNER_PARTS - 1, OWNER_PARTS - 2) or not process.isalnum():
            return elsewhere_or_ended
        if process in self._own_processes:
            return Holder.HERE_ENDED
        if not has_former_form and node == NO_NODE_ID:
            return Holder.WITHOUT_JOURNAL
        if self._folder is None or not (has_former_form or node == self._node):
            return elsewhere_or_ended
        holder_alive = await asyncio.to_thread(self._is_alive, self._folder, process)
        if holder_alive is None:
            return elsewhere_or_ended if has_former_form else Holder.HERE_ENDED
        return Holder.HERE_ALIVE if holder_alive else Holder.HERE_DEAD

    def _is_alive(self, folder: Path, process: str) -> bool | None:
        """Return whether the process is alive; None if no folder has a marker of the process."""
        is_running = is_alive(folder, process)
        if is_running is None:
            runs_elsewhere = (is_alive(other_folder, process) for other_folder in self._other_folders())
            is_running = next((state for state in runs_elsewhere if state is not None), None)
        return is_running


def process_of(lease: Lease) -> str:
    """Return the name of the holder's process, which is also the name of its marker file.

    Empty if the owner names no process.
    """
    return lease.owner.rpartition(".")[0].rpartition(".")[2]
