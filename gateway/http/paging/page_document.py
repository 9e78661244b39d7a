"""Reads records from a page of JSON as their original bytes, and single values of the page.

The page is not parsed into objects. So numbers keep every digit, and duplicate names stay.
"""

import codecs
import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from gateway.errors import UpstreamFailed
from gateway.http.json_scan import SCALAR, STRING, NotJson, end_of_value, skip_space

# ── Keeps the records of one page as their original bytes.

_PIECE_CHARS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Records:
    """The items of one array in `text`.

    `path`: the path of the array. `bounds`: the start and the end of the first item, then of the second item, and so
    on.
    """

    text: str
    path: str
    bounds: "array[int]"

    def __len__(self) -> int:
        return len(self.bounds) // 2

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record as its original bytes, without line breaks.

        Removing line breaks changes no value, because JSON strings contain no line breaks.
        """
        for start, end in zip(self.bounds[::2], self.bounds[1::2], strict=True):
            record = self.text[start:end].encode("latin-1")
            yield record.translate(None, b"\r\n") if b"\n" in record or b"\r" in record else record

    @property
    def hold_objects(self) -> bool:
        return bool(self.bounds) and self.text[self.bounds[0]] == "{"

    @property
    def digest(self) -> str:
        """Return the digest of all records as written in the page."""
        hasher = hashlib.blake2b(digest_size=16)
        if self.bounds:
            for start in range(self.bounds[0], self.bounds[-1], _PIECE_CHARS):
                hasher.update(self.text[start : min(start + _PIECE_CHARS, self.bounds[-1])].encode("latin-1"))
        return hasher.hexdigest()


NO_RECORDS: Final = Records("", "", array("I"))


MAX_RECORDS: Final = 100_000
MAX_MEMBERS: Final = 100_000  # maximum number of members in the objects on a path
MAX_SEARCH_DEPTH: Final = 10  # maximum depth at which a GraphQL connection is searched
_BOM: Final = codecs.BOM_UTF8
_PIECE_BYTES: Final = 1 << 16
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)  # keeps each number as its text


class NonScalar(Enum):
    """The result for a path without a scalar."""

    MISSING = "nothing"
    CONTAINER = "an array or an object"


Value = str | bool | None | NonScalar
"""The value of a scalar in a page, or `NonScalar`. The value of a number is its text."""

ValueReader = Callable[[int], int]
"""A callback that reads the value at a position and returns the end position of the value."""


class PageDocument:
    """A page of JSON. Raises UpstreamFailed ``page_unreadable`` if `content` is not UTF-8.

    `content`: the complete body, without content codings.
    """

    def __init__(self, content: bytes | bytearray) -> None:
        _check_utf8(content)
        self._text = content.decode("latin-1")
        self._start = len(_BOM) if content.startswith(_BOM) else 0
        self._arrays: dict[int, tuple[int, array[int]]] = {}
        self._values_by_path: dict[str, Records | NonScalar] = {}
        self._visited = 0  # number of members visited in this search

    def records(self, path: str) -> Records | NonScalar:
        """Return the array at `path`; `NonScalar` if there is no array at `path`. Raises UpstreamFailed.

        An empty `path` means the page itself.
        """
        if path not in self._values_by_path:
            result: list[Records | NonScalar] = [NonScalar.MISSING]

            def read_value(position: int) -> int:
                if self._text[position : position + 1] != "[":
                    result[0] = NonScalar.CONTAINER
                    return self._end_of_value_at(position)
                end, bounds = self._array_at(position)
                result[0] = Records(self._text, path, bounds)
                return end

            self._read_at(path, read_value)
            self._values_by_path[path] = result[0]
        return self._values_by_path[path]

    def arrays(self) -> dict[str, Records]:
        """Return the arrays that are direct members of the page, by name. Raises UpstreamFailed."""
        arrays_by_name: dict[str, Records] = {}

        def visit(name: str, position: int) -> int:
            if self._text[position : position + 1] != "[":
                return self._end_of_value_at(position)
            end, bounds = self._array_at(position)
            arrays_by_name[name] = Records(self._text, name, bounds)
            return end

        self._visit_members(visit)
        return arrays_by_name

    def text_paths(self) -> list[str]:
        """Return the paths of all non-empty strings that are at most two levels deep. Raises UpstreamFailed."""
        paths: list[str] = []

        def visit(name: str, position: int) -> int:
            if self._text[position : position + 1] == "{" and "." not in name:
                return self._members(position, lambda member, start: visit(f"{name}.{member}", start))
            if self._text[position : position + 1] == '"' and self._text[position + 1 : position + 2] != '"':
                paths.append(name)
            return self._end_of_value_at(position)

        self._visit_members(visit)
        return paths

    def value(self, path: str) -> Value:
        """Return the scalar at `path`, or `NonScalar`. Raises UpstreamFailed."""
        result: list[Value] = [NonScalar.MISSING]

        def read_value(position: int) -> int:
            scalar = SCALAR.match(self._text, position)
            result[0] = NonScalar.CONTAINER if scalar is None else _scalar(scalar[0])
            return self._end_of_value_at(position)

        self._read_at(path, read_value)
        return result[0]

    def raw(self, path: str) -> str | None:
        """Return the JSON text of the value at `path`; None if there is no value. Raises UpstreamFailed."""
        result: list[str | None] = [None]

        def read_value(position: int) -> int:
            end = self._end_of_value_at(position)
            result[0] = self._text[position:end].encode("latin-1").decode()
            return end

        self._read_at(path, read_value)
        return result[0]

    def paths_of_objects_with(self, name: str) -> list[str]:
        """Return the paths of all objects that have an object under `name`.

        Searches at most `MAX_SEARCH_DEPTH` levels deep, and not inside arrays.

        Raises UpstreamFailed.
        """
        paths: list[str] = []

        def search_object(path: str, levels: int) -> ValueReader:
            def visit(member: str, position: int) -> int:
                if self._text[position : position + 1] != "{":
                    return self._end_of_value_at(position)
                if member == name:
                    paths.append(path)
                    return self._end_of_value_at(position)
                return search_object(f"{path}.{member}" if path else member, levels - 1)(position)

            return lambda start: self._members(start, visit) if levels else self._end_of_value_at(start)

        self._read_at(
            "",
            lambda start: (
                search_object("", MAX_SEARCH_DEPTH)(start)
                if self._text[start : start + 1] == "{"
                else self._end_of_value_at(start)
            ),
        )
        return paths

    @property
    def is_empty_object(self) -> bool:
        """Whether the page is ``{}``, which some providers send as a page without records."""
        return re.fullmatch(r"\s*\{\s*\}\s*", self._text[self._start : self._start + 64], re.ASCII) is not None

    def _read_at(self, path: str, read_value: ValueReader) -> None:
        """Check that the whole page is JSON, and call `read_value` with the position of the value at `path`.

        Raises UpstreamFailed if the page is not JSON.
        """
        self._visited = 0
        try:
            end = self._walk(skip_space(self._text, self._start), path or None, read_value)
            if skip_space(self._text, end) < len(self._text):
                raise NotJson(end)
        except NotJson as fault:
            raise UpstreamFailed(
                "page_unreadable",
                f"The provider's response is not JSON from byte {fault.position} on, so its records cannot be read.",
            ) from fault

    def _walk(self, pos: int, path: str | None, read_value: ValueReader) -> int:
        """Return the end of the value at `pos`, and call `read_value` with the position of the inner value at `path`.

        `path`: relative to the value at `pos`; None means the value itself.
        """
        if path is None:
            return read_value(pos)
        char = self._text[pos : pos + 1]
        if char == "{":

            def visit(name: str, position: int) -> int:  # a name can contain dots, for example ``@odata.nextLink``
                if path.startswith(name):
                    if len(path) == len(name):
                        return self._walk(position, None, read_value)
                    if path[len(name)] == ".":
                        return self._walk(position, path[len(name) + 1 :], read_value)
                return self._end_of_value_at(position)

            return self._members(pos, visit)
        first_step, dot, inner_path = path.partition(".")
        if char == "[" and _INDEX.fullmatch(first_step):
            end, bounds = self._array_at(pos)
            index = int(first_step) * 2
            if -len(bounds) <= index < len(bounds):
                self._walk(bounds[index], inner_path if dot else None, read_value)
            return end
        return self._end_of_value_at(pos)

    def _visit_members(self, visit: Callable[[str, int], int]) -> None:
        """Check that the whole page is JSON, and call `visit` for its members, as `_members` does."""

        def read_value(position: int) -> int:
            return (
                self._members(position, visit)
                if self._text[position : position + 1] == "{"
                else self._end_of_value_at(position)
            )

        self._read_at("", read_value)

    def _members(self, pos: int, visit: Callable[[str, int], int]) -> int:
        """Return the end of the object at `pos`. Raises UpstreamFailed ``page_too_large``.

        `visit`: called with each member's name and the start of its value; returns the end of the value.
        """
        text = self._text
        pos = skip_space(text, pos + 1)
        if text[pos : pos + 1] == "}":
            return pos + 1
        while True:
            name = STRING.match(text, pos)
            if name is None:
                raise NotJson(pos)
            pos = skip_space(text, name.end())
            if text[pos : pos + 1] != ":":
                raise NotJson(pos)
            self._visited += 1
            if self._visited > MAX_MEMBERS:
                raise UpstreamFailed(
                    "page_too_large",
                    f"One page of the provider has objects with more than {MAX_MEMBERS} members; request smaller pages.",
                )
            name_text = name[0][1:-1] if name[0].isascii() and "\\" not in name[0] else str(_scalar(name[0]))
            pos = skip_space(text, visit(name_text, skip_space(text, pos + 1)))
            char = text[pos : pos + 1]
            if char == "}":
                return pos + 1
            if char != ",":
                raise NotJson(pos)
            pos = skip_space(text, pos + 1)

    def _array_at(self, pos: int) -> "tuple[int, array[int]]":
        """Return the end of the array at `pos`, and the start and end of each item.

        Raises UpstreamFailed ``page_too_large``.
        """
        cached_array = self._arrays.get(pos)
        if cached_array is not None:
            return cached_array
        text, bounds, start_pos = self._text, array("I"), pos
        pos = skip_space(text, pos + 1)
        if text[pos : pos + 1] == "]":
            pos += 1
        else:
            while True:
                end = end_of_value(text, pos)
                bounds.append(pos)
                bounds.append(end)
                pos = skip_space(text, end)
                char = text[pos : pos + 1]
                if char not in (",", "]"):
                    raise NotJson(pos)
                pos = pos + 1 if char == "]" else skip_space(text, pos + 1)
                if char == "]":
                    break
                if len(bounds) >= 2 * MAX_RECORDS:
                    raise UpstreamFailed(
                        "page_too_large",
                        f"One page of the provider contains more than {MAX_RECORDS} records; request smaller pages.",
                    )
        self._arrays[start_pos] = pos, bounds
        return pos, bounds

    def _end_of_value_at(self, pos: int) -> int:
        cached_array = self._arrays.get(pos)
        return end_of_value(self._text, pos) if cached_array is None else cached_array[0]


def _scalar(text: str) -> str | bool | None:
    """Return the value of a scalar. `text`: JSON text in UTF-8, decoded as Latin-1."""
    value: Any = _DECODER.decode(text.encode("latin-1").decode("utf-8"))
    return value if isinstance(value, str | bool) or value is None else str(value)


def _check_utf8(content: bytes | bytearray) -> None:
    if content.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _PIECE_BYTES):
            decoder.decode(content[start : start + _PIECE_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as fault:
        raise UpstreamFailed(
            "page_unreadable", "The provider's response is not UTF-8, as JSON must be (RFC 8259 §8.1)."
        ) from fault
