"""The entry points of a group, without loading importlib.metadata where no installed package has any: it weighs two megabytes."""

import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any


def entry_points(*, group: str | None = None, **more: str) -> Any:
    """As importlib.metadata's, in whose place it may stand (`gateway.startup.imports`): with a group an iterable of
    EntryPoint.
    """
    strangers = any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)
    if group is not None and not strangers and not _may_offer(group, tuple(sys.path)):
        return ()
    from importlib import metadata

    _ = (
        metadata.Distribution
    )  # where the module is put off, it is loaded by this, and its own function replaces this one
    return metadata.entry_points(**({} if group is None else {"group": group}), **more)


@cache
def _may_offer(group: str, path: tuple[str, ...]) -> bool:
    """Whether a package on `path` could; an archive could, since only importlib.metadata looks into one."""
    places = [Path(entry) for entry in path]
    if any(place.is_file() for place in places):
        return True
    heading = f"[{group}]".encode()
    kinds = ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt", "EGG-INFO/entry_points.txt")
    return any(heading in told.read_bytes() for place in places for kind in kinds for told in place.glob(kind))
