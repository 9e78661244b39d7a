"""Parses YAML or JSON text into nodes: scalars, lists and mappings, each with its line.

For YAML, the nodes are built from PyYAML's events, because PyYAML's values do not show lines, repeated keys and
aliases.

A scalar without quotes has the value that YAML 1.2 gives it. For example, ``0123`` and ``12:30`` stay text, because
people use such texts as keys and times; YAML 1.1 would read numbers. There are two exceptions. ``yes`` and ``off`` are
booleans as in YAML 1.1, because people write them as booleans. ``0x10`` stays text, although YAML 1.2 reads a number.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import yaml

from gateway.documents.yaml_faults import yaml_fault

# ── The nodes: scalars, lists and mappings, each with its line. YAML and JSON are parsed into the same classes.

Value: TypeAlias = str | int | float | bool | None


@dataclass(slots=True, eq=False)
class Scalar:
    """A scalar.

    `line`: where the scalar begins, from 1.
    `text`: the characters, without quotes and escapes.
    `value`: what the text means.
    `plain`: the text is written without quotes.
    """

    line: int
    text: str
    value: Value
    plain: bool = False


@dataclass(slots=True, eq=False)
class Sequence:
    """A list. `line`: where the list begins, from 1."""

    line: int
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Mapping:
    """A mapping.

    `line`: where the mapping begins, from 1.
    `entries`: keys and values in the order of the file, repeated keys included.
    """

    line: int
    entries: list[tuple["Node", "Node"]] = field(default_factory=list)


Node: TypeAlias = Scalar | Sequence | Mapping


class UnreadableText(Exception):
    """The text cannot be read. `line`: the line of the fault, from 1.

    The text is neither YAML nor JSON, has parts of YAML that are not allowed here, or exceeds a limit.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH: Final = 64
_PREFIX: Final = "tag:yaml.org,2002:"
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    spelling: value
    for value, words in {True: ("true", "yes", "on"), False: ("false", "no", "off")}.items()
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
_KINDS: Final = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (int, float)}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]{1,18}|(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{0,18})?)(?:[eE][-+]?[0-9]{1,3})?")


def read_yaml(text: str) -> Node | None:
    """Return the single document in `text`; None if the text is empty. Raises UnreadableText."""
    composer = _Composer()
    try:
        return composer.compose(text)
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        raise UnreadableText(
            text.count("\n", 0, position) + 1, "a control character, which YAML does not allow"
        ) from None
    except yaml.MarkedYAMLError as error:
        raise UnreadableText(*yaml_fault(error, text, composer.quote_over_lines)) from None


def scalar_value(text: str) -> Value:
    """Return the value of a scalar without quotes."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


class _Composer:
    """Builds nodes from events without recursion, so that deep nesting in a file cannot exhaust the stack."""

    def __init__(self) -> None:
        self._open_nodes: list[Sequence | Mapping] = []
        self._keys: list[Node | None] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._documents = 0
        self._quoted = (0, 0)  # the first and the last line of the latest quoted scalar

    def quote_over_lines(self, line: int) -> int:
        """Return the line where the latest quoted scalar begins, if this scalar ends on `line` and begins before.

        The closing quote of such a scalar might be missing: then the scalar ended at the opening quote of the next
        scalar. Return 0 if there is no such scalar.
        """
        opening_line, closing_line = self._quoted
        return opening_line if opening_line < closing_line == line else 0

    def compose(self, text: str) -> Node | None:
        for event in yaml.parse(text, Loader=Loader):
            mark = event.start_mark
            self._handle(event, mark.line + 1 if mark else 1)
        return self._root

    def _handle(self, event: yaml.Event, line: int) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise UnreadableText(line, "a second YAML document; the file must be one, without '---' in between")
            case yaml.ScalarEvent():
                if event.style in ('"', "'") and event.end_mark:
                    self._quoted = line, event.end_mark.line + 1
                self._add(event, _scalar(event, line))
            case yaml.AliasEvent():
                self._add(None, self._resolve_alias(event, line))
            case yaml.SequenceStartEvent():
                self._begin(event, Sequence(line))
            case yaml.MappingStartEvent():
                self._begin(event, Mapping(line))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._open_nodes.pop()
                self._keys.pop()
            case _:
                pass  # the start and the end of a stream, and the end of a document, need no action

    def _begin(self, event: yaml.CollectionStartEvent, node: Sequence | Mapping) -> None:
        kind = "seq" if isinstance(node, Sequence) else "map"
        if event.tag not in (None, "!", _PREFIX + kind):
            raise UnreadableText(node.line, "a tag, which is not allowed here; quote a value that begins with !")
        if len(self._open_nodes) >= MAX_DEPTH:
            raise UnreadableText(node.line, f"nested more than {MAX_DEPTH} levels deep")
        self._add(event, node)
        self._open_nodes.append(node)
        self._keys.append(None)

    def _add(self, event: yaml.NodeEvent | None, node: Node) -> None:
        if event is not None and event.anchor:
            self._anchors[event.anchor] = node
        if not self._open_nodes:
            self._root = node
            return
        parent = self._open_nodes[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif (key := self._keys[-1]) is None:
            self._keys[-1] = node
        else:
            parent.entries.append((key, node))
            self._keys[-1] = None

    def _resolve_alias(self, event: yaml.AliasEvent, line: int) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise UnreadableText(line, "an alias to an undefined anchor; quote a value that begins with *")
        if any(node is parent for parent in self._open_nodes):
            raise UnreadableText(line, "an alias to a value that contains the alias")
        return node


def _scalar(event: yaml.ScalarEvent, line: int) -> Scalar:
    text = event.value
    if event.tag is None or event.tag == "!":
        plain = event.implicit[0] and event.tag is None
        return Scalar(line, text, scalar_value(text) if plain else text, plain=plain)
    if event.tag == _PREFIX + "str":
        return Scalar(line, text, text)
    value = scalar_value(text)
    kinds = _KINDS.get(event.tag.removeprefix(_PREFIX), ())
    if type(value) not in kinds:
        raise UnreadableText(line, "a tag, which is not allowed here; quote a value that begins with !")
    return Scalar(line, text, value)


# ── Parses JSON text into nodes (RFC 8259).
#
# A YAML parser fails on tabs and on characters written as ``\ud83d\ude00``, and both are common in JSON.

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_WORD: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,3})?")


def read_json(text: str) -> Node | None:
    """Return the node for JSON text.

    Return None if `text` is not JSON or is nested too deeply. The caller then tries YAML.
    """
    try:
        reader = _Reader(text)
        node = reader.value(0)
        reader.skip()
    except (_NotJson, json.JSONDecodeError):
        return None
    return node if reader.offset == len(text) else None


class _NotJson(Exception):
    """The text is not JSON. The YAML parser then reads the text, and reports a fault with its line."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self._line = 1
        self._counted_to = 0

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset

    def value(self, depth: int) -> Node:
        self.skip()
        line = self._line_here()
        match self.text[self.offset : self.offset + 1]:
            case '"':
                string = self._string()
                return Scalar(line, string, string)
            case "{":
                return Mapping(line, list(self._members(depth)))
            case "[":
                return Sequence(line, [self.value(depth + 1) for _ in self._items("]", depth)])
        match = _WORD.match(self.text, self.offset)
        if match is None:
            raise _NotJson
        self.offset = match.end()
        value: Value = json.loads(match.group())
        return Scalar(line, match.group(), value)

    def _members(self, depth: int) -> Iterator[tuple[Node, Node]]:
        for _ in self._items("}", depth):
            self.skip()
            line = self._line_here()
            name = self._string()
            self._expect(":")
            yield Scalar(line, name, name), self.value(depth + 1)

    def _items(self, end: str, depth: int) -> Iterator[None]:
        """Yield before each item. After the last item, move past the closing character `end`."""
        if depth >= MAX_DEPTH:
            raise _NotJson
        self.offset += 1
        self.skip()
        if self.text.startswith(end, self.offset):
            self.offset += 1
            return
        while True:
            yield
            self.skip()
            if self.text.startswith(end, self.offset):
                self.offset += 1
                return
            self._expect(",")

    def _string(self) -> str:
        if not self.text.startswith('"', self.offset):
            raise _NotJson
        string, self.offset = _DECODER.raw_decode(self.text, self.offset)
        return str(string)

    def _expect(self, character: str) -> None:
        self.skip()
        if not self.text.startswith(character, self.offset):
            raise _NotJson
        self.offset += 1

    def _line_here(self) -> int:
        self._line += self.text.count("\n", self._counted_to, self.offset)
        self._counted_to = self.offset
        return self._line
