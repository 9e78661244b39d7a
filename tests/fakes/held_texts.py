"""Finds the texts that an object holds, to show that it holds no secret."""

import gc
from types import FunctionType, ModuleType


def texts_in(*held: object) -> str:
    """Return all strings and bytes that can be reached from these objects, one after another."""
    found: list[str] = []
    seen: set[int] = set()
    to_visit = list(held)
    while to_visit:
        item = to_visit.pop()
        if id(item) in seen or isinstance(item, (type, FunctionType, ModuleType)):
            continue
        seen.add(id(item))
        if isinstance(item, str | bytes):
            found.append(repr(item))
        to_visit += gc.get_referents(item)
    return "\n".join(found)
