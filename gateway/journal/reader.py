"""Reads the journal: returns the recorded calls to token endpoints that are not released.

A call is released when the database has its reply, or when nobody needs the reply.
"""

import contextlib
import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.journal import marker, slot_files
from gateway.journal.journal_folder import slot_files_of
from gateway.journal.segment import BEGUN, RELEASED, REPLY, SKIPPED_ERRORS, SUFFIX, UNFINISHED, is_dead, records

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # they end by themselves
HEAD_KEYS: Final = {"ref", "row", "version", "attempt", "key", "step"}
# Creating a file takes milliseconds. A file that is unfinished after this many seconds belongs to a killed process.
UNFINISHED_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A record that is not released.

    `is_writer_alive`: whether the process that wrote the record is alive. `about`: the record's head. `sealed`: the
    sealed reply; empty if no reply is recorded. In a slot file, `sealed` can be a sealed credential.
    """

    is_writer_alive: bool
    about: dict[str, Any]
    sealed: bytes = field(repr=False)


def open_records(folder: Path, *, skip_damaged: bool = False) -> list[OpenRecord]:
    """Return the records that are not released, from all files. Slot files of earlier releases are included. Blocks.

    Raises OSError like `read`. With `skip_damaged`, it skips a file that cannot be read for another reason than a
    shortage of the system, because such a file may stay unreadable.
    """
    records = []
    for path in all_files(folder):
        is_writer_alive = not is_dead(path)  # check before reading: a dead writer adds no record after this check
        try:
            records_of_file = read(path)
        except OSError as fault:
            if not skip_damaged or fault.errno in SHORTAGES:
                raise
            continue
        records += [OpenRecord(is_writer_alive, members, sealed) for members, sealed in records_of_file]
    return records


def read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Return the head and the sealed reply of each record in the file that is not released.

    Return an empty list if the file was removed in the meantime, or if it is another user's file. Raises OSError if the
    file cannot be read now, for example because too many files are open. An empty list would hide a reply that is needed.
    """
    if path.suffix != SUFFIX:
        return slot_files.read(path)
    calls: dict[tuple[str, int], tuple[dict[str, Any], bytes]] = {}
    with contextlib.suppress(*SKIPPED_ERRORS):
        for kind, payload in records(path):
            head, _, sealed_reply = payload.partition(b"\n")
            try:
                members = json.loads(head)
            except ValueError:
                continue
            if not isinstance(members, dict):
                continue
            if kind in (BEGUN, REPLY) and members.keys() == HEAD_KEYS:
                calls[members["attempt"], members["step"]] = members, sealed_reply
            elif kind == RELEASED:
                for attempt, step in list(calls):
                    if attempt == members.get("attempt") and members.get("step", step) == step:
                        del calls[attempt, step]
    return list(calls.values())


def all_files(folder: Path) -> list[Path]:
    """Return the paths of all segments, and of the slot files that earlier releases wrote."""
    return [*sorted(folder.glob(f"*{SUFFIX}")), *slot_files.all_files(slot_files_of(folder))]


def markers(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{marker.SUFFIX}"))


def unfinished_files(folder: Path, now: float) -> Iterator[Path]:
    """Yield files that a killed process had not finished creating. `now`: the present time, in seconds since 1970."""
    for path in (*folder.glob(f"*{UNFINISHED}"), *slot_files.unfinished_files(slot_files_of(folder))):
        with contextlib.suppress(FileNotFoundError):  # another process finished and renamed the file in the meantime
            if now - path.stat().st_mtime > UNFINISHED_S:
                yield path
