"""Finds the texts that an object holds, to show that it holds no secret."""

import gc
from types import FunctionType, ModuleType


def texts_in(*held: object) -> str:
    """Return all strings and bytes that can be reached from these objects, one after another."""
    found: list[str] = []
    seen: set[int] = set()
    left = list(held)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, FunctionType, ModuleType)):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            found.append(repr(one))
        left += gc.get_referents(one)
    return "\n".join(found)
