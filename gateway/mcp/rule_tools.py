"""Turns a key's rules into tools, each with its arguments. No I/O.

Each rule becomes a tool. A rule that names operations of the catalog becomes one tool for each operation, named after
the operation's id. Each placeholder and wildcard in a rule's path becomes an argument. The argument for ``{issue}`` has
the name ``issue``; the argument for ``*`` or ``**`` has the name of the segment before the wildcard. The part of the
path that the provider's base URL contains becomes no argument.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gateway.access.key_rule import RESERVED_NAMES, RESERVED_PLACEHOLDERS, WEBSOCKET, KeyRule
from gateway.access.operation_rules import OperationRule
from gateway.catalog.api_operations import ApiOperation
from gateway.mcp.path_overlap import WILDCARD, Overlaps, overlap

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110 §9.2.1
USUAL_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")  # the methods offered for ``*``
UNSENDABLE_METHODS: Final = frozenset({WEBSOCKET, "CONNECT", "TRACE"})  # no tool sends these methods
WORD: Final = re.compile(r"[A-Za-z0-9]+")
_STARS: Final = re.compile(r"\*\*?")
_HEAD_AND_OPTIONS: Final = frozenset({"HEAD", "OPTIONS"})
_MAX_NAME_CHARS: Final = 63


@dataclass(frozen=True, slots=True)
class PathArgument:
    """A part of a path that the caller fills in.

    `may_have_slash`: whether the value can contain ``/``. `optional`: whether the value can be empty.
    """

    name: str
    may_have_slash: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class RuleTool:
    """A tool made from a rule.

    - `methods`: the methods that the tool can send; at least one
    - `path`: the path below the provider's base URL, as texts and arguments. The path of an operation can begin with
      ``${settings}`` of the connection.
    - `integrations`: the integrations with a base URL that fits the rule
    - `details`: the catalog's details of an operation; None for a rule with methods and a path
    - `is_paged`: whether the tool returns a list that the catalog entry can page
    - `own_argument_names`: the names of the arguments that not every tool has
    - `fixed_path`: the path; None if it has arguments
    """

    name: str
    rule: KeyRule | OperationRule
    methods: tuple[str, ...]
    path: tuple[str | PathArgument, ...]
    integrations: tuple[str, ...]
    details: ApiOperation | None = None
    is_paged: bool = False
    own_argument_names: frozenset[str] = field(init=False, compare=False, repr=False)
    fixed_path: str | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [argument.name for argument in self.arguments]
        object.__setattr__(self, "own_argument_names", frozenset([*names, "cursor"] if self.is_paged else names))
        texts = [part for part in self.path if isinstance(part, str)]
        object.__setattr__(self, "fixed_path", None if names else "".join(texts))

    @property
    def only_reads(self) -> bool:
        """Whether the tool changes nothing, by its methods or by the operation's risk in the catalog."""
        return set(self.methods) <= SAFE_METHODS or (isinstance(self.rule, OperationRule) and self.rule.risk == "read")

    @property
    def is_starter(self) -> bool:
        return isinstance(self.rule, OperationRule) and self.rule.starter

    @property
    def summary(self) -> str:
        """The tool's purpose: the operation's summary in the catalog, or else methods and path."""
        if self.details is not None and self.details.summary:
            return self.details.summary
        path = self.rule.operation_path if isinstance(self.rule, OperationRule) else self.shown_path
        body = self.rule.body if isinstance(self.rule, KeyRule) else None
        return f"{','.join(self.methods)} {path}" + (f", GraphQL {body.text}" if body is not None else "")

    @property
    def arguments(self) -> list[PathArgument]:
        return [part for part in self.path if isinstance(part, PathArgument)]

    @property
    def shown_path(self) -> str:
        return "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in self.path) or "/"


@dataclass(frozen=True, slots=True)
class OperationBase:
    """The base URL of the operations of one rule.

    `integrations`: the integrations with this base URL. `base`: the path of the base URL. `details`: the catalog's
    details of each operation, by operation id.
    """

    integrations: tuple[str, ...]
    base: str
    details: Mapping[str, ApiOperation]


class _UsedNames:
    """The names in use. Remembers the next number for each name, because a rule can have hundreds of arguments."""

    def __init__(self, names: Iterable[str]) -> None:
        self._used = set(names)
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def add(self, name: str) -> str:
        """Return `name`, with a number if `name` is already in use, and mark the result as in use."""
        unique_name, base = name[:_MAX_NAME_CHARS], name[: _MAX_NAME_CHARS - 4]
        number = self._next.get(base, 2)
        while unique_name in self._used:
            unique_name, number = f"{base}_{number}", number + 1
        self._next[base] = number
        self._used.add(unique_name)
        return unique_name


def tools_of(
    rules: Sequence[Sequence[KeyRule | OperationRule]],
    base_paths: Mapping[str, str | None],
    operation_bases: Mapping[str, OperationBase] | None = None,
) -> list[RuleTool]:
    """Return the tools of a key with these rules (`Policy.rules`).

    `base_paths`: the path of the base URL, with placeholders, of each integration that the key can use; None if the path
    depends on the connection. `operation_bases`: the base URL of each rule that names operations, by the rule's text.

    A rule gives no tool if no integration has a base URL that fits it, if a parent key forbids all its requests, or if
    it is about the tools of a provider's own MCP server, which lists them itself.
    """
    if not rules:
        return []
    tools: list[RuleTool] = []
    overlaps = Overlaps()
    names = _UsedNames({rule.name for rule in rules[-1] if isinstance(rule, KeyRule) and rule.name} | RESERVED_NAMES)
    for rule in rules[-1]:
        methods = _methods(rule, rules[:-1], overlaps)
        if isinstance(rule, OperationRule):
            operation_base = (operation_bases or {}).get(rule.text)
            if methods and operation_base is not None and operation_base.integrations:
                tools.append(_operation_tool(rule, operation_base, names))
            continue
        if rule.body is not None and rule.body.kind == "tools":
            continue
        paths = {
            integration: path
            for integration, base in base_paths.items()
            if (path := path_below_base(rule, base)) is not None
        }
        if not methods or not paths:
            continue
        path = next(iter(paths.values()))
        integrations = tuple(integration for integration, tool_path in paths.items() if tool_path == path)
        name = rule.name or _unused_name(methods, path, names)
        tools.append(RuleTool(name, rule, methods, path, integrations))
    return tools


def _operation_tool(rule: OperationRule, operation_base: OperationBase, names: _UsedNames) -> RuleTool:
    first_part, *other_parts = _parts(rule.operation_path, has_placeholders=True)
    path = (f"{rule.path_prefix.removeprefix(operation_base.base)}{first_part}", *other_parts)
    name = rule.name
    if name in names:  # in use by an operation of another provider, or by a rule
        name = f"{rule.name}_of_{operation_base.integrations[0]}".lower()
    return RuleTool(
        names.add("_".join(WORD.findall(name))),
        rule,
        (rule.method,),
        path,
        operation_base.integrations,
        operation_base.details.get(rule.name),
    )


@lru_cache(maxsize=4096)
def path_below_base(rule: KeyRule | OperationRule, base: str | None) -> tuple[str | PathArgument, ...] | None:
    """Return the part of the rule's path below `base`, with its arguments.

    Return None if the rule's path is not below `base`.
    """
    parts = _parts(rule.path_pattern, has_placeholders=bool(rule.name))
    if not base:
        return parts
    segments = list(_segments(parts))[1:]
    for text in base.strip("/").split("/"):
        if not segments:
            return None
        segment = segments[0]
        if any(isinstance(part, PathArgument) and part.may_have_slash for part in segment):
            break  # ``**`` matches any number of segments, including those of the base URL
        if not _may_match(segment, text):
            return None
        segments.pop(0)
    return _join_segments(segments)


@lru_cache(maxsize=64)  # the same path is parsed for each base URL
def _parts(path: str, *, has_placeholders: bool) -> tuple[str | PathArgument, ...]:
    """Return a rule's `path` as texts and arguments, each argument with a unique name.

    `has_placeholders`: whether braces are placeholders. In a rule without a name, they are text.
    """
    parts: list[str | PathArgument] = []
    wildcards = list((WILDCARD if has_placeholders else _STARS).finditer(path))
    names = _UsedNames(match[0].strip("{}") for match in wildcards if match[0].startswith("{"))
    end, segment_start, last_word = 0, "", ""
    for match in wildcards:
        text = path[end : match.start()]
        end = match.end()
        if text:
            parts.append(text)
        last_word = _last_word(last_word, segment_start, text)
        segment_start = (segment_start + text).rpartition("/")[2]
        is_partial = bool(segment_start) or path[end : end + 1] not in ("", "/")
        may_have_slash = match[0] == "**"
        if match[0].startswith("{"):
            name = match[0].strip("{}")
        else:
            name = names.add(_argument_name(last_word or "path", is_partial=is_partial, may_have_slash=may_have_slash))
        between_slashes = text.endswith("/") and path[end : end + 1] == "/"  # an empty value would leave ``//``
        parts.append(
            PathArgument(name, may_have_slash, optional=is_partial or (may_have_slash and not between_slashes))
        )
    if path[end:]:
        parts.append(path[end:])
    return tuple(parts)


def _argument_name(word: str, *, is_partial: bool, may_have_slash: bool) -> str:
    name = word.lower() if not word[:1].isdigit() else f"part_{word.lower()}"
    name = f"{name}_rest" if is_partial or may_have_slash else name
    return f"{name}_" if name in RESERVED_PLACEHOLDERS else name


def _last_word(word: str, segment_start: str, text: str) -> str:
    """Return the last word of a path that ends with `text`.

    `word`: the last word before `text`. `segment_start`: the last segment of the path before `text`.
    """
    words: list[str] = WORD.findall(text)
    if len(words) == 1 and WORD.match(text) and WORD.match(segment_start[-1:]):
        return word + words[0]
    return words[-1] if words else word


def _segments(parts: Iterable[str | PathArgument]) -> Iterator[list[str | PathArgument]]:
    """Yield the path's segments, cut at each ``/``; the first segment, before the first ``/``, is empty."""
    segment: list[str | PathArgument] = []
    for part in parts:
        if isinstance(part, PathArgument):
            segment.append(part)
            continue
        first_text, *later_texts = part.split("/")
        segment += [first_text] if first_text else []
        for text in later_texts:
            yield segment
            segment = [text] if text else []
    yield segment


def _join_segments(segments: Iterable[Sequence[str | PathArgument]]) -> tuple[str | PathArgument, ...]:
    merged: list[str | PathArgument] = []
    for segment in segments:
        for part in ("/", *segment):
            if isinstance(part, str) and merged and isinstance(merged[-1], str):
                merged[-1] += part
            else:
                merged.append(part)
    return tuple(merged)


def _may_match(segment: Sequence[str | PathArgument], text: str) -> bool:
    """Return whether a rule's segment can match a segment of the base URL, in which ``${…}`` is any text."""
    if "${" in text:
        return True
    return overlap("".join(part if isinstance(part, str) else "*" for part in segment), text)


def _methods(
    rule: KeyRule | OperationRule, parent_rules: Sequence[Sequence[KeyRule | OperationRule]], overlaps: Overlaps
) -> tuple[str, ...]:
    """Return the methods that a tool offers: the methods of the rule that every parent key can allow for such a path.

    HEAD and OPTIONS are offered only if there are no other methods, because their responses are of little use to an
    agent.
    """
    methods = set(USUAL_METHODS) if rule.methods is None else set(rule.methods) - UNSENDABLE_METHODS
    for rules in parent_rules:
        forbidden = set(methods)
        for parent_rule in rules:
            shared = forbidden if parent_rule.methods is None else forbidden & parent_rule.methods
            if shared and overlaps.may_overlap(rule.path_pattern, parent_rule.path_pattern):
                forbidden = forbidden - shared
        methods -= forbidden
    methods = methods - _HEAD_AND_OPTIONS or methods
    return tuple(
        sorted(
            methods,
            key=lambda method: (USUAL_METHODS.index(method) if method in USUAL_METHODS else len(USUAL_METHODS), method),
        )
    )


def _unused_name(methods: Sequence[str], path: Sequence[str | PathArgument], names: _UsedNames) -> str:
    """Return a name that is not in use, for example ``get_rest_api_3_issue`` for ``GET /rest/api/3/issue/*``."""
    words = [word for part in path if isinstance(part, str) for word in WORD.findall(part)]
    verb = methods[0].lower().replace("-", "_") if len(methods) == 1 else "call"
    return names.add("_".join((verb, *(word.lower() for word in words)))[:_MAX_NAME_CHARS])
