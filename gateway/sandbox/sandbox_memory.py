"""The sandbox's state file. The file is JSON, is replaced atomically, and only its owner can read it."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from gateway.sandbox.issued_grants import IssuedGrants
from gateway.sandbox.tracker import Tracker

VERSION = 1


class MemoryUnreadable(Exception):
    """The file exists, but is not a sandbox state file or is damaged. The text names the file and says what to do."""


class SandboxMemory:
    """Grants and issues, stored in a file or, without a path, only in memory."""

    def __init__(self, path: Path | None, *, token_ttl_s: int) -> None:
        """Read `path` if it exists. Raises MemoryUnreadable."""
        self._path = path
        self._write_lock = asyncio.Lock()
        stored = _read(path) if path is not None else None
        try:
            self.grants = (
                IssuedGrants.from_json(stored["grants"], token_ttl_s=token_ttl_s)
                if stored
                else IssuedGrants(token_ttl_s)
            )
            self.tracker = Tracker.from_json(stored["issues"]) if stored else Tracker()
        except (AttributeError, KeyError, TypeError) as fault:
            raise MemoryUnreadable(f"{path} is not a complete sandbox state file ({fault}); move it away.") from fault

    async def save(self) -> None:
        """Write the state to the disk if it has changed since the last save."""
        if self._path is None or not (self.grants.changed or self.tracker.changed):
            return
        async with self._write_lock:
            self.grants.changed = self.tracker.changed = False
            stored = {"version": VERSION, "grants": self.grants.as_json(), "issues": self.tracker.as_json()}
            await asyncio.to_thread(_replace, self._path, json.dumps(stored, indent=1).encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise MemoryUnreadable(f"{path} cannot be read as a sandbox state file ({fault}); move it away.") from fault
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        raise MemoryUnreadable(f"{path} is not a sandbox state file of version {VERSION}; move it away.")
    return stored


def _replace(path: Path, text: bytes) -> None:
    """Replace the file atomically.

    After a crash, the file has either the complete old text or the complete new text.
    """
    new_file = path.with_name(path.name + ".new")
    with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)
