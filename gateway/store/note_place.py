"""Where notes lie (ADR 32, ADR 33): beside a database's file, or in a folder of this machine for nodes on a shared one."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

STATE: Final = "STATE_DIRECTORY"  # systemd's, where the unit has one: it outlives the service
TEMPORARY: Final = ("TMPDIR", "/tmp")  # noqa: S108 (what lies there is checked to be ours)
NO_FOLDER: Final = (
    "there is no folder for notes of token refreshes: set TMPDIR (systemd: StateDirectory=) to a folder "
    "that the gateway's user may write to"
)


def place_beside(database: Path) -> Path:
    """What the names of files about `database` begin with."""
    return database.with_name(f"{database.name}-pairs")


def node_place(database: str) -> Path | None:
    """What the names of files about `database` begin with, the same for all nodes on this machine; None: no folder to be had.

    In a folder that all may write to somebody else may have made one of that name; then it is not used.
    """
    found = os.environ.get(STATE, "").partition(":")[0] or os.environ.get(TEMPORARY[0]) or TEMPORARY[1]
    folder = Path(found) / f"integration-gateway-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        seen = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
        return None
    return folder / f"{hashlib.sha256(database.encode()).hexdigest()[:16]}-pairs"
