"""Connects the refresh journal with the store (ADR 41).

Finds the connection of a record in the journal, and the replies of earlier processes. The head of a record contains the
attempt's key, sealed like a value of the database. So this module needs the vault. `gateway.journal` reads and writes
the files.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import clock
from gateway.errors import Unavailable
from gateway.journal import Entry, ProcessMarker, RecordedReply, new_attempt, new_key, open_reply
from gateway.journal.reader import OpenRecord, all_files, markers, open_records, read, unfinished_files
from gateway.journal.segment import is_dead
from gateway.journal.slot_files import process_of as slot_file_process
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.store.data_keys import DataKeys
from gateway.vault import Vault, VaultError

TABLE: Final = "pairs"  # not a table, but the name to which the sealed values of the journal have always been bound
CREDENTIAL: Final = "answer"  # the column name in releases that recorded credentials instead of replies
KEY: Final = "key"
READ_AGAIN_S: Final = 0.05
WAIT_S: Final = 30.0  # in seconds; longer than any token exchange
# In seconds. A refresh takes less time. After this time, its record or a dead process's marker is possibly not needed.
OVERDUE_S: Final = 60.0
RETRY_AFTER_S: Final = 5

ReadRow = Callable[[ConnectionRef], Awaitable[Connection | None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedCredential:
    """A credential in a record of an earlier release, which journalled credentials instead of replies."""

    values: Mapping[str, Any]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class EarlierReplies:
    """The replies that other processes have recorded, or a credential.

    `replies`: the newest attempt first; within an attempt, in the order of the calls. `credential`: None if only
    replies were recorded.
    """

    replies: tuple[RecordedReply, ...] = ()
    credential: RecordedCredential | None = None


class JournalUnreadable(Unavailable):
    """The journal, or a reply in it, cannot be read now."""

    def __init__(self, cause: str) -> None:
        message = f"The gateway's refresh journal cannot be read now: {cause}. Retry in {RETRY_AFTER_S} s."
        super().__init__("store_unavailable", message, retry_after_s=RETRY_AFTER_S)


class RefreshJournal:
    """The refresh journal of this machine.

    `folder`: the journal's folder; None if this machine has no such folder. Without a folder, nothing is recorded.
    `other_folders`: returns further folders of this machine, whose replies are used too. Files in them are not removed,
    and damaged files are skipped, because they possibly belong to another database. If
    the journal cannot be read now, it does not count as empty, because a token that is sent again may be lost: the
    methods that read replies raise JournalUnreadable, and `sweep` keeps files that it cannot read.
    """

    def __init__(
        self,
        folder: Path | None,
        vault: Vault,
        keys: DataKeys,
        other_folders: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self.folder = None if folder is None else folder.absolute()
        self._other_folders = other_folders
        self._vault = vault
        self._keys = keys
        self.marker = None if folder is None else ProcessMarker(folder)
        # The key: an open attempt or a dead process's marker. The value: when this process first saw it (monotonic
        # seconds).
        self._seen_at: dict[str, float] = {}
        # Dead files of other folders: what `stat` returned, and the heads of the replies.
        self._replies_by_path: dict[Path, tuple[tuple[int, int, int], list[dict[str, Any]]]] = {}

    async def process_name(self) -> str | None:
        """Return this process's name; None without a marker file.

        Other processes on this machine use the name to check whether this process is alive (`Holders.holder_of`).
        """
        return None if self.marker is None else await self.marker.name() or None

    async def open_records(self) -> Sequence[OpenRecord]:
        """Return the records that are not released."""
        return [] if self.folder is None else await self._open_records(self.folder)

    async def has_reply(self, row: Connection, records: Sequence[OpenRecord] | None = None) -> bool:
        """Return whether the journal has a readable reply for the present credential of `row`. Does not wait.

        `records`: the result of `open_records`, for a caller that asks about many rows; None to read the journal.
        """
        for record in await self.open_records() if records is None else records:
            if not record.sealed or (record.about["row"], record.about["version"]) != (row.uid, row.version):
                continue
            reading = self._reply(row, record) if "attempt" in record.about else self._credential(row, record.sealed)
            if await reading is not None:
                return True
        return False

    async def prepare(self, environment: str) -> None:
        """Prepare for a token exchange. Afterwards, sealing the attempt's key does not need the database."""
        if self.folder is not None:
            await self._keys.allow(environment)

    def entry(self, row: Connection) -> Entry | None:
        """Return the journal entry for one attempt to refresh `row`. Replies are recorded under this entry.

        None if this machine has no journal, or if the attempt's key cannot be sealed.
        """
        if self.folder is None:
            return None
        attempt, key = new_attempt(), new_key()
        try:
            sealed = self._vault.seal_json({"key": key.hex()}, environment=row.ref.environment, **place_of(row, KEY))
        except VaultError as fault:
            log.warning("refresh_not_journalled", connection_id=row.ref.connection_id, detail=str(fault))
            return None
        journal_fields = {"ref": row.ref, "row": row.uid, "version": row.version}
        return Entry(self.folder, attempt, {**journal_fields, "attempt": attempt, "key": sealed.ciphertext.hex()}, key)

    async def earlier_replies(self, row: Connection) -> EarlierReplies:
        """Return the replies that other processes received for the present credential of `row`.

        If another process has a token exchange under way, wait for its reply, at most `WAIT_S` seconds.
        """
        if self.folder is None:
            return EarlierReplies()
        deadline = clock.monotonic() + WAIT_S
        while True:
            in_flight, attempts = False, dict[str, list[RecordedReply]]()
            for record in await self._open_records(self.folder):
                if (record.about["row"], record.about["version"]) != (row.uid, row.version):
                    continue
                if "attempt" not in record.about:
                    credential = await self._credential(row, record.sealed)
                    if credential is not None:
                        return EarlierReplies(credential=credential)
                    continue
                reply = await self._reply(row, record)
                if reply is not None:
                    attempts.setdefault(reply.attempt, []).append(reply)
                in_flight = in_flight or (record.is_writer_alive and reply is None)
            if not in_flight or clock.monotonic() >= deadline:
                return EarlierReplies(_sorted_replies(attempts))
            await clock.sleep(READ_AGAIN_S)

    async def calls(self) -> list[tuple[ConnectionRef, str, int, bool]]:
        """Return the recorded token calls that are not released.

        Each tuple has the connection, the row and version of its credential, and whether a reply is recorded or can
        still arrive. A damaged file is skipped: the start, and the end of a failover, must not wait for it.
        """
        if self.folder is None:
            return []
        records = await self._open_records(self.folder, skip_damaged=True)
        return [
            (
                ConnectionRef(*record.about["ref"]),
                record.about["row"],
                record.about["version"],
                bool(record.sealed) or record.is_writer_alive,
            )
            for record in records
            if "attempt" in record.about
        ]

    async def sweep(
        self,
        read_row: ReadRow,
        release: Callable[[str], None],
        holding_processes: Container[str] = (),
        unchanged: Callable[[], Awaitable[bool]] | None = None,
    ) -> list[Connection]:
        """Remove what is not needed: files of dead processes, and unreleased attempts in files of running processes.

        A reply is needed as long as its refresh is open.

        - `read_row`: returns the present row of a connection
        - `release`: releases an attempt in this process's journal
        - `holding_processes`: the names of processes that hold leases; the markers of these processes stay, because
          only a marker shows that a process is dead
        - `unchanged`: returns whether the rows read so far are still current; None to skip this check

        Returns the connections with an open intent for which a dead process has left a reply, or for which a reply in a
        running process's file is overdue.
        """
        if self.folder is None:
            return []
        seen_names: set[str] = set()
        dead_files, living_files = await asyncio.to_thread(self._files)
        unneeded_files, recoverable_rows = await self._find_unneeded(dead_files, read_row, holding_processes)
        for record in await asyncio.to_thread(self._replies_elsewhere):
            row = await _open_row(record, read_row)
            if row is not None:
                recoverable_rows[row.ref] = row
        ended_attempts = list[str]()
        for path in living_files:
            unneeded_attempts, overdue_replies = await self._overdue_attempts(path, read_row, seen_names)
            ended_attempts += unneeded_attempts
            recoverable_rows |= overdue_replies
        if (unneeded_files or ended_attempts) and (unchanged is None or await unchanged()):
            for path in unneeded_files:
                path.unlink(missing_ok=True)
            for attempt in ended_attempts:
                release(attempt)
        for path in await asyncio.to_thread(self._dead_markers):
            if path.stem not in holding_processes and self._is_overdue(path.name, seen_names):
                path.unlink(missing_ok=True)
        self._seen_at = {name: since for name, since in self._seen_at.items() if name in seen_names}
        return list(recoverable_rows.values())

    async def _find_unneeded(
        self, dead_files: list[Path], read_row: ReadRow, holding_processes: Container[str]
    ) -> tuple[list[Path], dict[ConnectionRef, Connection]]:
        """Return the files of dead processes that are not needed, and the connections with a reply in a needed file."""
        unneeded_files, recoverable_rows = list[Path](), dict[ConnectionRef, Connection]()
        for path in dead_files:
            is_needed = slot_file_process(path) in holding_processes
            try:
                records = await asyncio.to_thread(read, path)
            except OSError:
                continue  # it can have a reply that is needed
            for record, sealed in records:
                row = await _open_row(record, read_row) if sealed else None
                if row is not None:
                    is_needed, recoverable_rows[row.ref] = True, row
            if not is_needed:
                unneeded_files.append(path)
        return unneeded_files, recoverable_rows

    async def _overdue_attempts(
        self, path: Path, read_row: ReadRow, seen_names: set[str]
    ) -> tuple[list[str], dict[ConnectionRef, Connection]]:
        """Return the attempts that a running process has not released, although their replies are no longer needed.

        Also return the connections with an overdue reply that is needed: only the parent, which wrote the reply, is
        possibly alive.
        """
        overdue_attempts, needed_rows = list[str](), dict[ConnectionRef, Connection]()
        try:
            records = await asyncio.to_thread(read, path)
        except OSError:
            return overdue_attempts, needed_rows
        for record, sealed in records:
            attempt = record.get("attempt")  # None in a file of an earlier release whose process still runs
            if not attempt or not self._is_overdue(attempt, seen_names):
                continue
            row = await _open_row(record, read_row)
            if row is None:
                overdue_attempts.append(attempt)
            elif sealed:
                needed_rows[row.ref] = row
        return overdue_attempts, needed_rows

    def close(self) -> None:
        if self.marker is not None:
            self.marker.close()

    def _is_overdue(self, name: str, seen_names: set[str]) -> bool:
        seen_names.add(name)
        return clock.monotonic() - self._seen_at.setdefault(name, clock.monotonic()) > OVERDUE_S

    def _files(self) -> tuple[list[Path], list[Path]]:
        assert self.folder is not None
        for path in unfinished_files(self.folder, time.time()):
            path.unlink(missing_ok=True)
        files = {path: is_dead(path) for path in all_files(self.folder)}
        return [path for path, dead in files.items() if dead], [path for path, dead in files.items() if not dead]

    def _replies_elsewhere(self) -> list[dict[str, Any]]:
        """Return the heads of the replies in the dead files of other folders.

        Each file is read once, because these files stay, and a dead process changes nothing in its file.
        """
        replies: dict[Path, tuple[tuple[int, int, int], list[dict[str, Any]]]] = {}
        for path in (path for folder in self._other_folders() for path in all_files(folder)):
            try:
                status = path.stat()
                # read before the check for a dead process
                file_state = status.st_ino, status.st_size, status.st_mtime_ns
                cached = self._replies_by_path.get(path)
                if cached is not None and cached[0] == file_state:
                    replies[path] = cached
                elif is_dead(path):
                    replies[path] = file_state, [record for record, sealed in read(path) if sealed]
            except OSError:
                continue  # the next call tries again: it can have a reply that is needed
        self._replies_by_path = replies
        return [record for _, heads in replies.values() for record in heads]

    def _dead_markers(self) -> list[Path]:
        assert self.folder is not None
        return [path for path in markers(self.folder) if is_dead(path)]

    async def _open_records(self, folder: Path, *, skip_damaged: bool = False) -> list[OpenRecord]:
        def read_all() -> list[OpenRecord]:
            records = open_records(folder, skip_damaged=skip_damaged)
            for other_folder in self._other_folders():
                records += open_records(other_folder, skip_damaged=True)
            return records

        try:
            return await asyncio.to_thread(read_all)
        except OSError as fault:
            raise JournalUnreadable(fault.strerror or str(fault)) from fault

    async def _credential(self, row: Connection, sealed_values: bytes) -> RecordedCredential | None:
        value = await self._decrypt_or_none(row, CREDENTIAL, sealed_values)
        if value is None:
            return None
        expires_at = value["expires_at"]
        return RecordedCredential(value["credential"], datetime.fromisoformat(expires_at) if expires_at else None)

    async def _reply(self, row: Connection, record: OpenRecord) -> RecordedReply | None:
        """Return the recorded reply; None if the reply is unreadable or has not arrived yet."""
        try:
            key = await self._decrypt_or_none(row, KEY, bytes.fromhex(record.about["key"])) if record.sealed else None
        except ValueError:  # the record is damaged
            return None
        return None if key is None else open_reply(bytes.fromhex(key["key"]), record.about, record.sealed)

    async def _decrypt_or_none(self, row: Connection, column: str, ciphertext: bytes) -> dict[str, Any] | None:
        sealed = Sealed(ciphertext, row.ref.environment, **place_of(row, column))
        try:
            await self._keys.load_keys_of(sealed)
            return self._vault.open_json(sealed)
        # the record was cut off when the process was killed, or its data key no longer exists
        except VaultError as fault:
            if self._keys.is_locked(sealed):
                raise JournalUnreadable(
                    "it needs an encryption key that store.encryption_keys does not have"
                ) from fault
            log.warning("refresh_record_unreadable", connection_id=row.ref.connection_id, detail=str(fault))
            return None


def place_of(row: Connection, column: str) -> Any:
    """Return the place that a value of `column` is bound to.

    The place has the version of the credential that will replace the present credential of `row`.
    """
    return {"table": TABLE, "row": row.uid, "column": column, "version": row.version + 1}


async def _open_row(record: Mapping[str, Any], read_row: ReadRow) -> Connection | None:
    """Return the connection of a record if its refresh is still open, else None."""
    row = await read_row(ConnectionRef(*record["ref"]))
    if row is None or row.intent is None or (row.uid, row.version) != (record["row"], record["version"]):
        return None
    return row


def _sorted_replies(attempts: Mapping[str, list[RecordedReply]]) -> tuple[RecordedReply, ...]:
    newest = sorted(attempts.values(), key=lambda steps: max(record.reply.asked_at for record in steps), reverse=True)
    return tuple(record for steps in newest for record in sorted(steps, key=lambda record: record.step))
