"""Decides whether the path of a key's rule and the path of its parent key's rule can match the same request. No I/O."""

import re
from typing import Final

_OPEN: Final = re.compile(r"\*\*|\*|\{[a-z][a-z0-9_]{0,62}\}")
MOST_STEPS: Final = 20_000


def may_overlap(one: str, other: str) -> bool:
    """Return what `overlap` returns, faster for paths without ``**``: a parent key may have hundreds of rules."""
    if "**" in one or "**" in other:
        return overlap(one, other)
    mine, theirs = one.split("/"), other.split("/")
    return len(mine) == len(theirs) and all(
        a == b or ((_OPEN.search(a) or _OPEN.search(b)) and overlap(a, b)) for a, b in zip(mine, theirs, strict=True)
    )


def overlap(one: str, other: str) -> bool:
    """Return whether one path can match both rules; True also if the check would take more than `MOST_STEPS` steps."""
    left, right = _tokens(one), _tokens(other)
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        if i == len(left) and j == len(right):
            return True
        if len(seen) > MOST_STEPS:
            return True
        a, b = left[i] if i < len(left) else "", right[j] if j < len(right) else ""
        if len(a) > 1:
            todo.append((i + 1, j))
            if b and not (a == "[^/]" and b == "/"):
                todo.append((i, j + 1))
        if len(b) > 1:
            todo.append((i, j + 1))
            if a and not (b == "[^/]" and a == "/"):
                todo.append((i + 1, j))
        if len(a) == len(b) == 1 and a == b:
            todo.append((i + 1, j + 1))
    return False


def _tokens(path: str) -> list[str]:
    """Return one token per character, and ``[^/]`` or ``any`` for a wildcard."""
    found: list[str] = []
    at = 0
    for place in _OPEN.finditer(path):
        found += path[at : place.start()]
        found.append("any" if place[0] == "**" else "[^/]")
        at = place.end()
    return [*found, *path[at:]]
