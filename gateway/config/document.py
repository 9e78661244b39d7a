"""Reads a configuration into plain values with their line numbers, and defines the faults of a configuration."""

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from gateway.documents.nodes import MAX_DEPTH, UnreadableText
from gateway.documents.read_document import Dialect, Place, decode_utf8, dotted, line_of, read_document

if TYPE_CHECKING:
    from gateway.config.model import Config

# ── Faults of a configuration. All faults are reported together, each with its place.


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the configuration. The message never contains a secret.

    `where`: the file and line, such as ``gateway.yaml:17``; if the configuration is a Python mapping, the path of keys,
    such as ``environments.dev``.
    """

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Readable:
    """The valid part of a faulty configuration, which can be checked further.

    `left_out`: the places of the faults. `lacks_only_integration_values`: whether each fault is a reference, such as
    ``${NAME}``, that cannot be filled in below an integration. Commands that call no provider then work with `config`.
    """

    config: "Config"
    left_out: frozenset[tuple[str, ...]]
    lacks_only_integration_values: bool = False


class Faults(Exception):
    """The configuration or its catalog has faults. The exception's text has one line per fault, in the file's order.

    `readable`: the valid part of the configuration, with which the caller can check more in the same pass, such as the
    catalog; None if the file could not be parsed.
    """

    def __init__(self, faults: Iterable[Fault], readable: Readable | None = None) -> None:
        self.faults = tuple(faults)
        self.readable = readable
        super().__init__("\n".join(map(str, self.faults)))


MAX_BYTES: Final = 4 << 20
MAX_VALUES: Final = 200_000
_DIALECT: Final = Dialect(MAX_VALUES, yes_is_true=True, merges=True)  # operators write ``yes`` for a boolean


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, as a check returns it, without the name of the file.

    `place`: the path of keys to the fault. `line`: the line number; None: the line of `place`. `unnamed`: whether the
    message must not repeat the last key of `place`, because this key could be a misplaced value.
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
    """A parsed configuration.

    `name`: the file as the operator named it; None if the configuration is a Python mapping. `tree`: the values.
    `lines`: the line number of each place; a place is a path of keys and list indices. `findings`: faults that were
    found during parsing. `digest`: the SHA-256 of the file's bytes in hex; empty for a mapping.
    """

    name: str | None
    tree: dict[str, Any] = field(repr=False)
    lines: Mapping[Place, int] = field(repr=False, default_factory=dict)
    findings: tuple[Finding, ...] = ()
    digest: str = ""

    def line(self, place: Place) -> int:
        """Return the line of `place`, or of its nearest parent in the file."""
        return line_of(self.lines, place)

    def file_and_line(self, place: Place) -> str:
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
        """Return the parsing faults and `findings`, in the order of the file."""
        all_findings = [*self.findings, *findings]
        all_findings.sort(key=lambda finding: finding.line or self.line(finding.place))
        return list(dict.fromkeys(map(self.fault, all_findings)))


def read_file(path: Path) -> ConfigDocument:
    """Read the YAML or JSON file at `path`. Raises Faults if the file cannot be read or parsed."""
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
        return replace(read_text(decode_utf8(content), name), digest=hashlib.sha256(content).hexdigest())
    except UnreadableText as error:
        raise Faults([Fault(f"{name}:{error.line}", error.message)]) from None


def read_text(text: str, name: str) -> ConfigDocument:
    """Read a configuration from `text`. Raises Faults if `text` is neither YAML nor JSON, or is not a mapping.

    `name`: the name of the file, for messages.
    """
    try:
        document = read_document(text, _DIALECT)
        if document.tree is None:
            raise UnreadableText(1, "the file is empty; `gateway init` writes a configuration to start from")
        if not isinstance(document.tree, dict):
            line = document.line(())
            raise UnreadableText(line, "a configuration is a mapping: keys such as 'store:' and 'environments:'")
    except UnreadableText as error:
        raise Faults([Fault(f"{name}:{error.line}", error.message)]) from None
    findings = tuple(Finding(fault.place, fault.message, fault.line) for fault in document.faults)
    return ConfigDocument(name, document.tree, document.lines, findings)


def from_mapping(mapping: Mapping[str, Any]) -> ConfigDocument:
    """Build a configuration document from a copy of a Python mapping: paths become strings, sequences become lists."""
    return ConfigDocument(None, _copy(mapping, 0))


def _key(key: object) -> str:
    try:
        return str(key)
    except ValueError:  # Python does not convert an integer of more than 4,300 digits to text
        raise Faults([Fault("configuration", "has a number of more than 4,300 digits as a key")]) from None


def _copy(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Faults([Fault("configuration", f"nested more than {MAX_DEPTH} levels deep")])
    if isinstance(value, Mapping):
        return {_key(key): _copy(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_copy(member, depth + 1) for member in value]
    return str(value) if isinstance(value, PurePath) else value
