"""Decides whether the paths of two rules, of a key and of its parent key, can match the same request. No I/O."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

WILDCARD: Final = re.compile(r"\*\*|\*|\{[a-z][a-z0-9_]{0,62}\}")
MAX_STEPS: Final = 2_000_000
_OF_TOKEN: Final = 4  # comparing a token costs this many steps; comparing a segment costs one step


class Overlaps:
    """Compares the paths of the rules of two keys.

    After `MAX_STEPS` steps, all further paths count as overlapping. The steps are limited because a parent key can
    have hundreds of rules of hundreds of characters.
    """

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def may_overlap(self, first: str, second: str) -> bool:
        """Return whether one request can match both rules' paths.

        Compares the segments one by one, up to the first ``**``.
        """
        if first == second or self._left <= 0:
            return True
        mine, theirs = first.split("/"), second.split("/")
        for a, b in zip(mine, theirs, strict=False):
            self._left -= 1
            if "**" in a or "**" in b:
                return self._overlap(first, second)
            if a != b and not self._segments_overlap(a, b):
                return False
        return len(mine) == len(theirs) or ("**" in (first + second) and self._overlap(first, second))

    def _segments_overlap(self, a: str, b: str) -> bool:
        mine, theirs = WILDCARD.search(a), WILDCARD.search(b)
        if (mine and mine[0] == a) or (theirs and theirs[0] == b):
            return True
        return bool(mine or theirs) and self._overlap(a, b)

    def _overlap(self, first: str, second: str) -> bool:
        if self._left <= 0:
            return True
        common, tokens = _overlap(first, second)
        self._left -= _OF_TOKEN * tokens
        return common


def may_overlap(first: str, second: str) -> bool:
    """Return whether one request can match both rules' paths.

    This function is faster than `overlap` for paths that differ in a segment before ``**``.
    """
    return Overlaps().may_overlap(first, second)


def overlap(first: str, second: str) -> bool:
    """Return whether one request can match both rules' paths."""
    return _overlap(first, second)[0]


class _Path(NamedTuple):
    """The path of a rule as tokens. Each character, ``*`` and ``**`` is a token.

    Sets of positions are numbers with one bit for each position. `wild`: the positions of both wildcards. `deep`: the
    positions of ``**``. `of`: the positions of each character.
    """

    tokens: tuple[str, ...]
    wild: int
    deep: int
    of: dict[str, int]


def _overlap(first: str, second: str) -> tuple[bool, int]:
    """Return whether the two paths overlap, and the number of tokens of `first` that were compared.

    After each token of `first`, `at` is a set of positions in `second`: up to each of these positions, `second` can
    match the same text as `first` up to the token.
    """
    left, right = _parse_path(first), _parse_path(second)
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
    """Return `at`, and each position that can be reached from `at` through positions in `over` only.

    One addition finds all these positions, because its carry runs through each sequence of positions in `over`.
    """
    return at | ((over + (at & over)) ^ over)


@lru_cache(maxsize=1024)
def _parse_path(path: str) -> _Path:
    tokens: list[str] = []
    end = 0
    for place in WILDCARD.finditer(path):
        tokens += path[end : place.start()]
        tokens.append("**" if place[0] == "**" else "*")
        end = place.end()
    tokens += path[end:]
    places: dict[str, int] = {}
    for number, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << number
    deep = places.get("**", 0)
    return _Path(tuple(tokens), deep | places.pop("*", 0), deep, places)
