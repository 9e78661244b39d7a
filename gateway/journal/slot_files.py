"""Reads slot files, which releases without a journal wrote next to a database. This module never writes slot files.

A file `{prefix}-{name}` consists of slots of 16 KiB. `name` is the name of the process that wrote the file. Each slot
contains a record or zeros. A record is a line of JSON and a sealed part. If the JSON has ``attempt``, the sealed part
is a reply, as in the journal. Otherwise the sealed part is a whole credential, sealed like a value of the database.
"""

import glob
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gateway.journal.segment import SKIPPED_ERRORS

SLOT_BYTES: Final = 16 << 10
HEAD: Final = struct.Struct("<4sI")
MAGIC: Final = b"pair"
UNFINISHED: Final = ".new"
CREDENTIAL_KEYS: Final = {"ref", "row", "version"}
KEYS: Final = (CREDENTIAL_KEYS, CREDENTIAL_KEYS | {"attempt", "key", "step"})


def all_files(prefix: Path) -> list[Path]:
    """Return the paths of all slot files. `prefix`: the start of these paths, before ``-{name}``."""
    return sorted(prefix.parent.glob(f"{glob.escape(prefix.name)}-*"))


def process_of(path: Path) -> str:
    """Return the name of the process that wrote the file `path`. The `owner` of a lease contains the same name."""
    return path.name.rpartition("-")[2]


def unfinished_files(prefix: Path) -> list[Path]:
    return list(prefix.parent.glob(f"{glob.escape(prefix.name)}.*{UNFINISHED}"))


def read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Return the JSON head and the sealed part of each record.

    Return an empty list if the file was removed in the meantime, or if it is another user's file. Raises OSError if the
    file cannot be read now.
    """
    records = []
    try:
        for record in _records(path):
            head, newline, sealed_part = record.partition(b"\n")
            try:
                members = json.loads(head) if newline else None
            except ValueError:
                continue
            if isinstance(members, dict) and members.keys() in KEYS:
                records.append((members, sealed_part))
    except SKIPPED_ERRORS:
        pass
    return records


def _records(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        position = 0
        while head := file.read(HEAD.size):
            if len(head) == HEAD.size and head.startswith(MAGIC):
                yield file.read(HEAD.unpack(head)[1])
            position += SLOT_BYTES
            file.seek(position)
