"""The name of this machine in the owners of leases: a random id in the folder of its refresh journal, shared by its processes."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from gateway.journal.segment import sync_folder

FILE: Final = "node-id"
ONLY: Final = "local"
"""With SQLite: the folder goes with the database, so there is no other node."""
NONE: Final = ""
"""Where there is no folder: what this machine has received dies with its processes."""


def node_id(folder: Path) -> str:
    """Read it, or make it: of several processes the first one does. `NONE` where it can be neither read nor written."""
    path = folder / FILE
    try:
        if path.exists() and not _read(path):
            path.unlink()  # damaged, such as cut off by a power failure
        if not path.exists():
            fresh = folder / f"{FILE}.{secrets.token_hex(6)}"
            with fresh.open("x") as file:
                file.write(secrets.token_hex(8))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # complete from the moment that it can be seen
            fresh.unlink()
            sync_folder(folder)
        return _read(path)
    except OSError:
        return NONE


def _read(path: Path) -> str:
    found = path.read_text(errors="replace").strip()
    return found if found.isascii() and found.isalnum() else NONE
