"""Where the journal is: beside a database's file, or in a folder of this machine for nodes on a shared database."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

FOLDER_SUFFIX: Final = "-refresh-journal"  # appended to the database's name; SQLite itself uses "-journal"
STATE_VARIABLE: Final = (
    "STATE_DIRECTORY"  # set by systemd for a unit with StateDirectory=: the folder outlives the service
)
TEMPORARY_FOLDER: Final = ("TMPDIR", "/tmp")  # noqa: S108 (the folder's owner is checked)
NO_FOLDER: Final = (
    "no folder for the refresh journal: set STATE_DIRECTORY (systemd: StateDirectory=) or TMPDIR to a folder that the "
    "gateway can write to"
)
UNWRITABLE_EFFECT: Final = "a process that is killed during a refresh may lose that token"


def journal_beside(database: Path) -> Path:
    """Return the journal's folder for a SQLite file."""
    return database.with_name(f"{database.name}{FOLDER_SUFFIX}")


def journal_of_node(database: str) -> Path | None:
    """Return the journal's folder for `database`, the same for all gateways of this user on this machine; None if no
    folder can be used.

    In a world-writable folder another user may have created one of that name; such a folder is not used.
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


def slot_files_of(folder: Path) -> Path:
    """Return the prefix of the files that releases before the journal left for the same database."""
    return folder.with_name(f"{folder.name.removesuffix(FOLDER_SUFFIX)}-pairs")
