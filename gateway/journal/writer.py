"""Writes the journal: records the start, the reply and the release of each call to a token endpoint.

A process that calls token endpoints has one writer for each journal folder.
"""

import asyncio
import json
import secrets
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.journal.journal_folder import UNWRITABLE_EFFECT
from gateway.journal.segment import BEGUN, RELEASED, REPLY, SEGMENT_BYTES, Entry, Segment
from gateway.records.provider_call import ProviderCall, Reply

# The bytes that are reserved for a reply before the call is sent. A longer reply also uses free space, or a new file.
RESERVED_BYTES: Final = 16 << 10
SYNC_AFTER_S: Final = 0.05
RETRY_S: Final = 10.0  # seconds until the next try, after a file could not be created

log = structlog.get_logger(__name__)


class JournalWriter:
    """Writes records to files in `folder`. `fault`: why no record can be written now; None if records can be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault: str | None = None
        self._name = secrets.token_hex(6)
        self._number = 0
        self._active: Segment | None = None
        self._full_segments = set[Segment]()
        # For each attempt, the segment and the step of each of its calls.
        self._segments_by_attempt: dict[str, list[tuple[Segment, int]]] = defaultdict(list)
        self._create_lock = asyncio.Lock()
        self._retry_at = 0.0
        self._syncs = set[asyncio.Future[None]]()

    async def ready(self) -> bool:
        """Create a file if no writable file exists. Return whether there is a writable file now."""
        return await self._segment_with_room(0) is not None

    async def begin(self, entry: Entry, step: int) -> Segment | None:
        """Record that call number `step` of the attempt begins, and reserve space for its reply.

        Return the file that has the record, or None if nothing can be recorded.
        """
        head = entry.head(step)
        segment = await self._segment_with_room(len(head) + RESERVED_BYTES)
        if segment is None:
            return None
        try:
            segment.append(BEGUN, head)
        except OSError as fault:
            self._log_failure(fault, segment)
            return None
        segment.reserved += RESERVED_BYTES
        self._mark_open(entry.attempt, segment, step)
        return segment

    async def reply(self, entry: Entry, step: int, first_segment: Segment, call: ProviderCall, reply: Reply) -> bool:
        """Write `reply` to the journal, and return whether this succeeded.

        `first_segment`: the file that `begin` returned. If this file has no space, was removed or cannot be written,
        another file gets the reply. After `SYNC_AFTER_S` seconds, the record is synced to the disk, unless it has been
        released.
        """
        head = entry.head(step)
        payload = head + b"\n" + entry.seal_reply(head, call, reply)
        first_segment.reserved -= RESERVED_BYTES
        if first_segment.closed:
            return False
        segment = first_segment
        if (
            not first_segment.has_room(len(payload))
            or first_segment.removed
            or not self._append_reply(first_segment, payload)
        ):
            second_segment = await self._segment_with_room(len(payload))
            if second_segment is None or not self._append_reply(second_segment, payload):
                return False
            segment = second_segment
        if segment is not first_segment:
            self._mark_open(entry.attempt, segment, step)
            self._segments_by_attempt[entry.attempt].remove((first_segment, step))
            self._write_release(first_segment, entry.attempt, step, {"attempt": entry.attempt, "step": step})
        asyncio.get_running_loop().call_later(SYNC_AFTER_S, self._sync_if_open, segment, entry.attempt, step)
        return True

    def _append_reply(self, segment: Segment, payload: bytes) -> bool:
        try:
            segment.append(REPLY, payload)
        except OSError as fault:
            self._log_failure(fault, segment)
            return False
        return True

    def release_call(self, entry: Entry, step: int, first_segment: Segment) -> None:
        """Release a call that has no reply to record, because the call was refused, failed, or was not sent.

        `first_segment`: the file that `begin` returned.
        """
        first_segment.reserved -= RESERVED_BYTES
        segments = self._segments_by_attempt[entry.attempt]
        segments.remove((first_segment, step))
        if not segments:
            del self._segments_by_attempt[entry.attempt]
        self._write_release(first_segment, entry.attempt, step, {"attempt": entry.attempt, "step": step})

    def release(self, attempt: str) -> None:
        """Release the records of `attempt`, because the database has their content or nobody needs them.

        An unknown attempt is ignored.
        """
        for segment, step in self._segments_by_attempt.pop(attempt, []):
            self._write_release(segment, attempt, step, {"attempt": attempt})

    async def close(self) -> None:
        """Close all files, and remove each file whose records are all released.

        The next process reads the remaining files and finishes their refreshes.
        """
        if self._syncs:
            await asyncio.gather(*self._syncs, return_exceptions=True)
        for segment in (*self._full_segments, *filter(None, [self._active])):
            if segment.open_records:
                await asyncio.gather(asyncio.to_thread(segment.sync), return_exceptions=True)
            segment.close(remove=not segment.open_records)
        self._active, self._full_segments = None, set()

    async def _segment_with_room(self, size: int) -> Segment | None:
        """Return a file with space for `size` bytes; None if no file can be created.

        A new file is created if the current file is full or was removed.
        """
        if self._has_room(size):
            return self._active
        async with self._create_lock:
            if self._has_room(size):
                return self._active
            previous, self._active = self._active, None
            if previous is not None:
                self._retire_segment(previous)
            if clock.monotonic() < self._retry_at:
                return None
            self._number += 1
            try:
                new_segment = await asyncio.to_thread(
                    Segment, self.folder, f"{self._name}-{self._number}", max(SEGMENT_BYTES, 2 * size)
                )
            except OSError as fault:
                self._retry_at = clock.monotonic() + RETRY_S
                self._log_failure(fault)
                return None
            if self.fault is not None:
                log.info("refresh_journal_writable", folder=str(self.folder))
            self._active, self.fault = new_segment, None
            return new_segment

    def _has_room(self, size: int) -> bool:
        return self._active is not None and self._active.has_room(size) and not self._active.removed

    def _retire_segment(self, segment: Segment) -> None:
        if segment.removed:
            effect = "the gateway now writes a new file; never remove journal files of a running gateway"
            log.warning("refresh_journal_file_removed", path=str(segment.path), effect=effect)
        if segment.open_records:
            self._full_segments.add(segment)
        else:
            segment.close(remove=True)

    def _mark_open(self, attempt: str, segment: Segment, step: int) -> None:
        segment.open_records.add((attempt, step))
        self._segments_by_attempt[attempt].append((segment, step))

    def _write_release(self, segment: Segment, attempt: str, step: int, record: dict[str, object]) -> None:
        segment.open_records.discard((attempt, step))
        if segment in self._full_segments and not segment.open_records:
            self._full_segments.remove(segment)
            segment.close(remove=True)
            return
        try:
            segment.append(RELEASED, json.dumps(record).encode())
        except OSError:
            return  # harmless: readers ignore the record as soon as the database has a newer credential

    def _log_failure(self, fault: OSError, segment: Segment | None = None) -> None:
        """Log `fault`. Store its text in the attribute `fault`, unless the active file can still be written.

        `segment`: the file that could not be written, which the next call does not use; None if no file could be
        created.
        """
        detail = f"{self.folder}: {fault.strerror or fault}"
        log.error("refresh_journal_unwritable", detail=detail, effect=UNWRITABLE_EFFECT)
        if segment is None or segment is self._active:
            self.fault = detail
        if segment is not None and segment is self._active:
            self._active = None
            self._retire_segment(segment)

    def _sync_if_open(self, segment: Segment, attempt: str, step: int) -> None:
        """Sync the segment unless the record was released. Usually the database has the credential by now."""
        if (attempt, step) not in segment.open_records:
            return
        sync_task = asyncio.get_running_loop().run_in_executor(None, segment.sync)
        self._syncs.add(sync_task)
        sync_task.add_done_callback(partial(self._on_synced, segment))

    def _on_synced(self, segment: Segment, sync_task: "asyncio.Future[None]") -> None:
        self._syncs.discard(sync_task)
        fault = None if sync_task.cancelled() else sync_task.exception()
        # Without open records, a fault does not matter, and the segment can be closed already.
        if isinstance(fault, OSError) and segment.open_records:
            self._log_failure(fault, segment)
