"""Turns a key's rules into tools for `tools/list`, each with its arguments. No I/O.

Each rule becomes a tool. A rule that names operations of the catalog becomes one tool for each operation, named after
the operation's id. Each placeholder and wildcard in a rule's path becomes an argument. The argument for ``{issue}`` has
the name ``issue``; the argument for ``*`` or ``**`` has the name of the segment before the wildcard. The part of the
path that the provider's base URL contains becomes no argument.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gateway.access.key_policy import RESERVED_NAMES, RESERVED_PLACEHOLDERS, WEBSOCKET, KeyRule
from gateway.access.operation_rules import OperationRule
from gateway.catalog.api_operations import ApiOperation
from gateway.mcp.path_overlap import Overlaps, overlap
from gateway.text import counted

MOST_LISTED: Final = 12
MOST_PINNED: Final = 9  # maximum number of a key's tools in a shortened list
MOST_CHARS: Final = 3900  # maximum size of a shortened list with starters, because a model reads the whole list
MOST_FOUND: Final = 10
MOST_WORDS: Final = 16
LONGEST_QUERY: Final = 512  # maximum length of a query for find_tools, because each word is searched in each tool
MOST_CONNECTIONS: Final = 20  # if a key has more connections, `tools/list` names no connection
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110 §9.2.1
IDEMPOTENT: Final = SAFE | {"PUT", "DELETE"}  # RFC 9110 §9.2.2
BODILESS: Final = SAFE
USUAL: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")  # the methods offered for ``*``
_COMPANIONS: Final = frozenset({"HEAD", "OPTIONS"})
_NEVER: Final = frozenset({WEBSOCKET, "CONNECT", "TRACE"})
_OPEN: Final = re.compile(r"\*\*|\*|\{[a-z][a-z0-9_]{0,62}\}")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_LONGEST_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class PathArgument:
    """A part of a path that the caller fills in.

    `deep`: whether the value can contain ``/``. `optional`: whether the value can be empty.
    """

    name: str
    deep: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class RuleTool:
    """A tool made from a rule.

    `methods`: the methods that the tool can send; at least one. `path`: the path below the provider's base URL, as
    texts and arguments. The path of an operation can begin with ``${settings}`` of the connection. `integrations`: the
    integrations with a base URL that fits the rule. `details`: the catalog's details of an operation; None for a rule
    with methods and a path. `pages`: whether the tool returns a list that the catalog entry can page.
    """

    name: str
    rule: KeyRule | OperationRule
    methods: tuple[str, ...]
    path: tuple[str | PathArgument, ...]
    integrations: tuple[str, ...]
    details: ApiOperation | None = None
    pages: bool = False

    @property
    def only_reads(self) -> bool:
        """Whether the tool changes nothing, by its methods or by the operation's risk in the catalog."""
        return set(self.methods) <= SAFE or (isinstance(self.rule, OperationRule) and self.rule.risk == "read")

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
class OperationPlace:
    """The base URL of the operations of one rule.

    `integrations`: the integrations with this base URL. `base`: the path of the base URL. `details`: the catalog's
    details of each operation, by operation id.
    """

    integrations: tuple[str, ...]
    base: str
    details: Mapping[str, ApiOperation]


class _Names:
    """The names in use. Remembers the next number for each name, because a rule can have hundreds of arguments."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def add(self, name: str) -> str:
        """Return `name`, with a number if `name` is already in use, and mark the result as in use."""
        free, base = name[:_LONGEST_NAME], name[: _LONGEST_NAME - 4]
        number = self._next.get(base, 2)
        while free in self._taken:
            free, number = f"{base}_{number}", number + 1
        self._next[base] = number
        self._taken.add(free)
        return free


def tools_of(
    rules: Sequence[Sequence[KeyRule | OperationRule]],
    bases: Mapping[str, str | None],
    places: Mapping[str, OperationPlace] | None = None,
) -> list[RuleTool]:
    """Return the tools of a key with these rules (`Policy.rules`).

    `bases`: the path of the base URL, with placeholders, of each integration that the key can use; None if the path
    depends on the connection. `places`: the place of each rule that names operations, by the rule's text.

    A rule gives no tool if no integration has a base URL that fits it, if a parent key forbids all its requests, or if
    it is about the tools of a provider's own MCP server, which lists them itself.
    """
    if not rules:
        return []
    made: list[RuleTool] = []
    overlaps = Overlaps()
    taken = _Names({rule.name for rule in rules[-1] if isinstance(rule, KeyRule) and rule.name} | RESERVED_NAMES)
    for rule in rules[-1]:
        methods = _methods(rule, rules[:-1], overlaps)
        if isinstance(rule, OperationRule):
            place = (places or {}).get(rule.text)
            if methods and place is not None and place.integrations:
                made.append(_operation_tool(rule, place, taken))
            continue
        if rule.body is not None and rule.body.kind == "tools":
            continue
        fitting = {one: path for one, base in bases.items() if (path := below_base(rule, base)) is not None}
        if not methods or not fitting:
            continue
        path = next(iter(fitting.values()))
        integrations = tuple(one for one, other in fitting.items() if other == path)
        name = rule.name or _free_name(methods, path, taken)
        made.append(RuleTool(name, rule, methods, path, integrations))
    return made


def _operation_tool(rule: OperationRule, place: OperationPlace, taken: _Names) -> RuleTool:
    first, *rest = _parts(rule.operation_path)
    path = (f"{rule.path_prefix.removeprefix(place.base)}{first}", *rest)
    name = rule.name
    if name in taken:  # in use by an operation of another provider, or by a rule
        name = f"{rule.name}_of_{place.integrations[0]}".lower()
    return RuleTool(
        taken.add("_".join(_WORD.findall(name))),
        rule,
        (rule.method,),
        path,
        place.integrations,
        place.details.get(rule.name),
    )


@lru_cache(maxsize=4096)
def below_base(rule: KeyRule | OperationRule, base: str | None) -> tuple[str | PathArgument, ...] | None:
    """Return the part of the rule's path below `base`, with its arguments.

    Return None if the rule's path is not below `base`.
    """
    parts = _parts(rule.path_pattern)
    if not base:
        return parts
    segments = list(_segments(parts))[1:]
    for text in base.strip("/").split("/"):
        if not segments:
            return None
        segment = segments[0]
        if any(isinstance(part, PathArgument) and part.deep for part in segment):
            break  # ``**`` matches any number of segments, including those of the base URL
        if not _may_be(segment, text):
            return None
        segments.pop(0)
    return _joined(segments)


@lru_cache(maxsize=64)  # the same path is parsed for each base URL
def _parts(path: str) -> tuple[str | PathArgument, ...]:
    """Return a rule's `path` as texts and arguments, each argument with a unique name."""
    parts: list[str | PathArgument] = []
    names = _Names(found[0].strip("{}") for found in _OPEN.finditer(path) if found[0].startswith("{"))
    at, before, word = 0, "", ""
    for found in _OPEN.finditer(path):
        text = path[at : found.start()]
        at = found.end()
        if text:
            parts.append(text)
        word = _last_word(word, before, text)
        before = (before + text).rpartition("/")[2]
        inside = bool(before) or path[at : at + 1] not in ("", "/")
        deep = found[0] == "**"
        if found[0].startswith("{"):
            name = found[0].strip("{}")
        else:
            name = names.add(_argument_name(word or "path", inside=inside, deep=deep))
        parts.append(PathArgument(name, deep, optional=deep or inside))
    if path[at:]:
        parts.append(path[at:])
    return tuple(parts)


def _argument_name(word: str, *, inside: bool, deep: bool) -> str:
    name = word.lower() if not word[:1].isdigit() else f"part_{word.lower()}"
    name = f"{name}_rest" if inside or deep else name
    return f"{name}_" if name in RESERVED_PLACEHOLDERS else name


def _last_word(word: str, before: str, text: str) -> str:
    """Return the last word of a path that ends with `text`.

    `word`: the last word before `text`. `before`: the last segment of the path before `text`.
    """
    words: list[str] = _WORD.findall(text)
    if len(words) == 1 and _WORD.match(text) and _WORD.match(before[-1:]):
        return word + words[0]
    return words[-1] if words else word


def _segments(parts: Iterable[str | PathArgument]) -> Iterator[list[str | PathArgument]]:
    """Yield the path's segments, cut at each ``/``; the first segment, before the first ``/``, is empty."""
    segment: list[str | PathArgument] = []
    for part in parts:
        if isinstance(part, PathArgument):
            segment.append(part)
            continue
        first, *others = part.split("/")
        segment += [first] if first else []
        for other in others:
            yield segment
            segment = [other] if other else []
    yield segment


def _joined(segments: Iterable[Sequence[str | PathArgument]]) -> tuple[str | PathArgument, ...]:
    merged: list[str | PathArgument] = []
    for segment in segments:
        for part in ("/", *segment):
            if isinstance(part, str) and merged and isinstance(merged[-1], str):
                merged[-1] += part
            else:
                merged.append(part)
    return tuple(merged)


def _may_be(segment: Sequence[str | PathArgument], text: str) -> bool:
    """Return whether a rule's segment can match a segment of the base URL, in which ``${…}`` is any text."""
    if "${" in text:
        return True
    return overlap("".join(part if isinstance(part, str) else "*" for part in segment), text)


def _methods(
    rule: KeyRule | OperationRule, above: Sequence[Sequence[KeyRule | OperationRule]], overlaps: Overlaps
) -> tuple[str, ...]:
    """Return the methods that a tool offers: the methods of the rule that every parent key can allow for such a path.

    HEAD and OPTIONS are offered only if there are no other methods, because their responses are of little use to an
    agent.
    """
    named = set(USUAL) if rule.methods is None else set(rule.methods) - _NEVER
    for rules in above:
        missing = set(named)
        for other in rules:
            shared = missing if other.methods is None else missing & other.methods
            if shared and overlaps.may(rule.path_pattern, other.path_pattern):
                missing = missing - shared
        named -= missing
    named = named - _COMPANIONS or named
    return tuple(sorted(named, key=lambda method: (USUAL.index(method) if method in USUAL else len(USUAL), method)))


def _free_name(methods: Sequence[str], path: Sequence[str | PathArgument], taken: _Names) -> str:
    """Return a name that is not in use, for example ``get_rest_api_3_issue`` for ``GET /rest/api/3/issue/*``."""
    words = [word for part in path if isinstance(part, str) for word in _WORD.findall(part)]
    verb = methods[0].lower().replace("-", "_") if len(methods) == 1 else "call"
    return taken.add("_".join((verb, *(word.lower() for word in words)))[:_LONGEST_NAME])


# ── Builds annotations, which depend only on a tool's methods (RFC 9110 §9.2).


def annotations(methods: Iterable[str]) -> dict[str, bool]:
    """Return the annotations that are true for all of these methods.

    Only a safe method (RFC 9110 §9.2.1) is certain to change nothing.
    """
    sent = set(methods)
    read_only = sent <= SAFE
    return {
        "readOnlyHint": read_only,
        "destructiveHint": not read_only,
        "idempotentHint": sent <= IDEMPOTENT,
        "openWorldHint": True,
    }


OF_THE_LIST: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}

# ── Builds schemas. A model reads each character, so the schemas are as short as possible.

_TEXT: Final = {"type": "string"}
_SELECT: Final = {"type": "string", "description": "JMESPath on a JSON response"}
_MAX_BYTES: Final = {"type": "integer", "description": "response limit; default 20000"}
_CURSOR: Final = {"type": "string", "description": "from the previous page"}
_QUERY: Final = {"type": "object", "description": "URL parameters"}
_BODY: Final[dict[str, Any]] = {
    "body": {"type": ["object", "array"], "description": "JSON body"},
    "body_as": {"enum": ["json", "form"]},
}
_GRAPHQL_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"query": _TEXT, "variables": {"type": "object"}},
    "required": ["query"],
}


def connection_schema(named: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the argument `connection`.

    `named`: the connections that the key's limits name; empty if the limits name no connection.
    """
    if 0 < len(named) <= MOST_CONNECTIONS:
        return {"enum": list(named)}
    return {"type": "string", "description": "INTEGRATION/CONNECTION"}


def tool_json(tool: RuleTool, connections: Sequence[str], *, choose: bool) -> dict[str, Any]:
    """Return a tool for `tools/list`.

    `connections`: the connections that the key's limits name; empty if the limits name no connection. `choose`: whether
    the caller must name the connection.
    """
    if isinstance(tool.rule, OperationRule):
        return _shown_operation(tool, tool.rule, connections, choose=choose)
    properties: dict[str, Any] = {one.name: _TEXT for one in tool.arguments}
    required = [one.name for one in tool.arguments if not one.optional]
    if len(tool.methods) > 1:
        properties["method"] = {"enum": list(tool.methods)}
        required.append("method")
    if tool.rule.body is not None:
        properties["body"] = _GRAPHQL_BODY
        required.append("body")
    else:
        properties["query"] = _QUERY
        properties |= {} if set(tool.methods) <= BODILESS else _BODY
    if tool.pages:
        properties["cursor"] = _CURSOR
    _add_common(properties, required, [one for one in connections if _of(one) in tool.integrations], choose=choose)
    return {
        "name": tool.name,
        "description": f"{tool.summary} ({', '.join(tool.integrations)})",
        "inputSchema": _schema(properties, required),
        "annotations": annotations(tool.methods),
    }


def _shown_operation(
    tool: RuleTool, rule: OperationRule, connections: Sequence[str], *, choose: bool
) -> dict[str, Any]:
    """Return an operation's tool for `tools/list`, without the values that a client assumes by default."""
    properties: dict[str, Any] = {one.name: _TEXT for one in tool.arguments}
    required = [one.name for one in tool.arguments]
    names = () if tool.details is None else tool.details.query
    properties["query"] = {"type": "object", **({"properties": dict.fromkeys(names, _TEXT)} if names else {})}
    if rule.method not in BODILESS and (tool.details.body if tool.details is not None else rule.method != "DELETE"):
        properties["body"] = {"type": ["object", "array"]}
    if tool.pages:
        properties["cursor"] = _TEXT
    fitting = [one for one in connections if _of(one) in tool.integrations]
    if choose and len(fitting) != 1:
        properties["connection"] = connection_schema(fitting)
        required.append("connection")
    properties |= {"select": _TEXT, "max_bytes": {"type": "integer"}}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    hints: dict[str, bool] = {"readOnlyHint": tool.only_reads}
    if rule.method in IDEMPOTENT and not tool.only_reads:
        hints["idempotentHint"] = True  # MCP's default is false
    return {
        "name": tool.name,
        "description": tool.summary,
        "inputSchema": {**schema, "required": required} if required else schema,
        "annotations": hints,
    }


def _of(connection: str) -> str:
    return connection.partition("/")[0]


def _add_common(properties: dict[str, Any], required: list[str], connections: Sequence[str], *, choose: bool) -> None:
    properties |= {"select": _SELECT, "max_bytes": _MAX_BYTES}
    if choose and len(connections) != 1:
        properties["connection"] = connection_schema(connections)
        required.append("connection")


def _schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def call_api(
    rules: Sequence[Sequence[KeyRule | OperationRule]], connections: Sequence[str], *, choose: bool
) -> dict[str, Any]:
    """Return the tool `call_api`, which sends any request that the key's rules allow."""
    methods: set[str] = set(USUAL)
    if rules:
        methods = {name for rule in rules[-1] for name in (USUAL if rule.methods is None else rule.methods)} - _NEVER
    properties: dict[str, Any] = {"method": _TEXT, "path": _TEXT, "query": _QUERY, **_BODY}
    required = ["method", "path"]
    _add_common(properties, required, connections, choose=choose)
    return {
        "name": "call_api",
        "description": "Send a request to the provider's API. path: below its base URL, such as /v1/items.",
        "inputSchema": _schema(properties, required),
        "annotations": annotations(methods),
    }


def list_tools(tools: Sequence[RuleTool]) -> list[dict[str, Any]]:
    """Return the three tools that replace a list that is too long for a model."""
    methods = {"GET"} if all(tool.only_reads for tool in tools) else {one for tool in tools for one in tool.methods}
    name = {"name": _TEXT}
    return [
        {
            "name": "find_tools",
            "description": f"Search the {counted(len(tools), 'tool')} of this key by words.",
            "inputSchema": _schema({"query": _TEXT}, ["query"]),
            "annotations": OF_THE_LIST,
        },
        {
            "name": "describe_tool",
            "description": "Show a tool's arguments.",
            "inputSchema": _schema(name, ["name"]),
            "annotations": OF_THE_LIST,
        },
        {
            "name": "call_tool",
            "description": "Call a found tool.",
            "inputSchema": _schema({**name, "arguments": {"type": "object"}}, ["name", "arguments"]),
            "annotations": annotations(methods),
        },
    ]


def listed(
    tools: Sequence[RuleTool],
    rules: Sequence[Sequence[KeyRule | OperationRule]],
    connections: Sequence[str],
    *,
    choose: bool,
) -> list[dict[str, Any]]:
    """Return the tools that `tools/list` shows, at most `MOST_LISTED`.

    Every key can call `call_api`, but only a key without rules sees it in the list. The tools of other keys already
    cover everything that these keys can do.
    """
    if not rules:
        return [call_api(rules, connections, choose=choose)]
    if len(tools) <= MOST_LISTED:
        return [tool_json(tool, connections, choose=choose) for tool in tools]
    named = [tool for tool in tools if isinstance(tool.rule, KeyRule) and tool.rule.name]
    pinned = [tool_json(tool, connections, choose=choose) for tool in named[:MOST_PINNED]]
    about = list_tools(tools)
    room = MOST_CHARS - len(json.dumps([*pinned, *about]))
    for tool in (tool for tool in tools if tool.is_starter and len(pinned) < MOST_PINNED):
        one = tool_json(tool, connections, choose=choose)
        room -= len(json.dumps(one)) + 2
        if room < 0:
            break
        pinned.append(one)
    return [*pinned, *about]


def matching_tools(tools: Sequence[RuleTool], query: str) -> list[RuleTool]:
    """Return up to `MOST_FOUND` tools that contain words of the query, those with the most words first.

    Only the first `MOST_WORDS` words count, because the event loop searches each word in every tool.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))[:MOST_WORDS]

    def score(tool: RuleTool) -> int:
        text = f"{tool.name} {tool.shown_path} {' '.join(tool.methods)} {tool.summary}".lower()
        return sum(word in text for word in words)

    ranked = sorted(tools, key=score, reverse=True)
    return [tool for tool in ranked if not words or score(tool)][:MOST_FOUND]
