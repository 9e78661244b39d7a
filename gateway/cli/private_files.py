"""Files that only their owner may read, from their first byte on, and never over another file by accident."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal


class Existing(Exception):
    """Some of the files are there already; nothing was written."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(", ".join(map(str, paths)))
        self.paths = paths


def write_private(contents: Mapping[Path, str], *, over: Path | Literal[False] = False) -> None:
    """All of `contents`, each with mode 0600, or none. `over` may exist, and is then replaced in one step.

    Raises Existing, naming every other file that is there, and OSError; what was written until then is taken back.
    """
    there = [path for path in contents if os.path.lexists(path) and path != over]
    if there:
        raise Existing(there)
    written: list[Path] = []
    try:
        for path, content in contents.items():
            target = path.with_name(f".{path.name}.new") if path == over else path
            if path == over:
                target.unlink(missing_ok=True)
            _create(target, content)
            written.append(target)
            if path == over:
                target.replace(path)
                written.pop()
    except FileExistsError as error:
        _take_back(written)
        raise Existing([Path(error.filename)]) from None
    except OSError:
        _take_back(written)
        raise


def _create(path: Path, content: str) -> None:
    """O_EXCL neither follows a link nor opens what somebody else put there in between."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _take_back(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
