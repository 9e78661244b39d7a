"""Files that others may read although they hold secrets, and the room that is left on the disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.cli.diagnosis.finding import Finding, Level, ok
from gateway.cli.diagnosis.patient import Patient
from gateway.config.open_files import SQLITE, open_files

FULL_BYTES: Final = 100 << 20
TIGHT_BYTES: Final = 1 << 30


def files(patient: Patient) -> Iterator[Finding]:
    """Modes of the configuration, of the files it reads secrets from and of the database, and free space."""
    config = patient.config
    found = open_files(config)
    for one in found:
        yield Finding("warn", "files", one.message, str(one.path), one.fix)
    if not found:
        yield ok("files", "keys, configuration and database are their owner's alone")
    if config.store.url.startswith(SQLITE):
        yield _room(patient, Path(config.store.url.removeprefix(SQLITE)))


def _room(patient: Patient, database: Path) -> Finding:
    folder = database.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as fault:
        return Finding("warn", "disk", f"the free space of {folder} cannot be told: {fault.strerror}", str(folder))
    told = f"{free >> 20:,} MiB are free in {folder}"
    if free >= TIGHT_BYTES:
        return ok("disk", told)
    level: Level = "fail" if free < FULL_BYTES else "warn"
    where = patient.where("store", "url")
    return Finding(level, "disk", told, where, "make room, or let store.url name a file elsewhere")
