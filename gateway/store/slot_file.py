"""A file in which a record is on the disk within a fraction of a millisecond: room is made beforehand, and written in place.

Records of a process that died stay readable in its file; `dead_files` finds those by a lock that only the living hold.
"""

import contextlib
import fcntl
import os
import secrets
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SLOT_BYTES: Final = 16 << 10
ROOM: Final = 8  # slots made at once: a file that grows costs a commit of the file system's own
HEAD: Final = struct.Struct("<4sI")
MAGIC: Final = b"pair"


class SlotFile:
    """This process's own file, `{place}-{random}`. Blocks; safe to write from several threads at a time."""

    def __init__(self, place: Path) -> None:
        self.name = secrets.token_hex(6)
        self.path = place.with_name(f"{place.name}-{self.name}")
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._slots = 0
        self._free: list[int] = []
        self._needed = 0
        self._choosing = threading.Lock()
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._grow()
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # that there is such a file is on the disk too
        finally:
            os.close(folder)

    def noted(self, record: bytes) -> range:
        """On the disk when this returns, in room of its own until that is given back. Raises OSError, and keeps none."""
        room = self.taken(len(record))
        try:
            self.write(room, record)
        except BaseException:
            self.give_back(room)
            raise
        return room

    def jotted(self, record: bytes) -> range | None:
        """In the file when this returns, so that it outlives this process, though not the machine: see `sync`. Does not block.

        None, and nothing is written, where that takes more room than is free just now.
        """
        if not fits(record, range(1)) or not self._choosing.acquire(blocking=False):
            return None
        try:
            if not self._free:
                return None
            at = self._free.pop()
            self._needed += 1
        finally:
            self._choosing.release()
        room = range(at, at + 1)
        try:
            self.put(room, record)
        except OSError:
            self.give_back(room)
            return None
        return room

    def put(self, room: range, record: bytes) -> None:
        """In the file when this returns, in place of what was in `room`, where it must fit. Raises OSError."""
        os.pwrite(self._fd, HEAD.pack(MAGIC, len(record)) + record, room.start * SLOT_BYTES)

    def erase(self, room: range) -> None:
        """Have nobody find what is in `room`. Raises OSError."""
        os.pwrite(self._fd, bytes(HEAD.size), room.start * SLOT_BYTES)

    def sync(self) -> None:
        """On the disk is, when this returns, what was in the file before. Raises OSError."""
        os.fdatasync(self._fd)

    def taken(self, size: int) -> range:
        """Room for a record of `size` bytes, until it is given back."""
        wanted = -(-(size + HEAD.size) // SLOT_BYTES)
        with self._choosing:
            self._needed += 1
            if wanted > 1:
                at, self._slots = self._slots, self._slots + wanted
                return range(at, at + wanted)
            if not self._free:
                self._grow()
            at = self._free.pop()
            return range(at, at + 1)

    def write(self, room: range, record: bytes) -> None:
        """On the disk when this returns. Raises OSError."""
        self.put(room, record)
        self.sync()

    def give_back(self, room: range) -> None:
        """Does not block for longer than room is being made elsewhere."""
        with self._choosing:
            self._needed -= 1
            self._free.extend(room)

    def close(self) -> None:
        """Remove it, unless there is a record in it whose room was not given back: that one is for whoever comes next."""
        if not self._needed:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)

    def _grow(self) -> None:
        first, self._slots = self._slots, self._slots + ROOM
        os.pwrite(self._fd, bytes(ROOM * SLOT_BYTES), first * SLOT_BYTES)
        os.fsync(self._fd)
        self._free.extend(range(first, self._slots))


def fits(record: bytes, room: range) -> bool:
    return len(record) + HEAD.size <= len(room) * SLOT_BYTES


def records(path: Path) -> Iterator[bytes]:
    """Whatever was written there and not written over; a record that was not written whole is left out by its reader."""
    with path.open("rb") as file:
        at = 0
        while head := file.read(HEAD.size):
            if len(head) == HEAD.size and head.startswith(MAGIC):
                yield file.read(HEAD.unpack(head)[1])
            at += SLOT_BYTES
            file.seek(at)


def all_files(place: Path) -> list[Path]:
    return sorted(place.parent.glob(f"{place.name}-*"))


def is_dead(path: Path) -> bool:
    """Whether whoever made it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)
