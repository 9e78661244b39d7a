"""Matches a request's path with the path of a rule, in time proportional to the path's length. No I/O.

``*`` matches any characters except "/"; ``**``, which a rule has at most once, matches any characters. The match never
backtracks. The part before ``**`` is matched with the shortest beginning of the path, and the part after ``**`` with
the shortest end. To find the shortest end, this part and the path are reversed. The path matches if the beginning and
the end do not overlap.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

MAX_LAZY_LENGTH: Final = 8  # maximum length of a text between two wildcards for which `re` can try each position


def path_matcher(path_pattern: str) -> Callable[[str], object]:
    """Return a function that matches a path with `path_pattern`.

    The function returns None if the path does not match, and any other value if the path matches.
    """
    before, deep, after = path_pattern.partition("**")
    front = _Part(before, ends_open=bool(deep))
    if not front.further and not after:  # nearly every rule needs only one regular expression
        return front.first.match if deep else front.first.fullmatch
    back = _Part(after[::-1], ends_open=True) if "*" in after else None

    def matches(path: str) -> Literal[True] | None:
        end = front.end(path)
        if end < 0:
            return None
        if not deep:
            fits = end == len(path)
        elif back is None:
            fits = path.endswith(after, end)
        else:
            fits = 0 <= back.end(path[::-1]) <= len(path) - end
        return fits or None

    return matches


class _Part:
    """A part of a rule's path without ``**``.

    `ends_open`: whether ``**`` follows the part, so that the part can end in the middle of a segment of the request's
    path.

    `first`: the expression for the beginning of the part. `further`: each text of more than `MAX_LAZY_LENGTH`
    characters between two wildcards of one segment, with the expression for the rest up to the next such text. These
    texts have their own expressions for speed: `re` searches a text alone in linear time, but compares a text inside an
    expression again at each character.
    """

    __slots__ = ("first", "further")

    def __init__(self, pattern: str, *, ends_open: bool) -> None:
        chunks = [""]
        segments = pattern.split("/")
        for number, segment in enumerate(segments):
            first, *texts = segment.split("*")
            chunks[-1] += re.escape(first if number == 0 else f"/{first}")
            last = texts.pop() if texts and not (ends_open and number == len(segments) - 1) else None
            for text in texts:  # a wildcard follows: if a later occurrence matches, the first matches too
                if len(text) > MAX_LAZY_LENGTH:
                    chunks += [re.escape(text), ""]
                else:
                    chunks[-1] += f"(?>[^/]*?{re.escape(text)})"
            if last is not None:  # the end of a segment
                chunks[-1] += f"[^/]{{{len(last)},}}+(?<={re.escape(last)})" if last else "[^/]*+"
        self.first, *others = [re.compile(chunk) for chunk in chunks]
        self.further = tuple(zip(others[::2], others[1::2], strict=True))

    def end(self, path: str) -> int:
        """Return the end of the shortest beginning of `path` that matches; -1 if no beginning matches."""
        match = self.first.match(path)
        for text, rest in self.further:
            if match is None:
                break
            cut = path.find("/", match.end())
            match = text.search(path, match.end(), cut if cut >= 0 else len(path))
            match = rest.match(path, match.end()) if match is not None else None
        return -1 if match is None else match.end()
