"""Decides whether the paths of two rules, of a key and of its parent key, can match the same request. No I/O."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

WILDCARD: Final = re.compile(r"\*\*|\*|\{[a-z][a-z0-9_]{0,62}\}")
MAX_STEPS: Final = 2_000_000
_STEPS_PER_TOKEN: Final = 4  # comparing a token costs this many steps; comparing a segment costs one step


class Overlaps:
    """Compares the paths of the rules of two keys.

    After `MAX_STEPS` steps, all further paths count as overlapping. The steps are limited because a parent key can
    have hundreds of rules of hundreds of characters.
    """

    def __init__(self) -> None:
        self._steps_left = MAX_STEPS

    def may_overlap(self, first: str, second: str) -> bool:
        """Return whether one request can match both rules' paths.

        Compares the segments one by one, up to the first ``**``.
        """
        if first == second or self._steps_left <= 0:
            return True
        first_segments, second_segments = first.split("/"), second.split("/")
        for first_segment, second_segment in zip(first_segments, second_segments, strict=False):
            self._steps_left -= 1
            if "**" in first_segment or "**" in second_segment:
                return self._overlap(first, second)
            if first_segment != second_segment and not self._segments_overlap(first_segment, second_segment):
                return False
        return len(first_segments) == len(second_segments) or (
            "**" in (first + second) and self._overlap(first, second)
        )

    def _segments_overlap(self, first: str, second: str) -> bool:
        first_wildcard, second_wildcard = WILDCARD.search(first), WILDCARD.search(second)
        if (first_wildcard and first_wildcard[0] == first) or (second_wildcard and second_wildcard[0] == second):
            return True
        return bool(first_wildcard or second_wildcard) and self._overlap(first, second)

    def _overlap(self, first: str, second: str) -> bool:
        if self._steps_left <= 0:
            return True
        overlaps, tokens = _overlap(first, second)
        self._steps_left -= _STEPS_PER_TOKEN * tokens
        return overlaps


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
    positions of ``**``. `by_character`: the positions of each character.
    """

    tokens: tuple[str, ...]
    wild: int
    deep: int
    by_character: dict[str, int]


def _overlap(first: str, second: str) -> tuple[bool, int]:
    """Return whether the two paths overlap, and the number of tokens of `first` that were compared.

    After each token of `first`, `positions` is a set of positions in `second`: up to each of these positions,
    `second` can match the same text as `first` up to the token.
    """
    first_path, second_path = _parse_path(first), _parse_path(second)
    size, compared, positions = len(second_path.tokens), 0, 1
    all_positions, slashes = (1 << size) - 1, second_path.by_character.get("/", 0)
    for piece in first_path.tokens:
        compared += 1
        if piece == "**":
            positions = _spread(positions, all_positions)
        elif piece == "*":
            positions = _spread(positions, all_positions & ~slashes)
        else:
            positions = _spread(positions, second_path.wild)
            positions = (positions & second_path.by_character.get(piece, 0)) << 1 | positions & (
                second_path.deep if piece == "/" else second_path.wild
            )
        if not positions:
            return False, compared
    return bool(_spread(positions, second_path.wild) >> size & 1), compared


def _spread(positions: int, passable: int) -> int:
    """Return `positions`, and each position that can be reached from `positions` through positions in `passable` only.

    One addition finds all these positions, because its carry runs through each sequence of positions in `passable`.
    """
    return positions | ((passable + (positions & passable)) ^ passable)


@lru_cache(maxsize=1024)
def _parse_path(path: str) -> _Path:
    tokens: list[str] = []
    end = 0
    for wildcard in WILDCARD.finditer(path):
        tokens += path[end : wildcard.start()]
        tokens.append("**" if wildcard[0] == "**" else "*")
        end = wildcard.end()
    tokens += path[end:]
    positions: dict[str, int] = {}
    for position, token in enumerate(tokens):
        positions[token] = positions.get(token, 0) | 1 << position
    deep = positions.get("**", 0)
    return _Path(tuple(tokens), deep | positions.pop("*", 0), deep, positions)
