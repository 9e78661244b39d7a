"""Journal files as another process writes them, and files in the format that was used before the journal."""

import secrets
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.journal import Entry
from gateway.journal.reader import OpenRecord, open_records
from gateway.journal.segment import BEGUN, REPLY, Segment
from gateway.records.provider_call import ProviderCall, Reply


class JournalFile:
    """The journal file of another process. The process counts as alive until `die` is called."""

    def __init__(self, folder: Path) -> None:
        self.segment = Segment(folder, secrets.token_hex(6))
        self.path = self.segment.path

    def begin(self, entry: Entry, step: int = 0) -> None:
        self.segment.append(BEGUN, entry.head(step))

    def reply(self, entry: Entry, call: ProviderCall, reply: Reply, step: int = 0) -> None:
        head = entry.head(step)
        self.segment.append(REPLY, head + b"\n" + entry.seal_reply(head, call, reply))

    def die(self) -> None:
        """Close the file as the system does when a process is killed."""
        self.segment.close(remove=False)


def slot_file(place: Path, records: Sequence[bytes]) -> Path:
    """Write the file `{place}-{name}` of a dead process, in the format of releases that had no journal."""
    path = place.with_name(f"{place.name}-{secrets.token_hex(6)}")
    slots = [struct.pack("<4sI", b"pair", len(record)) + record for record in records]
    path.write_bytes(b"".join(slot.ljust(16 << 10, b"\0") for slot in slots) + bytes(8 * (16 << 10)))
    return path


def left(folder: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Return the records that are not released, as (description, sealed reply)."""
    return [(record.about, record.sealed) for record in open_records(folder)]


def living(folder: Path) -> list[OpenRecord]:
    """Return the records of processes that are still alive."""
    return [record for record in open_records(folder) if record.is_writer_alive]
