"""A catalog file as plain values, every value's line still known, and what is wrong with catalog files.

Read with libyaml, but not as YAML 1.1 has it: ``no`` and ``2024-01-31`` stay text (only true, false, null and
numbers are something else), a key given twice is a fault, and there are no tags and no merge keys.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from gateway.config import document as config_faults
from gateway.documents.nodes import explained

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog

# ── What is wrong with catalog files, all of it at once, each as ``file:line: what, and what to do``.


@dataclass(frozen=True, slots=True)
class CatalogFault(config_faults.Fault):
    """`where` is ``file:line`` (or a folder). A ``fault`` stops loading; a ``warning`` is only said by `lint`."""

    level: Literal["fault", "warning"] = "fault"

    @property
    def line(self) -> int:
        """The line that `where` names; 0 for a folder."""
        _, _, line = self.where.rpartition(":")
        return int(line) if line.isdigit() else 0


class CatalogFaults(config_faults.Faults):
    """The catalog cannot be used as it is; `faults` names every reason, `catalog` holds what is right in it."""

    faults: tuple[CatalogFault, ...]

    def __init__(self, faults: Sequence[CatalogFault], catalog: "Catalog") -> None:
        super().__init__(faults)
        self.catalog = catalog


LARGEST_BYTES: Final = 256 * 1024
MOST_NODES: Final = 20_000  # aliases count each time they are used, so a "billion laughs" stops here
DEEPEST: Final = 24


class _Loader(yaml.CSafeLoader):
    """libyaml's parser with the scalar types of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - pyyaml's own shape


_NULL, _BOOL = "tag:yaml.org,2002:null", "tag:yaml.org,2002:bool"
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_STR = "tag:yaml.org,2002:str"
_Loader.add_implicit_resolver(_NULL, re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_INT, re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(_FLOAT, re.compile(r"^[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?$"), list("-+0123456789"))


class UnreadableFile(Exception):
    """The file has no values to look at; `fault` says why."""

    def __init__(self, fault: CatalogFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class CatalogDocument:
    """`value` is the file's content; `faults` what is wrong with it as YAML, which leaves the rest readable."""

    def __init__(self, shown_path: str, root: yaml.Node, most_nodes: int = MOST_NODES) -> None:
        self._path = shown_path
        self._most_nodes = most_nodes
        self._root = root
        self._nodes = 0
        self.faults: list[CatalogFault] = []
        self.value: Any = self._plain(root, 0)

    def where(self, *path: str | int) -> str:
        """``catalog/jira.yaml:7`` for the place of `path`, or of the nearest part of it that the file has."""
        return f"{self._path}:{self._line(path)}"

    def _line(self, path: tuple[str | int, ...]) -> int:
        node, line = self._root, self._root.start_mark.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return int(line) + 1

    def _plain(self, node: yaml.Node, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > self._most_nodes or depth > DEEPEST:
            raise UnreadableFile(
                CatalogFault(self._at(node), "is nested too deep, or its aliases multiply without end")
            )
        if isinstance(node, yaml.MappingNode):
            return dict(self._pairs(node, depth))
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, depth + 1) for item in node.value]
        return self._scalar(node)

    def _pairs(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Any]]:
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.faults.append(CatalogFault(self._at(key), "a key must be plain text"))
                continue
            if key.value in first:
                message = f"{key.value!r} is given twice, first in line {first[key.value]}; keep one"
                self.faults.append(CatalogFault(self._at(key), message))
                continue
            first[key.value] = key.start_mark.line + 1
            yield key.value, self._plain(value, depth + 1)

    def _scalar(self, node: yaml.Node) -> Any:
        match node.tag:
            case t if t == _STR:
                return node.value
            case t if t == _NULL:
                return None
            case t if t == _BOOL:
                return node.value.lower() == "true"
            case t if t == _INT and len(node.value) <= 20:
                return int(node.value)
            case t if t == _FLOAT:
                return float(node.value)
        if node.tag != _INT:
            self.faults.append(
                CatalogFault(self._at(node), f"the tag {node.tag} is not allowed; write the plain value")
            )
        return node.value

    def _at(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line of `step` in `node` (a key's own line) and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


def read(path: Path, *, largest_bytes: int = LARGEST_BYTES, most_nodes: int = MOST_NODES) -> CatalogDocument:
    """The YAML file at `path`, one entry unless the limits say otherwise.

    Raises Unreadable if it is missing, no UTF-8, no YAML, too large or empty.
    """
    shown = shown_path(path)
    try:
        raw = path.read_bytes()
    except OSError as wrong:
        raise UnreadableFile(CatalogFault(f"{shown}:1", f"cannot be read: {wrong.strerror}")) from None
    if len(raw) > largest_bytes:
        raise UnreadableFile(
            CatalogFault(f"{shown}:1", f"is larger than {largest_bytes // 1024} KiB, too large for one entry")
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = raw.count(b"\n", 0, wrong.start) + 1
        raise UnreadableFile(CatalogFault(f"{shown}:{line}", "is not UTF-8; save it as UTF-8")) from None
    return CatalogDocument(shown, _compose(text, shown), most_nodes)


def _compose(text: str, shown: str) -> yaml.Node:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise UnreadableFile(CatalogFault(f"{shown}:{line}", f"is {explained(wrong, text)}")) from None
    except yaml.YAMLError as wrong:
        line = text.count("\n", 0, getattr(wrong, "position", 0)) + 1
        raise UnreadableFile(
            CatalogFault(f"{shown}:{line}", f"is not YAML: {getattr(wrong, 'reason', wrong)}")
        ) from None
    finally:
        loader.dispose()
    if root is None:
        raise UnreadableFile(
            CatalogFault(f"{shown}:1", "is empty; write display_name, categories, auth_mode and proxy")
        )
    return root


def shown_path(path: Path) -> str:
    """`path` as people will read it: from the current folder where it lies below that, else in full."""
    full = path.absolute()
    here = Path.cwd()
    return str(full.relative_to(here) if full.is_relative_to(here) else full)
