"""Rules that name operations of the catalog, such as ``operations jira read``, and the match with requests (ADR 54).

When a key is created, `freeze_operations` stores a snapshot of the rule with the key: the methods and paths of the
operations at that time. The catalog is not read again, so a later catalog cannot give the key more rights.

A rule allows a request if its host, method and path match an operation of the snapshot. If the request also matches an
operation that the rule leaves out, the rule allows it only if an operation of the snapshot matches more exactly.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import structlog

MAX_SNAPSHOT_BYTES: Final = 1 << 20  # maximum size of an unpacked snapshot
RISK_LETTERS: Final = {"read": "r", "write": "w", "delete": "d", "admin": "a"}
_RISKS: Final = {letter: risk for risk, letter in RISK_LETTERS.items()}
_WILDCARD: Final = re.compile(r"\{[^{}/]*\}|\*")
_SETTING: Final = re.compile(r"\$\{[^{}]*\}")
_LITERAL, _MIXED, _WHOLE = range(3)


def without_settings(path: str) -> str:
    """Return the beginning of a path with ``*`` in place of each ``${setting}``, because connections differ in it."""
    return _SETTING.sub("*", path)


@dataclass(frozen=True, slots=True)
class OperationRule:
    """An operation that a rule names.

    `text`: the rule. `name`: the operation's id, after which the tool for agents is named. `path_pattern`: the whole
    path, with ``*`` in place of settings, and with ``{placeholders}``. `path_prefix`: the beginning of the whole path,
    with ``${settings}``: the path of the base URL and the prefix of the operations file. `operation_path`: the rest of
    the whole path, as in the operations file of the catalog entry.
    """

    text: str
    method: str
    name: str
    path_pattern: str
    path_prefix: str
    operation_path: str
    risk: str
    starter: bool

    @property
    def methods(self) -> frozenset[str]:
        return frozenset((self.method,))


_RankedMatch = tuple[tuple[int, ...], OperationRule | None]

log = structlog.get_logger(__name__)


class _Node:
    """A node of the path tree.

    The children of a node are, the most exact first: `texts` (literal segments), `mixed` (segments of text and
    placeholders) and `whole` (a segment that is one placeholder).
    """

    __slots__ = ("ends", "mixed", "texts", "whole")

    def __init__(self) -> None:
        self.texts: dict[str, _Node] = {}
        self.mixed: dict[str, tuple[list[str], _Node]] = {}
        self.whole: _Node | None = None
        self.ends: dict[str, OperationRule | None] = {}  # by method; None in the tree of left-out operations


class OperationSet:
    """The operations in the snapshot of one rule. Equal snapshots share one immutable object."""

    def __init__(
        self, provider: str, host: str, base: str, rules: Iterable[OperationRule], left_out: Iterable[str]
    ) -> None:
        """`host`: the host of the base URL, with ``*`` in place of each setting. `base`: the path of the base URL.
        `left_out`: the ``METHOD /path`` of each operation that the rule does not name, but that has some requests that
        match one of `rules`."""
        self.provider = provider
        self.host = host
        self.base = base
        self.rules = tuple(rules)
        self._host_parts = host.split("*") if "*" in host else None
        self._root = _Node()
        for rule in self.rules:
            _add_path(self._root, rule.method, rule.path_pattern, rule)
        self._left_out: _Node | None = None
        own_shapes = {(rule.method, _WILDCARD.sub("*", rule.path_pattern).lower()) for rule in self.rules}
        for operation in left_out:
            method, _, path = operation.partition(" ")
            shape = _WILDCARD.sub("*", path).lower()  # many providers treat ``/Users/ME`` as ``/users/me``
            self._left_out = self._left_out or _Node()
            if (method, shape) not in own_shapes:
                _add_path(self._left_out, method, shape, None)

    def matching_operation(self, method: str, host: str, path: str) -> OperationRule | None:
        """Return the operation that this request calls; None if the request calls no operation of this set.

        `path`: the path of the request, with the path of the base URL.
        """
        host = host.lower()
        if host != self.host if self._host_parts is None else not fits_shape(self._host_parts, host):
            return None
        segments = path.split("/")
        if self._left_out is None:
            return _most_exact_match(self._root, segments, 1, method)
        allowed_matches = list(_matches(self._root, segments, 1, method, ()))
        if not allowed_matches:
            return None
        segments = path.lower().split("/")
        for exactness, _ in _matches(self._left_out, segments, 1, method, ()):
            if not any(_is_more_exact(allowed_exactness, exactness) for allowed_exactness, _ in allowed_matches):
                return None
        name_without_extension, dot, _ = segments[-1].rpartition(".")
        if dot:  # Rails reads ``/items/secret.json`` as ``/items/secret``, if no route has that path
            for exactness, _ in _matches(self._left_out, [*segments[:-1], name_without_extension], 1, method, ()):
                if not any(
                    allowed_exactness == exactness or _is_more_exact(allowed_exactness, exactness)
                    for allowed_exactness, _ in allowed_matches
                ):
                    return None
        return min(allowed_matches, key=lambda allowed_exactness: allowed_exactness[0])[1]


def _add_path(node: _Node, method: str, path: str, rule: OperationRule | None) -> None:
    for segment in path.split("/")[1:]:
        exactness = _exactness(segment)
        if exactness == _LITERAL:
            node = node.texts.setdefault(segment, _Node())
        elif exactness == _WHOLE:
            node.whole = node.whole or _Node()
            node = node.whole
        else:
            shape = _WILDCARD.sub("*", segment)
            node = node.mixed.setdefault(shape, (shape.split("*"), _Node()))[1]
    node.ends.setdefault(method, rule)


def _exactness(segment: str) -> int:
    if not _WILDCARD.search(segment):
        return _LITERAL
    return _WHOLE if _WILDCARD.fullmatch(segment) else _MIXED


def fits_shape(shape: Sequence[str], text: str) -> bool:
    """Return whether `text` consists of the parts of `shape` in order, with other text between them.

    There must be at least one character between two parts.

    Takes linear time: each middle part is matched at its first occurrence. If a text fits with a later occurrence, it
    also fits with the first.
    """
    start_text, *middle, end_text = shape
    position, end_position = len(start_text), len(text) - len(end_text)
    if not text.startswith(start_text) or not text.endswith(end_text) or end_position <= position:
        return False
    for part in middle:
        start = text.find(part, position + 1, end_position)
        if start < 0:
            return False
        position = start + len(part)
    return position < end_position


def _most_exact_match(node: _Node, segments: Sequence[str], position: int, method: str) -> OperationRule | None:
    """Return the operation with the path `segments`; None if no operation matches.

    If several operations match, the first segment in which they differ decides: the most exact operation is returned.
    """
    while position < len(segments):
        segment = segments[position]
        position += 1
        next_node = node.texts.get(segment)
        if next_node is None or node.mixed or (node.whole is not None and segment):
            branches = [] if next_node is None else [next_node]
            if segment:
                branches += [branch for shape, branch in node.mixed.values() if fits_shape(shape, segment)]
                branches += [] if node.whole is None else [node.whole]
            if not branches:
                return None
            for branch in branches[:-1]:
                if (operation := _most_exact_match(branch, segments, position, method)) is not None:
                    return operation
            next_node = branches[-1]
        node = next_node
    return node.ends.get(method)


def _matches(
    node: _Node, segments: Sequence[str], position: int, method: str, exactness_so_far: tuple[int, ...]
) -> Iterator[_RankedMatch]:
    """Yield, for each operation with the path `segments`, the exactness of each segment and the operation."""
    if position == len(segments):
        if method in node.ends:
            yield exactness_so_far, node.ends[method]
        return
    segment = segments[position]
    if (next_node := node.texts.get(segment)) is not None:
        yield from _matches(next_node, segments, position + 1, method, (*exactness_so_far, _LITERAL))
    if not segment:
        return
    for shape, next_node in node.mixed.values():
        if fits_shape(shape, segment):
            yield from _matches(next_node, segments, position + 1, method, (*exactness_so_far, _MIXED))
    if node.whole is not None:
        yield from _matches(node.whole, segments, position + 1, method, (*exactness_so_far, _WHOLE))


def _is_more_exact(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return whether `first` is at least as exact as `second` in every segment, and more exact in one segment."""
    return first != second and all(
        first_exactness <= second_exactness for first_exactness, second_exactness in zip(first, second, strict=True)
    )


# ── The snapshot: ``COUNT:``, then a compressed text in base64.
#
# The first line of the text is a JSON object with the provider, the host, the base (the path of the base URL) and
# ``before`` (the base, then the prefix of the operations file). Each further line is an operation of the rule,
# ``RISK METHOD PATH ID``, or an operation that the rule leaves out, ``- METHOD PATH``. RISK is one letter, in upper
# case for a starter operation. PATH is without ``before`` for an operation of the rule, and whole for a left-out one.


def pack_snapshot(
    provider: str, host: str, base: str, prefix: str, operations: Sequence[str], left_out: Sequence[str]
) -> str:
    """Return the snapshot of an operation rule as text, compressed, for the store.

    Raises ValueError if it is too large; the message is the rest of a sentence that begins with the rule.
    """
    head = json.dumps({"provider": provider, "host": host, "base": base, "before": prefix}, separators=(",", ":"))
    text = "\n".join((head, *operations, *(f"- {operation}" for operation in left_out))).encode()
    if len(text) > MAX_SNAPSHOT_BYTES:
        raise ValueError(f"stands for {len(operations):,} operations, too many for one key; name fewer")
    return f"{len(operations)}:{base64.b64encode(zlib.compress(text, 9)).decode()}"


_shared_sets: Final[WeakValueDictionary[tuple[str, str], OperationSet]] = WeakValueDictionary()


def operation_set(rule: str, snapshot: str) -> OperationSet:
    """Return the operations that `rule` named when its key was created.

    Keys with the same snapshot share one object. An unreadable or missing snapshot allows nothing.
    """
    shared_set = _shared_sets.get((rule, snapshot))
    if shared_set is None:
        shared_set = _shared_sets[rule, snapshot] = _unpack_snapshot(rule, snapshot)
    return shared_set


def _unpack_snapshot(rule: str, snapshot: str) -> OperationSet:
    try:
        data = base64.b64decode(snapshot.partition(":")[2], validate=True)
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, MAX_SNAPSHOT_BYTES).decode()
        if not unpacker.eof:  # a truncated text can lack left-out operations, and then allow too much
            raise ValueError("the snapshot is too large, or cut off")
        head, *lines = text.split("\n")
        members = json.loads(head)
        prefix: str = members["before"]
        rules = [_parse_line(rule, prefix, line) for line in lines if not line.startswith("- ")]
        left_out = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
        return OperationSet(members["provider"], members["host"], members["base"], rules, left_out)
    except (ValueError, KeyError, TypeError, zlib.error):
        log.warning("key_operations_unreadable", rule=rule)
        return OperationSet("", "", "", (), ())


def _parse_line(rule: str, prefix: str, line: str) -> OperationRule:
    letter, method, path_below_base, name = line.split(" ")
    rule_path = without_settings(prefix) + path_below_base
    return OperationRule(
        rule, method, name, rule_path, prefix, path_below_base, _RISKS[letter.lower()], letter.isupper()
    )
