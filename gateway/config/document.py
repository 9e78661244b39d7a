"""A configuration as plain values, with the line of each, and what is wrong with it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.documents import nodes
from gateway.documents.nodes import Mapping as MappingNode
from gateway.documents.nodes import Node, Scalar, Sequence, UnreadableText

if TYPE_CHECKING:
    from gateway.config.model import Config

# ── What is wrong with a configuration, reported all at once and each fault where it stands.


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is ``gateway.yaml:17``, or ``environments.dev`` in a configuration given as a mapping. Never shows a secret."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Readable:
    """What of a faulty configuration can be looked at all the same; `left_out` are the places that its faults name."""

    config: "Config"
    left_out: frozenset[tuple[str, ...]]


class Faults(Exception):
    """The configuration, or the catalog it uses, cannot be used. As text: one line a fault, in the order of the file.

    `readable` lets what lies behind a configuration be checked in the same pass; None where nothing could be read.
    """

    def __init__(self, faults: Iterable[Fault], readable: Readable | None = None) -> None:
        self.faults = tuple(faults)
        self.readable = readable
        super().__init__("\n".join(map(str, self.faults)))


Place: TypeAlias = tuple[str, ...]

MAX_BYTES: Final = 4 << 20
MAX_NODES: Final = 200_000
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault before it has an address: `line` is None where that of `place` says it.

    `unnamed`: the last key of `place` is not repeated, since it may hold what was meant as a value.
    """

    place: Place
    message: str
    line: int | None = None
    unnamed: bool = False

    @property
    def keys(self) -> str:
        return dotted(self.place[:-1] if self.unnamed else self.place)


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """`tree` is what it says; `lines` tells where, by place: the keys and list indices that lead there.

    `name` is the file as the operator named it, None for a mapping: then a place is reported by its keys.
    """

    name: str | None
    tree: dict[str, Any] = field(repr=False)
    lines: Mapping[Place, int] = field(repr=False, default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def line(self, place: Place) -> int:
        """The line of `place`, or of the nearest thing around it that is there."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)

    def where(self, place: Place) -> str:
        if self.name is None:
            return dotted(place) or "configuration"
        return f"{self.name}:{self.line(place)}"

    def fault(self, finding: Finding) -> Fault:
        if self.name is None:
            return Fault(finding.keys or "configuration", finding.message)
        line = finding.line or self.line(finding.place)
        message = f"{finding.keys}: {finding.message}" if finding.keys else finding.message
        return Fault(f"{self.name}:{line}", message)

    def faults(self, findings: AnySequence[Finding]) -> list[Fault]:
        """In the order of the file."""
        all_findings = [*self.findings, *findings]
        all_findings.sort(key=lambda finding: finding.line or self.line(finding.place))
        return list(dict.fromkeys(map(self.fault, all_findings)))


def dotted(place: Place) -> str:
    """``environments.dev.secret_keys[0]``"""
    text = ""
    for step in place:
        if step.isdigit() and text:
            text += f"[{step}]"
            continue
        word = step if _WORD.fullmatch(step) else repr(step[:64])
        text += f".{word}" if text else word
    return text


def read_file(path: Path) -> ConfigDocument:
    """The file at `path`, YAML or JSON. Raises Faults when it cannot be read at all."""
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        advice = "there is no such file; `gateway init` writes one, and -c FILE names another"
        raise Faults([Fault(name, advice)]) from None
    except IsADirectoryError:
        raise Faults(
            [Fault(name, f"this is a folder; name the file, such as {PurePath(name, 'gateway.yaml')}")]
        ) from None
    except OSError as error:
        raise Faults([Fault(name, f"cannot be read: {error.strerror}")]) from None
    if len(content) > MAX_BYTES:
        raise Faults([Fault(name, f"is larger than {MAX_BYTES >> 20} MiB; this is not a configuration")])
    try:
        return read_text(content.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Faults([Fault(f"{name}:{line}", "not UTF-8; save the file in that encoding")]) from None


def read_text(text: str, name: str) -> ConfigDocument:
    """What `text` says. Raises Faults when it is not YAML or JSON, or no mapping."""
    try:
        root = (nodes.read_json(text) if text.lstrip()[:1] == "{" else None) or nodes.read_yaml(text)
        if root is None or (isinstance(root, Scalar) and root.value is None):
            raise UnreadableText(1, "the file is empty; `gateway init` writes a configuration to start from")
        if not isinstance(root, MappingNode):
            raise UnreadableText(root.line, "a configuration is a mapping: keys such as 'store:' and 'environments:'")
        reading = _DocumentReading()
        tree = reading.mapping(root, ())
    except UnreadableText as error:
        raise Faults([Fault(f"{name}:{error.line}", error.message)]) from None
    return ConfigDocument(name, tree, reading.lines, tuple(reading.findings))


def from_mapping(given: Mapping[str, Any]) -> ConfigDocument:
    """A configuration made in Python: its own copy, with paths as text and every kind of sequence as a list."""
    return ConfigDocument(None, _copied(given, 0))


def _copied(value: Any, depth: int) -> Any:
    if depth > nodes.MAX_DEPTH:
        raise Faults([Fault("configuration", f"nested more than {nodes.MAX_DEPTH} levels deep")])
    if isinstance(value, Mapping):
        return {str(key): _copied(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_copied(inner, depth + 1) for inner in value]
    return str(value) if isinstance(value, PurePath) else value


class _DocumentReading:
    """One walk from nodes to values: notes each line, finds repeated keys, and bounds what aliases multiply."""

    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.findings: list[Finding] = []
        self._nodes = 0

    def mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, inner in self._entries(node, place, merging=()):
            if key.text in values:
                continue
            at = (*place, key.text)
            self.lines[at] = key.line
            values[key.text] = self._value(inner, at)
        return values

    def _value(self, node: Node, place: Place) -> Any:
        self._count(node)
        if isinstance(node, MappingNode):
            return self.mapping(node, place)
        if isinstance(node, Sequence):
            values = []
            for index, item in enumerate(node.items):
                at = (*place, str(index))
                self.lines[at] = item.line
                values.append(self._value(item, at))
            return values
        if not node.text.isascii() and not _is_unicode(node.text):
            self.findings.append(
                Finding(place, r"half a surrogate pair (\ud800 to \udfff), which is no character", node.line)
            )
            return None
        return node.value

    def _entries(
        self, node: MappingNode, place: Place, merging: tuple[MappingNode, ...]
    ) -> Iterator[tuple[Scalar, Node]]:
        """Own entries first, then merged ones (``<<``): anyone who comes first counts. Repeated own keys are findings."""
        seen: dict[str, int] = {}
        bases: list[Node] = []
        for key, inner in node.entries:
            if not isinstance(key, Scalar) or not key.text:
                self.findings.append(Finding(place, "a key must be a word", key.line))
                continue
            if key.text in seen:
                again = f"'{key.text}' is here twice, first on line {seen[key.text]}; only one can count"
                self.findings.append(Finding(place, again, key.line))
                continue
            seen[key.text] = key.line
            if key.plain and key.text == "<<":
                bases += inner.items if isinstance(inner, Sequence) else [inner]
            else:
                yield key, inner
        for base in bases:
            self._count(base)
            if not isinstance(base, MappingNode) or base in merging:
                self.findings.append(Finding(place, "'<<' takes an alias of a mapping, or a list of such", base.line))
                continue
            yield from self._entries(base, place, (*merging, node))

    def _count(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise UnreadableText(node.line, f"more than {MAX_NODES} values once aliases are filled in")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
