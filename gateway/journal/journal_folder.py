"""Chooses the journal's folder: next to the SQLite file, or a local folder if nodes share a database."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

FOLDER_SUFFIX: Final = "-refresh-journal"  # SQLite uses the suffix "-journal" for its own files
STATE_VARIABLE: Final = (
    "STATE_DIRECTORY"  # systemd sets this variable for a unit with StateDirectory=; that folder outlives the service
)
TEMPORARY_FOLDER: Final = ("TMPDIR", "/tmp")  # noqa: S108 (the folder's owner is checked)
NO_FOLDER: Final = (
    "no folder for the refresh journal: set STATE_DIRECTORY (systemd: StateDirectory=) or TMPDIR to a folder that the "
    "gateway can write to; integration-gateway-<uid> in that folder must belong to the gateway's user and have mode 0700"
)
UNWRITABLE_EFFECT: Final = "a process that is killed during a refresh may lose that token"


def journal_beside(database: Path) -> Path:
    """Return the journal's folder, next to the SQLite file `database`. If `database` is a link, next to its target, as
    SQLite does with its own files."""
    return _journal_folder_beside(database.resolve())


def other_journals_beside(database: Path) -> list[Path]:
    """Return the folder next to the link `database`, where earlier releases wrote the journal; empty without a link."""
    folder = _journal_folder_beside(database)
    return [] if folder.resolve() == journal_beside(database) else [folder]


def _journal_folder_beside(database: Path) -> Path:
    return database.with_name(f"{database.name}{FOLDER_SUFFIX}")


def journal_of_node(database: str) -> Path | None:
    """Return the journal's folder for a database that nodes share; None if no folder can be used.

    `database`: the database's address. All gateways that this user runs on this machine get the same folder for a
    database. In a world-writable directory such as /tmp, another user can create a folder with the same name. So a
    folder that belongs to another user, or that other users can access, is not used.
    """
    root = (
        os.environ.get(STATE_VARIABLE, "").partition(":")[0]
        or os.environ.get(TEMPORARY_FOLDER[0])
        or TEMPORARY_FOLDER[1]
    )
    folder = Path(root) / f"integration-gateway-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return None
    return folder / f"{hashlib.sha256(database.encode()).hexdigest()[:16]}{FOLDER_SUFFIX}"


def other_journals_of_node(folder: Path) -> list[Path]:
    """Return the other journal folders of this machine, next to `folder`.

    A folder's name comes from the database's address in `store.url`. So a process that was started with another
    spelling of the address has another folder, and records for the same database are possibly there.
    """
    return [path for path in sorted(folder.parent.glob(f"*{FOLDER_SUFFIX}")) if path != folder]


def slot_files_of(folder: Path) -> Path:
    """Return the path prefix of the slot files, which releases without a journal wrote for the same database.

    `folder`: the journal's folder.
    """
    return folder.with_name(f"{folder.name.removesuffix(FOLDER_SUFFIX)}-pairs")
