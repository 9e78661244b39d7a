"""JSON text ▸ nodes (RFC 8259).

A YAML parser trips over tabs and over characters written as ``\\ud83d\\ude00``, which JSON writers do.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from gateway.config.nodes import Mapping, Node, Scalar, Sequence, Value
from gateway.config.yaml_nodes import MAX_DEPTH

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_WORD: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,3})?")


def read(text: str) -> Node | None:
    """The object that `text` is; None if it is not JSON, and then YAML may say what it is."""
    try:
        reader = _Reader(text)
        node = reader.value(0)
        reader.skip()
    except (_NotJson, json.JSONDecodeError):
        return None
    return node if reader.at == len(text) else None


class _NotJson(Exception):
    """Whatever is wrong, YAML gets its turn and reports it with a line."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._line = 1
        self._counted = 0

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def value(self, depth: int) -> Node:
        self.skip()
        line = self._line_here()
        match self.text[self.at : self.at + 1]:
            case '"':
                string = self._string()
                return Scalar(line, string, string)
            case "{":
                return Mapping(line, list(self._members(depth)))
            case "[":
                return Sequence(line, [self.value(depth + 1) for _ in self._items("]", depth)])
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise _NotJson
        self.at = found.end()
        value: Value = json.loads(found.group())
        return Scalar(line, found.group(), value)

    def _members(self, depth: int) -> Iterator[tuple[Node, Node]]:
        for _ in self._items("}", depth):
            self.skip()
            line = self._line_here()
            name = self._string()
            self._expect(":")
            yield Scalar(line, name, name), self.value(depth + 1)

    def _items(self, end: str, depth: int) -> Iterator[None]:
        """Stands before each item in turn, and after `end` when done."""
        if depth >= MAX_DEPTH:
            raise _NotJson
        self.at += 1
        self.skip()
        if self.text.startswith(end, self.at):
            self.at += 1
            return
        while True:
            yield
            self.skip()
            if self.text.startswith(end, self.at):
                self.at += 1
                return
            self._expect(",")

    def _string(self) -> str:
        if not self.text.startswith('"', self.at):
            raise _NotJson
        string, self.at = _DECODER.raw_decode(self.text, self.at)
        return str(string)

    def _expect(self, character: str) -> None:
        self.skip()
        if not self.text.startswith(character, self.at):
            raise _NotJson
        self.at += 1

    def _line_here(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line
