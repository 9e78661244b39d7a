"""A file in which a record is on the disk within a fraction of a millisecond: room is made beforehand, and written in place.

Records of a process that died stay readable in its file; `is_dead` tells by a lock that only the living hold.
"""

import contextlib
import errno
import fcntl
import glob
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
SYNC: Final = getattr(os, "fdatasync", os.fsync)  # macOS has the latter only
UNFINISHED: Final = ".new"
UNFINISHED_S: Final = 600.0  # to make one takes milliseconds


class SlotFile:
    """This process's own file, `{place}-{name}`. Blocks; safe to write from several threads at a time. Raises OSError."""

    def __init__(self, place: Path) -> None:
        self.name = secrets.token_hex(6)
        self.path = place.with_name(f"{place.name}-{self.name}")
        self._slots = 0
        self._free: list[int] = []
        self._needed = 0
        self._choosing = threading.Lock()
        unfinished = place.with_name(f"{place.name}.{self.name}{UNFINISHED}")
        self._fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._grow()
            unfinished.rename(self.path)  # under its own name nobody ever finds it without a lock
            _sync_folder(self.path.parent)
        except BaseException:
            for path in (unfinished, self.path):
                path.unlink(missing_ok=True)
            os.close(self._fd)
            raise

    @property
    def lost(self) -> bool:
        """Whether somebody has removed it, so that nobody would find what is written there."""
        return os.fstat(self._fd).st_nlink == 0

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
        self._put(HEAD.pack(MAGIC, len(record)) + record, room.start)

    def erase(self, room: range) -> None:
        """Have nobody find what is in `room`. Raises OSError."""
        self._put(bytes(HEAD.size), room.start)

    def sync(self) -> None:
        """On the disk is, when this returns, what was in the file before. Raises OSError."""
        SYNC(self._fd)

    def taken(self, size: int) -> range:
        """Room for a record of `size` bytes, until it is given back."""
        wanted = -(-(size + HEAD.size) // SLOT_BYTES)
        with self._choosing:
            if wanted > 1:
                at, self._slots = self._slots, self._slots + wanted
            else:
                if not self._free:
                    self._grow()
                at = self._free.pop()
            self._needed += 1
            return range(at, at + wanted)

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
        first = self._slots
        self._put(bytes(ROOM * SLOT_BYTES), first)
        os.fsync(self._fd)
        self._slots = first + ROOM
        self._free.extend(range(first, self._slots))

    def _put(self, content: bytes, slot: int) -> None:
        if os.pwrite(self._fd, content, slot * SLOT_BYTES) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


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


def unfinished_files(place: Path, now: float) -> list[Path]:
    """What processes have left that were killed while they made theirs."""
    found = []
    for path in place.parent.glob(f"{glob.escape(place.name)}.*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):  # finished meanwhile
            if now - path.stat().st_mtime > UNFINISHED_S:
                found.append(path)
    return found


def all_files(place: Path) -> list[Path]:
    return sorted(place.parent.glob(f"{glob.escape(place.name)}-*"))


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


def _sync_folder(path: Path) -> None:
    """That there is such a file is on the disk too."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
