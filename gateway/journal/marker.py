"""Keeps the marker, a small locked file that shows other processes on this machine that its owner is alive.

Each process that claims leases has a marker.
"""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.journal.journal_folder import UNWRITABLE_EFFECT, slot_files_of
from gateway.journal.segment import create_locked, is_dead

SUFFIX: Final = ".process"
RETRY_S: Final = 10.0  # seconds until the next try, after the marker could not be created

log = structlog.get_logger(__name__)


class ProcessMarker:
    """This process's marker in the journal's `folder`.

    `name` creates the marker on its first call, and again if somebody removed the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None
        self._name = ""
        self._create_lock = asyncio.Lock()  # refreshes that start together share one marker
        self._retry_at = 0.0

    async def name(self) -> str:
        """Return the marker's file name without suffix. If the marker cannot be created, log an error and return ""."""
        async with self._create_lock:
            if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
                self.release()
            if self._fd is None and clock.monotonic() >= self._retry_at:
                try:
                    self._name, self._fd = await asyncio.to_thread(_create_marker, self._folder)
                except OSError as fault:
                    self._retry_at = clock.monotonic() + RETRY_S
                    detail = f"{self._folder}: {fault.strerror or fault}"
                    log.error("refresh_journal_unwritable", detail=detail, effect=UNWRITABLE_EFFECT)
            return self._name

    def close(self) -> None:
        """Remove the marker, because this process no longer holds a lease."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                marker_path(self._folder, self._name).unlink()
            self.release()

    def release(self) -> None:
        """Release the lock but keep the file. A killed process leaves its marker in the same state."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._name = None, ""


def marker_path(folder: Path, name: str) -> Path:
    return folder / f"{name}{SUFFIX}"


def is_alive(folder: Path, name: str) -> bool | None:
    """Return whether the process `name` is alive.

    Return None if the process has no marker and no slot file, which earlier releases wrote.
    """
    slots = slot_files_of(folder)
    for path in (marker_path(folder, name), slots.with_name(f"{slots.name}-{name}")):
        if is_dead(path):
            return False
        if path.exists():
            return True
    return None


def _create_marker(folder: Path) -> tuple[str, int]:
    folder.mkdir(mode=0o700, exist_ok=True)
    name = secrets.token_hex(6)
    return name, create_locked(marker_path(folder, name))
