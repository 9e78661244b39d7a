"""Text of a file that people write ▸ plain values, the line of each, and what is wrong with the text."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gateway.documents import nodes
from gateway.documents.nodes import MAX_DEPTH, Mapping, Node, Scalar, Sequence, UnreadableText
from gateway.text import counted

Place: TypeAlias = tuple[str, ...]  # keys, and list indices as text


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences between two kinds of files.

    `yes_is_true`: ``yes``, ``no``, ``on`` and ``off`` are truth values, as in YAML 1.1, and not text. `merges`: ``<<`` takes
    entries from other mappings, and is not a key. `most_values`: aliases count each time they are used.
    """

    most_values: int
    yes_is_true: bool
    merges: bool


@dataclass(frozen=True, slots=True)
class TextFault:
    """A fault in a text that can be read all the same: at `place`, on `line` (from 1)."""

    place: Place
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """`tree` is what the text says, None for an empty one; `lines` says where, by place (a key's own line)."""

    tree: Any = field(repr=False)
    lines: AnyMapping[Place, int] = field(repr=False, default_factory=dict)
    faults: tuple[TextFault, ...] = ()

    def line(self, place: Place) -> int:
        """The line of `place`, or of the nearest thing around it that is there."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)


_WORDS_OF_1_1: Final = frozenset(
    spelling for word in ("yes", "no", "on", "off") for spelling in (word, word.capitalize(), word.upper())
)


def decoded(content: bytes) -> str:
    """A file's text, without the mark that some editors begin UTF-8 with. Raises UnreadableText."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableText(line, "not UTF-8; save the file in that encoding") from None


def read_document(text: str, dialect: Dialect) -> Document:
    """Read `text`, YAML or JSON. Raises UnreadableText when it is neither, or has no end."""
    root = (nodes.read_json(text) if text.lstrip()[:1] == "{" else None) or nodes.read_yaml(text)
    if root is None:
        return Document(None)
    walk = _Walk(dialect)
    tree = walk.value(root, ())
    return Document(tree, {(): root.line, **walk.lines}, tuple(walk.faults))


class _Walk:
    """A walk from nodes to values: records each line, finds repeated keys, and bounds what aliases multiply."""

    def __init__(self, dialect: Dialect) -> None:
        self.lines: dict[Place, int] = {}
        self.faults: list[TextFault] = []
        self._dialect = dialect
        self._values = 0

    def value(self, node: Node, place: Place) -> Any:
        self._count(node)
        if len(place) > MAX_DEPTH:  # by aliases: what is written out was bounded before
            raise UnreadableText(node.line, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, Mapping):
            return self._mapping(node, place)
        if isinstance(node, Sequence):
            values = []
            for index, item in enumerate(node.items):
                at = (*place, str(index))
                self.lines[at] = item.line
                values.append(self.value(item, at))
            return values
        if not node.text.isascii() and not _is_unicode(node.text):
            message = r"half a surrogate pair (\ud800 to \udfff), which is not a character"
            self.faults.append(TextFault(place, message, node.line))
            return None
        if node.plain and not self._dialect.yes_is_true and node.text in _WORDS_OF_1_1:
            return node.text
        return node.value

    def _mapping(self, node: Mapping, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, inner in self._entries(node, place, merging=()):
            if key.text in values:
                continue
            at = (*place, key.text)
            self.lines[at] = key.line
            values[key.text] = self.value(inner, at)
        return values

    def _entries(self, node: Mapping, place: Place, merging: tuple[Mapping, ...]) -> Iterator[tuple[Scalar, Node]]:
        """Own entries first, then merged ones (``<<``): the first of a name counts. Repeated own keys are faults."""
        seen: dict[str, int] = {}
        bases: list[Node] = []
        for key, inner in node.entries:
            if not isinstance(key, Scalar) or not key.text:
                self.faults.append(TextFault(place, "a key must be plain text", key.line))
                continue
            if key.text in seen:
                again = f"{key.text!r} is given twice, first in line {seen[key.text]}; keep one"
                self.faults.append(TextFault(place, again, key.line))
                continue
            seen[key.text] = key.line
            if self._dialect.merges and key.plain and key.text == "<<":
                bases += inner.items if isinstance(inner, Sequence) else [inner]
            else:
                yield key, inner
        for base in bases:
            self._count(base)
            if not isinstance(base, Mapping) or base in merging:
                message = "'<<' takes an alias of a mapping, or a list of such"
                self.faults.append(TextFault(place, message, base.line))
                continue
            yield from self._entries(base, place, (*merging, node))

    def _count(self, node: Node) -> None:
        self._values += 1
        if self._values > self._dialect.most_values:
            most = self._dialect.most_values
            raise UnreadableText(node.line, f"more than {counted(most, 'value')} once aliases are filled in")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def dotted(place: AnySequence[str | int]) -> str:
    """``environments.dev.secret_keys[0]``, for messages; a key that is not a word is quoted and cut."""
    text = ""
    for step in map(str, place):
        if step.isdigit() and text:
            text += f"[{step}]"
            continue
        word = step if _WORD.fullmatch(step) else repr(step[:64])
        text += f".{word}" if text else word
    return text
