"""The marker: a small locked file of each process that claims leases. It shows other local processes that it is
alive."""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.journal.place import UNWRITABLE_EFFECT, slot_files_of
from gateway.journal.segment import create_locked, is_dead

SUFFIX: Final = ".process"
RETRY_S: Final = 10.0  # after it could not be created

log = structlog.get_logger(__name__)


class ProcessMarker:
    """This process's marker in the journal's `folder`; created on first need, and again if somebody removed it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None
        self._name = ""
        self._creating = asyncio.Lock()  # refreshes that start together share one marker
        self._retry_at = 0.0

    async def name(self) -> str:
        """Return the file's name without its suffix; empty if it cannot be created, which is logged."""
        async with self._creating:
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
        """Remove the marker: this process no longer holds a lease."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                marker_path(self._folder, self._name).unlink()
            self.release()

    def release(self) -> None:
        """Release the lock and leave the file, as the system does for a killed process."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._name = None, ""


def marker_path(folder: Path, name: str) -> Path:
    return folder / f"{name}{SUFFIX}"


def is_alive(folder: Path, name: str) -> bool | None:
    """Return whether the process `name` is alive; None if it has neither a marker nor a slot file of an earlier
    release."""
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
