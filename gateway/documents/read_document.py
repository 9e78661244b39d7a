"""Reads a file that a person writes: returns plain values, the line of each value, and the faults in the text."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gateway.documents import nodes
from gateway.documents.nodes import MAX_DEPTH, Mapping, Node, Scalar, Sequence, UnreadableText
from gateway.text import counted

Place: TypeAlias = tuple[str, ...]  # the keys from the root to a value; a list index is a text such as "0"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How files of one format are read.

    `max_values`: the maximum number of values; a value with an alias counts each time it is used.
    `yes_is_true`: whether ``yes``, ``no``, ``on`` and ``off`` are booleans as in YAML 1.1; otherwise they are text.
    `merges`: whether ``<<`` merges other mappings; otherwise ``<<`` is an ordinary key.
    """

    max_values: int
    yes_is_true: bool
    merges: bool


@dataclass(frozen=True, slots=True)
class TextFault:
    """A fault at `place` that does not prevent reading the rest of the text. `line`: its line, from 1."""

    place: Place
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a text.

    `tree`: the values; None if the text is empty.
    `lines`: the line of each value, from 1; for a member of a mapping, the line of its key.
    `faults`: the faults that did not prevent reading.
    """

    tree: Any = field(repr=False)
    lines: AnyMapping[Place, int] = field(repr=False, default_factory=dict)
    faults: tuple[TextFault, ...] = ()

    def line(self, place: Place) -> int:
        """Return the line of `place`, or of its nearest parent in the file."""
        return line_of(self.lines, place)


def line_of(lines: AnyMapping[Place, int], place: Place) -> int:
    """Return the line of `place`. If the file does not contain `place`, return the line of its nearest parent."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


_YAML_1_1_BOOLEANS: Final = frozenset(
    spelling for word in ("yes", "no", "on", "off") for spelling in (word, word.capitalize(), word.upper())
)


def decode_utf8(content: bytes) -> str:
    """Return the text of a file, without a UTF-8 byte order mark. Raises UnreadableText."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableText(line, "not UTF-8; save the file in that encoding") from None


def read_document(text: str, dialect: Dialect) -> Document:
    """Read YAML or JSON text. Faults that do not prevent reading are in `Document.faults`.

    Raises UnreadableText if `text` is neither YAML nor JSON, has tags or several documents, or exceeds the limits on
    depth and number of values.
    """
    root = (nodes.read_json(text) if text.lstrip()[:1] == "{" else None) or nodes.read_yaml(text)
    if root is None:
        return Document(None)
    converter = _Converter(dialect)
    tree = converter.value(root, ())
    return Document(tree, {(): root.line, **converter.lines}, tuple(converter.faults))


class _Converter:
    """Converts nodes to values.

    The converter records each line, finds repeated keys, and limits the number of values, which aliases can multiply.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.lines: dict[Place, int] = {}
        self.faults: list[TextFault] = []
        self._dialect = dialect
        self._values = 0

    def value(self, node: Node, place: Place) -> Any:
        self._count(node)
        # Only aliases can nest values so deeply, because `nodes` limits the nesting in the text.
        if len(place) > MAX_DEPTH:
            raise UnreadableText(node.line, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, Mapping):
            return self._mapping(node, place)
        if isinstance(node, Sequence):
            values = []
            for index, item in enumerate(node.items):
                item_place = (*place, str(index))
                self.lines[item_place] = item.line
                values.append(self.value(item, item_place))
            return values
        if not node.text.isascii() and not _is_unicode(node.text):
            message = r"half a surrogate pair (\ud800 to \udfff), which is not a character"
            self.faults.append(TextFault(place, message, node.line))
            return None
        if node.plain and not self._dialect.yes_is_true and node.text in _YAML_1_1_BOOLEANS:
            return node.text
        return node.value

    def _mapping(self, node: Mapping, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value_node in self._entries(node, place, merging=()):
            if key.text in values:
                continue
            value_place = (*place, key.text)
            self.lines[value_place] = key.line
            values[key.text] = self.value(value_node, value_place)
        return values

    def _entries(self, node: Mapping, place: Place, merging: tuple[Mapping, ...]) -> Iterator[tuple[Scalar, Node]]:
        """Yield the entries of a mapping, then the entries that ``<<`` merges into the mapping.

        If several entries have the same key, the caller keeps the first. A key that is repeated in the mapping itself
        is a fault.
        `merging`: the mappings that are being merged now, to detect a mapping that merges itself.
        """
        line_by_key: dict[str, int] = {}
        bases: list[Node] = []
        for key, value_node in node.entries:
            if not isinstance(key, Scalar) or not key.text:
                self.faults.append(TextFault(place, "a key must be plain text", key.line))
                continue
            if key.text in line_by_key:
                message = f"{key.text!r} is given twice, first in line {line_by_key[key.text]}; keep one"
                self.faults.append(TextFault(place, message, key.line))
                continue
            line_by_key[key.text] = key.line
            if self._dialect.merges and key.plain and key.text == "<<":
                bases += value_node.items if isinstance(value_node, Sequence) else [value_node]
            else:
                yield key, value_node
        for base in bases:
            self._count(base)
            if not isinstance(base, Mapping) or base in merging:
                message = "'<<' must be an alias of a mapping, or a list of such aliases"
                self.faults.append(TextFault(place, message, base.line))
                continue
            yield from self._entries(base, place, (*merging, node))

    def _count(self, node: Node) -> None:
        self._values += 1
        if self._values > self._dialect.max_values:
            limit = self._dialect.max_values
            raise UnreadableText(node.line, f"more than {counted(limit, 'value')} once aliases are filled in")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def dotted(place: AnySequence[str | int]) -> str:
    """Return a place as text for messages, such as ``environments.dev.secret_keys[0]``.

    A key is quoted and cut to 64 characters if it contains other characters than letters, digits, ``_`` and ``-``.
    """
    text = ""
    for step in map(str, place):
        if step.isdigit() and text:
            text += f"[{step}]"
            continue
        key_text = step if _WORD.fullmatch(step) else repr(step[:64])
        text += f".{key_text}" if text else key_text
    return text
