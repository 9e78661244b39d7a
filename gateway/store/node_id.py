"""The name of this machine in the owners of leases: a random id in the folder of its refresh journal, shared by its processes."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

FILE: Final = "node-id"
ONLY: Final = "local"
"""With SQLite: the folder goes with the database, so there is no other node."""
NONE: Final = ""
"""Where there is no folder: what this machine has received dies with its processes."""


def node_id(folder: Path) -> str:
    """Read it, or make it: whoever of several processes comes first. `NONE` where it can be neither read nor written."""
    path = folder / FILE
    try:
        if not path.exists():
            fresh = folder / f"{FILE}.{secrets.token_hex(6)}"
            fresh.write_text(secrets.token_hex(8))
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # complete from the moment that it can be seen
            fresh.unlink()
        found = path.read_text().strip()
    except OSError:
        return NONE
    return found if found.isalnum() else NONE
