"""Defines a file of the journal. A file's space is allocated in advance, so that a full disk loses no reply.

    record = magic (4 bytes), kind (1), length of the payload (4), CRC-32 of kind and payload (4), payload

Integers are big-endian. The payload of BEGUN is a head in JSON. The payload of REPLY is a head, a line feed and the
sealed reply. The payload of RELEASED is JSON with the attempt; a step is added if the record releases only that call.
Reading stops at the first incomplete record.

The writer holds a lock (flock) on its file as long as it lives. A file without a lock belongs to a process that has
ended.
"""

import base64
import contextlib
import errno
import fcntl
import json
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from multidict import CIMultiDict

from gateway.records.provider_call import ProviderCall, Reply

SEGMENT_BYTES: Final = 1 << 20
SUFFIX: Final = ".journal"
UNFINISHED: Final = ".new"
MAGIC: Final = b"gwj1"
RECORD_HEAD: Final = struct.Struct(">4sBII")
BEGUN, REPLY, RELEASED = 1, 2, 3
# Errors of a path that has no reply for this process: it was removed, is another user's file, or is a folder.
SKIPPED_ERRORS: Final = (FileNotFoundError, PermissionError, IsADirectoryError)
CLOSED: Final = -1  # no file has this descriptor, so that using it fails with EBADF
sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class Segment:
    """A journal file of this process, `{folder}/{name}.journal`. The constructor creates the file. Raises OSError.

    - `next_offset`: the offset of the next record, in bytes
    - `reserved`: the number of bytes kept free for the replies to calls in flight
    - `open_records`: the attempt and step of each record in this file that is not released
    """

    def __init__(self, folder: Path, name: str, size: int = SEGMENT_BYTES) -> None:
        folder.mkdir(mode=0o700, parents=False, exist_ok=True)
        self.path = folder / f"{name}{SUFFIX}"
        self.size = size
        self.next_offset = 0
        self.reserved = 0
        self.open_records: set[tuple[str, int]] = set()
        self._fd = create_locked(self.path, self._prepare)
        try:
            sync_folder(folder)
        except BaseException:
            self.path.unlink(missing_ok=True)
            os.close(self._fd)
            raise

    def _prepare(self, fd: int) -> None:
        _allocate(fd, self.size)
        os.fsync(fd)

    @property
    def closed(self) -> bool:
        return self._fd == CLOSED

    @property
    def removed(self) -> bool:
        """Whether somebody removed the file. Readers cannot find new records in a removed file."""
        return os.fstat(self._fd).st_nlink == 0

    def has_room(self, size: int) -> bool:
        """Return whether a payload of `size` bytes fits into the space that is not reserved."""
        return self.next_offset + RECORD_HEAD.size + size <= self.size - self.reserved

    def append(self, kind: int, payload: bytes) -> None:
        """Append a record. Raises OSError.

        The record then survives the end of this process. The record survives a crash of the machine only after `sync`.
        """
        record = frame(kind, payload)
        if self.next_offset + len(record) > self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if os.pwrite(self._fd, record, self.next_offset) < len(record):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        self.next_offset += len(record)

    def sync(self) -> None:
        """Wait until all appended records are on the disk. Blocks. Raises OSError."""
        sync_data(self._fd)

    def close(self, *, remove: bool) -> None:
        """Close the file. From then on, `append` and `sync` raise OSError, also for a call that is still in flight.

        The descriptor is forgotten, because its number soon belongs to another file of this process. If the file cannot
        be removed, for example on a disk that became read-only, the recovery removes it later.
        """
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = CLOSED


def frame(kind: int, payload: bytes) -> bytes:
    return RECORD_HEAD.pack(MAGIC, kind, len(payload), zlib.crc32(payload, kind)) + payload


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and payload of each record, up to the first incomplete one. Raises OSError."""
    with path.open("rb") as file:
        while len(head := file.read(RECORD_HEAD.size)) == RECORD_HEAD.size:
            magic, kind, length, checksum = RECORD_HEAD.unpack(head)
            if magic != MAGIC or length > 1 << 30:
                return
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload, kind) != checksum:
                return
            yield kind, payload


def create_locked(path: Path, prepare: Callable[[int], None] = lambda _fd: None) -> int:
    """Create and lock the file `path`, and return its descriptor.

    This process holds the lock until it ends or closes the descriptor. `prepare`: called with the descriptor before the
    file gets its final name, so that other processes never see the file unlocked or half written. Raises OSError; the
    unfinished file is then removed.
    """
    unfinished_path = path.with_suffix(UNFINISHED)
    fd = os.open(unfinished_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        prepare(fd)
        unfinished_path.rename(path)
    except BaseException:
        unfinished_path.unlink(missing_ok=True)
        os.close(fd)
        raise
    return fd


def is_dead(path: Path) -> bool:
    """Return whether the process that locked the file has ended. Return False if the file does not exist."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared lock lets other processes check at the same time
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Sync the folder `path`, so that a file created in it survives a crash of the machine."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _allocate(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    elif os.pwrite(fd, bytes(size), 0) < size:  # macOS has no posix_fallocate
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# ── The content of a journal record.
#
# The process that calls token endpoints does not have the store's encryption keys. So it gets a key for each refresh
# attempt, and seals the attempt's replies with this key. The record's head contains the key in sealed form, so that
# later only a process with the store's keys can read the replies.

KEY_BITS: Final = 256
NONCE_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """Describes where and how the replies of one refresh attempt are recorded.

    `folder`: the journal's folder. `about`: the names of the credential (`ref`, `row`, `version`) and of the attempt,
    and the attempt's key in sealed form. `key`: the same key in plain text.
    """

    folder: Path
    attempt: str
    about: Mapping[str, Any]
    key: bytes = field(repr=False)

    def head(self, step: int) -> bytes:
        """Return the head of the record for one call of the attempt. `step`: the call's number, counted from 0."""
        return json.dumps({**self.about, "step": step}).encode()

    def seal_reply(self, head: bytes, call: ProviderCall, reply: Reply) -> bytes:
        """Return `reply` in sealed form, with the name of its `call`. The result opens only with the same `head`."""
        nonce = os.urandom(NONCE_BYTES)
        plain = {
            "call": call_name(call),
            "status": reply.status,
            "headers": list(reply.headers.items()),
            "body": base64.b64encode(reply.body).decode(),
            "asked_at": reply.asked_at.isoformat(),
        }
        return nonce + AESGCM(self.key).encrypt(nonce, json.dumps(plain).encode(), head + b"\n")


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply that was read from the journal.

    `step`: the number of the call in its attempt, counted from 0. `call`: the method and URL of the request, as
    `call_name` returns them.
    """

    attempt: str
    step: int
    call: str = field(repr=False)
    reply: Reply


def new_key() -> bytes:
    return AESGCM.generate_key(KEY_BITS)


def new_attempt() -> str:
    return secrets.token_hex(8)


def call_name(call: ProviderCall) -> str:
    return f"{call.method} {call.url}"


def open_reply(key: bytes, members: Mapping[str, Any], sealed_reply: bytes) -> RecordedReply | None:
    """Return the reply that `Entry.seal_reply` sealed; None if `sealed_reply` is incomplete or was changed.

    `members`: the parsed head of the record that has the reply.
    """
    head = json.dumps(members).encode() + b"\n"
    try:
        value = json.loads(AESGCM(key).decrypt(sealed_reply[:NONCE_BYTES], sealed_reply[NONCE_BYTES:], head))
    except (InvalidTag, ValueError):
        return None
    asked_at = datetime.fromisoformat(value["asked_at"])
    reply = Reply(value["status"], CIMultiDict(value["headers"]), base64.b64decode(value["body"]), asked_at)
    return RecordedReply(members["attempt"], members["step"], value["call"], reply)
