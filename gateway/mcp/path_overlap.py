"""Decides whether the path of a key's rule and the path of its parent key's rule can match the same request. No I/O."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

_OPEN: Final = re.compile(r"\*\*|\*|\{[a-z][a-z0-9_]{0,62}\}")
MOST_STEPS: Final = 2_000_000
_OF_TOKEN: Final = 4  # steps of a token; a segment is one step


class Overlaps:
    """Compares the paths of two keys' rules. After `MOST_STEPS` in all, the rest counts as overlapping: a parent key may
    have hundreds of rules of hundreds of characters."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def may(self, one: str, other: str) -> bool:
        """Return whether one path can match both rules. Compares the segments one by one up to the first ``**``."""
        if one == other or self._left <= 0:
            return True
        mine, theirs = one.split("/"), other.split("/")
        for a, b in zip(mine, theirs, strict=False):
            self._left -= 1
            if "**" in a or "**" in b:
                return self._overlap(one, other)
            if a != b and not self._segments_overlap(a, b):
                return False
        return len(mine) == len(theirs) or ("**" in (one + other) and self._overlap(one, other))

    def _segments_overlap(self, a: str, b: str) -> bool:
        mine, theirs = _OPEN.search(a), _OPEN.search(b)
        if (mine and mine[0] == a) or (theirs and theirs[0] == b):
            return True
        return bool(mine or theirs) and self._overlap(a, b)

    def _overlap(self, one: str, other: str) -> bool:
        if self._left <= 0:
            return True
        common, tokens = _overlap(one, other)
        self._left -= _OF_TOKEN * tokens
        return common


def may_overlap(one: str, other: str) -> bool:
    """Return what `overlap` returns, faster for paths that differ in a segment before ``**``."""
    return Overlaps().may(one, other)


def overlap(one: str, other: str) -> bool:
    """Return whether one path can match both rules."""
    return _overlap(one, other)[0]


class _Path(NamedTuple):
    """A path as tokens: one per character, ``*`` and ``**``. As sets of their places (the bits of a number): `wild`, the
    wildcards; `deep`, those for any character; `of`, the places of each character."""

    tokens: tuple[str, ...]
    wild: int
    deep: int
    of: dict[str, int]


def _overlap(one: str, other: str) -> tuple[bool, int]:
    """Return whether the two overlap, and the number of tokens of `one` that were compared.

    `at`: the places in `other` up to which its beginning can match the same text as the beginning of `one`.
    """
    left, right = _parsed(one), _parsed(other)
    size, compared, at = len(right.tokens), 0, 1
    everywhere, slashes = (1 << size) - 1, right.of.get("/", 0)
    for piece in left.tokens:
        compared += 1
        if piece == "**":
            at = _spread(at, everywhere)
        elif piece == "*":
            at = _spread(at, everywhere & ~slashes)
        else:
            at = _spread(at, right.wild)
            at = (at & right.of.get(piece, 0)) << 1 | at & (right.deep if piece == "/" else right.wild)
        if not at:
            return False, compared
    return bool(_spread(at, right.wild) >> size & 1), compared


def _spread(at: int, over: int) -> int:
    """Return the places that are reached from `at` by any number of steps to the next place, each from one in `over`:
    the carry of an addition runs through each run of such places."""
    return at | ((over + (at & over)) ^ over)


@lru_cache(maxsize=1024)
def _parsed(path: str) -> _Path:
    tokens: list[str] = []
    end = 0
    for place in _OPEN.finditer(path):
        tokens += path[end : place.start()]
        tokens.append("**" if place[0] == "**" else "*")
        end = place.end()
    tokens += path[end:]
    places: dict[str, int] = {}
    for number, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << number
    deep = places.get("**", 0)
    return _Path(tuple(tokens), deep | places.pop("*", 0), deep, places)
