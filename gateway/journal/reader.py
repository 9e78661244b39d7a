"""The journal's one reader: finds calls that are recorded and not released."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.journal import marker, slot_files
from gateway.journal.place import slot_files_of
from gateway.journal.segment import BEGUN, RELEASED, REPLY, SUFFIX, UNFINISHED, is_dead, records

HEAD_KEYS: Final = {"ref", "row", "version", "attempt", "key", "step"}
UNFINISHED_S: Final = 600.0  # creating a file takes milliseconds


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A record that is not released. `is_writer_alive`: its writer is alive. `about`: its head. `sealed`: the sealed
    reply; empty while there is none."""

    is_writer_alive: bool
    about: dict[str, Any]
    sealed: bytes = field(repr=False)


def open_records(folder: Path) -> list[OpenRecord]:
    """Return the open records of all files, including slot files of earlier releases. Blocks."""
    found = []
    for path in all_files(folder):
        is_writer_alive = not is_dead(path)  # checked before reading, so that the writer's last record is not missed
        found += [OpenRecord(is_writer_alive, about, sealed) for about, sealed in read(path)]
    return found


def read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Return head and sealed reply of each open record in one file; nothing if the file was removed meanwhile."""
    if path.suffix != SUFFIX:
        return slot_files.read(path)
    calls: dict[tuple[str, int], tuple[dict[str, Any], bytes]] = {}
    with contextlib.suppress(OSError):
        for kind, payload in records(path):
            head, _, sealed = payload.partition(b"\n")
            try:
                about = json.loads(head)
            except ValueError:
                continue
            if kind in (BEGUN, REPLY) and about.keys() == HEAD_KEYS:
                calls[about["attempt"], about["step"]] = about, sealed
            elif kind == RELEASED:
                for attempt, step in list(calls):
                    if attempt == about.get("attempt") and about.get("step", step) == step:
                        del calls[attempt, step]
    return list(calls.values())


def all_files(folder: Path) -> list[Path]:
    """Return the segments, and the slot files of earlier releases."""
    return [*sorted(folder.glob(f"*{SUFFIX}")), *slot_files.all_files(slot_files_of(folder))]


def markers(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{marker.SUFFIX}"))


def unfinished_files(folder: Path, now: float) -> Iterator[Path]:
    """Yield files left by processes that were killed while creating them. `now` in seconds since 1970."""
    for path in (*folder.glob(f"*{UNFINISHED}"), *slot_files.unfinished_files(slot_files_of(folder))):
        with contextlib.suppress(FileNotFoundError):  # finished meanwhile
            if now - path.stat().st_mtime > UNFINISHED_S:
                yield path
