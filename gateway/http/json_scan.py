"""Finds the end of a JSON value (RFC 8259) without creating objects, so that a hostile page cannot fill the memory.

The text is UTF-8 decoded as Latin-1. So each position is a number of bytes, and no byte of a multi-byte character looks
like JSON syntax.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_DEPTH: Final = 512
RUN_LENGTH: Final = 1000  # maximum scalars in one regular expression match, during which no other thread runs

_SPACE: Final = r"[ \t\n\r]*+"
_STRING: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR: Final = f"(?:{_STRING}|{_NUMBER}|true|false|null)"
_TO_ITEM: Final = rf"(?:,{_SPACE}(?=[^\]])|(?=\]))"
_TO_MEMBER: Final = rf'(?:,{_SPACE}(?=")|(?=\}}))'
_ITEMS: Final = rf"{_SPACE}(?:{_SCALAR}{_SPACE}{_TO_ITEM}){{0,{RUN_LENGTH}}}+"
_MEMBERS: Final = (
    rf"{_SPACE}(?:{_STRING}{_SPACE}:{_SPACE}{_SCALAR}{_SPACE}{_TO_MEMBER}){{0,{RUN_LENGTH}}}+"
    rf"(?P<key>{_STRING}{_SPACE}:{_SPACE}(?=[\[{{]))?+"
)

SPACE: Final = re.compile(_SPACE)
STRING: Final = re.compile(_STRING)
SCALAR: Final = re.compile(_SCALAR)
ITEMS: Final = re.compile(_ITEMS)
MEMBERS: Final = re.compile(_MEMBERS)
MORE_ITEMS: Final = re.compile(f"{_SPACE}{_TO_ITEM}{_ITEMS}")
MORE_MEMBERS: Final = re.compile(f"{_SPACE}{_TO_MEMBER}{_MEMBERS}")


class JsonMember(NamedTuple):
    """The positions of a member in the text.

    `start`, `colon`: start and end of the member's name. `value`, `end`: start and end of the member's value. `after`:
    start of the rest of the object.
    """

    start: int
    colon: int
    value: int
    end: int
    after: int


class NotJson(ValueError):
    """The text is not JSON. `position`: the position of the first fault."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no JSON at byte {position}")
        self.position = position


def skip_space(text: str, pos: int) -> int:
    match = SPACE.match(text, pos)
    assert match is not None  # the pattern also matches the empty text
    return match.end()


def end_of_value(text: str, pos: int) -> int:
    """Return the position after the value that begins at `pos`.

    Raises NotJson if there is no valid value, or if the value is more than `MAX_DEPTH` levels deep.
    """
    scalar = SCALAR.match(text, pos)
    return scalar.end() if scalar is not None else _end_of_container(text, pos)


def members_at(text: str, pos: int) -> Iterator[JsonMember]:
    """Yield the members of the object at `pos`. Raises NotJson.

    In the last member, `after` is the end of the object.
    """
    pos = skip_space(text, pos + 1)
    if text[pos : pos + 1] == "}":
        return
    while True:
        name = STRING.match(text, pos)
        if name is None:
            raise NotJson(pos)
        colon = skip_space(text, name.end())
        if text[colon : colon + 1] != ":":
            raise NotJson(colon)
        value = skip_space(text, colon + 1)
        end = end_of_value(text, value)
        after = skip_space(text, end)
        char = text[after : after + 1]
        if char not in (",", "}"):
            raise NotJson(after)
        yield JsonMember(pos, name.end(), value, end, after + 1)
        if char == "}":
            return
        pos = skip_space(text, after + 1)


def string_value(text: str) -> str:
    """Return the value of a JSON string. `text`: the JSON string with its quotes."""
    if text.isascii() and "\\" not in text:
        return text[1:-1]
    value: str = json.loads(text.encode("latin-1"))
    return value


def _end_of_container(text: str, pos: int) -> int:
    """Return the position after the array or object at `pos`.

    A stack remembers the open brackets. One match skips all scalars between two brackets.
    """
    closers: list[str] = []
    while True:
        char = text[pos : pos + 1]
        if char in ("[", "{"):
            closers.append("]" if char == "[" else "}")
            scalars = (ITEMS if char == "[" else MEMBERS).match(text, pos + 1)
        elif closers and char == closers[-1]:
            closers.pop()
            pos += 1
            if not closers:
                return pos
            scalars = (MORE_ITEMS if closers[-1] == "]" else MORE_MEMBERS).match(text, pos)
        else:  # more than RUN_LENGTH scalars follow each other, or this is not JSON
            scalars = (ITEMS if closers[-1] == "]" else MEMBERS).match(text, pos) if closers else None
            scalars = scalars if scalars is not None and scalars.end() > pos else None
        if scalars is None or len(closers) > MAX_DEPTH:
            raise NotJson(pos)
        pos = scalars.end()
        if closers[-1] == "}" and scalars["key"] is None and text[pos : pos + 1] in ("[", "{"):
            raise NotJson(pos)
