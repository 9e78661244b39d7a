"""The journal's one writer in a process that exchanges tokens: records each call's start, its reply and its release."""

import asyncio
import json
import secrets
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.journal.place import UNWRITABLE_EFFECT
from gateway.journal.segment import BEGUN, RELEASED, REPLY, SEGMENT_BYTES, Entry, Segment
from gateway.records.provider_call import ProviderCall, Reply

# Space for a reply, reserved before the call. A longer reply uses free space, or a new file.
RESERVED_BYTES: Final = 16 << 10
SYNC_AFTER_S: Final = 0.05
RETRY_S: Final = 10.0  # after no file could be created

log = structlog.get_logger(__name__)


class JournalWriter:
    """Writes records to `folder`. `fault`: why nothing can be recorded now, None if all is well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault: str | None = None
        self._name = secrets.token_hex(6)
        self._number = 0
        self._active: Segment | None = None
        self._full = set[Segment]()
        # Attempt ▸ the segments and steps of its calls.
        self._segments_by_attempt: dict[str, list[tuple[Segment, int]]] = defaultdict(list)
        self._creating = asyncio.Lock()
        self._retry_at = 0.0
        self._syncs = set[asyncio.Future[None]]()

    async def ready(self) -> bool:
        """Ensure that a writable file exists; return whether it does."""
        return await self._segment_with_room(0) is not None

    async def begin(self, entry: Entry, step: int) -> Segment | None:
        """Record that this call begins, and reserve space for its reply. Returns the file with the record; None if
        nothing can be recorded."""
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

    async def reply(self, entry: Entry, step: int, first: Segment, call: ProviderCall, reply: Reply) -> bool:
        """Write `reply` to the journal; return whether that succeeded. `first`: what `begin` returned.

        The record is synced to the disk `SYNC_AFTER_S` later, unless it is released before.
        """
        head = entry.head(step)
        payload = head + b"\n" + entry.sealed(head, call, reply)
        first.reserved -= RESERVED_BYTES
        segment = first if first.fits(len(payload)) else await self._segment_with_room(len(payload))
        if segment is None:
            return False
        try:
            segment.append(REPLY, payload)
        except OSError as fault:
            self._log_failure(fault, segment)
            return False
        if segment is not first:
            self._mark_open(entry.attempt, segment, step)
            self._segments_by_attempt[entry.attempt].remove((first, step))
            self._write_release(first, entry.attempt, step, {"attempt": entry.attempt, "step": step})
        asyncio.get_running_loop().call_later(SYNC_AFTER_S, self._sync_if_open, segment, entry.attempt, step)
        return True

    def release_call(self, entry: Entry, step: int, first: Segment) -> None:
        """Release a call without a reply to record: it was refused, it failed, or it was not sent. `first`: what
        `begin` returned."""
        first.reserved -= RESERVED_BYTES
        segments = self._segments_by_attempt[entry.attempt]
        segments.remove((first, step))
        if not segments:
            del self._segments_by_attempt[entry.attempt]
        self._write_release(first, entry.attempt, step, {"attempt": entry.attempt, "step": step})

    def released(self, attempt: str) -> None:
        """Release the records of `attempt`: the database has their content, or nobody needs it.

        An unknown attempt is ignored.
        """
        for segment, step in self._segments_by_attempt.pop(attempt, []):
            self._write_release(segment, attempt, step, {"attempt": attempt})

    async def close(self) -> None:
        """Close all files and remove those without open records. The others stay for the next process, which finishes
        those refreshes."""
        if self._syncs:
            await asyncio.gather(*self._syncs, return_exceptions=True)
        for segment in (*self._full, *filter(None, [self._active])):
            if segment.open:
                await asyncio.gather(asyncio.to_thread(segment.sync), return_exceptions=True)
            segment.close(remove=not segment.open)
        self._active, self._full = None, set()

    async def _segment_with_room(self, size: int) -> Segment | None:
        """Return a file with space for `size` bytes; a new one if the current one is full or was removed."""
        if self._fits(size):
            return self._active
        async with self._creating:
            if self._fits(size):
                return self._active
            previous, self._active = self._active, None
            if previous is not None:
                self._retire_segment(previous)
            if clock.monotonic() < self._retry_at:
                return None
            self._number += 1
            try:
                new = await asyncio.to_thread(
                    Segment, self.folder, f"{self._name}-{self._number}", max(SEGMENT_BYTES, 2 * size)
                )
            except OSError as fault:
                self._retry_at = clock.monotonic() + RETRY_S
                self._log_failure(fault)
                return None
            if self.fault is not None:
                log.info("refresh_journal_writable", folder=str(self.folder))
            self._active, self.fault = new, None
            return new

    def _fits(self, size: int) -> bool:
        return self._active is not None and self._active.fits(size) and not self._active.removed

    def _retire_segment(self, segment: Segment) -> None:
        if segment.removed:
            effect = "the gateway now writes a new file; never remove journal files of a running gateway"
            log.warning("refresh_journal_file_removed", path=str(segment.path), effect=effect)
        if segment.open:
            self._full.add(segment)
        else:
            segment.close(remove=True)

    def _mark_open(self, attempt: str, segment: Segment, step: int) -> None:
        segment.open.add((attempt, step))
        self._segments_by_attempt[attempt].append((segment, step))

    def _write_release(self, segment: Segment, attempt: str, step: int, what: dict[str, object]) -> None:
        segment.open.discard((attempt, step))
        if segment in self._full and not segment.open:
            self._full.remove(segment)
            segment.close(remove=True)
            return
        try:
            segment.append(RELEASED, json.dumps(what).encode())
        except OSError:
            return  # readers ignore the record once the database has a newer credential

    def _log_failure(self, fault: OSError, segment: Segment | None = None) -> None:
        """Remember and log the fault. `segment`: the file that could not be written; the next call gets a new file."""
        self.fault = f"{self.folder}: {fault.strerror or fault}"
        log.error("refresh_journal_unwritable", detail=self.fault, effect=UNWRITABLE_EFFECT)
        if segment is not None and segment is self._active:
            self._active = None
            self._retire_segment(segment)

    def _sync_if_open(self, segment: Segment, attempt: str, step: int) -> None:
        """Sync the segment if the record is still open; usually the database has stored the credential by now."""
        if (attempt, step) not in segment.open:
            return
        syncing = asyncio.get_running_loop().run_in_executor(None, segment.sync)
        self._syncs.add(syncing)
        syncing.add_done_callback(partial(self._synced, segment))

    def _synced(self, segment: Segment, syncing: "asyncio.Future[None]") -> None:
        self._syncs.discard(syncing)
        fault = None if syncing.cancelled() else syncing.exception()
        if isinstance(fault, OSError) and segment.open:  # without open records the file may be closed already
            self._log_failure(fault, segment)
