"""Builds the response to `tools/list` from a key's tools, with schemas and annotations; searches the tools. No I/O."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.access.key_rule import KeyRule
from gateway.access.operation_rules import OperationRule
from gateway.mcp.rule_tools import SAFE_METHODS, UNSENDABLE_METHODS, USUAL_METHODS, WORD, RuleTool
from gateway.text import counted

MAX_LISTED: Final = 12
MAX_PINNED: Final = 9  # maximum number of a key's tools in a shortened list
MAX_CHARS: Final = 3900  # maximum size of a shortened list with starters, because a model reads the whole list
MAX_FOUND: Final = 10
MAX_WORDS: Final = 16
MAX_QUERY_CHARS: Final = 512  # maximum length of a query for find_tools, because each word is searched in each tool
MAX_CONNECTIONS: Final = 20  # if a key has more connections, `tools/list` names no connection
IDEMPOTENT: Final = SAFE_METHODS | {"PUT", "DELETE"}  # RFC 9110 §9.2.2
BODILESS: Final = SAFE_METHODS

# ── Builds annotations, which depend only on a tool's methods (RFC 9110 §9.2).


def annotations(methods: Iterable[str]) -> dict[str, bool]:
    """Return the annotations that are true for all of these methods.

    Only a safe method (RFC 9110 §9.2.1) is certain to change nothing.
    """
    method_set = set(methods)
    read_only = method_set <= SAFE_METHODS
    return {
        "readOnlyHint": read_only,
        "destructiveHint": not read_only,
        "idempotentHint": method_set <= IDEMPOTENT,
        "openWorldHint": True,
    }


ARGUMENTS_ABOUT_TOOLS: Final = {
    "find_tools": ("query",),
    "describe_tool": ("name",),
    "call_tool": ("arguments", "name"),
}
SEARCH_ANNOTATIONS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

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


def connection_schema(named_connections: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the argument `connection`.

    `named_connections`: the connections that the key's limits name; empty if the limits name no connection.
    """
    if 0 < len(named_connections) <= MAX_CONNECTIONS:
        return {"enum": list(named_connections)}
    return {"type": "string", "description": "INTEGRATION/CONNECTION"}


def tool_json(tool: RuleTool, connections: Sequence[str], *, must_name_connection: bool) -> dict[str, Any]:
    """Return a tool for `tools/list`.

    `connections`: the connections that the key's limits name; empty if the limits name no connection.
    `must_name_connection`: whether the caller must name the connection.
    """
    if isinstance(tool.rule, OperationRule):
        return _operation_json(tool, tool.rule, connections, must_name_connection=must_name_connection)
    properties: dict[str, Any] = {argument.name: _TEXT for argument in tool.arguments}
    required = [argument.name for argument in tool.arguments if not argument.optional]
    if len(tool.methods) > 1:
        properties["method"] = {"enum": list(tool.methods)}
        required.append("method")
    if tool.rule.body is not None:
        properties["body"] = _GRAPHQL_BODY
        required.append("body")
    else:
        properties["query"] = _QUERY
        properties |= {} if set(tool.methods) <= BODILESS else _BODY
    if tool.is_paged:
        properties["cursor"] = _CURSOR
    _add_common(
        properties,
        required,
        [connection for connection in connections if _integration_id_of(connection) in tool.integrations],
        must_name_connection=must_name_connection,
    )
    return {
        "name": tool.name,
        "description": f"{tool.summary} ({', '.join(tool.integrations)})",
        "inputSchema": _schema(properties, required),
        "annotations": annotations(tool.methods),
    }


def _operation_json(
    tool: RuleTool, rule: OperationRule, connections: Sequence[str], *, must_name_connection: bool
) -> dict[str, Any]:
    """Return an operation's tool for `tools/list`, without the values that a client assumes by default."""
    properties: dict[str, Any] = {argument.name: _TEXT for argument in tool.arguments}
    required = [argument.name for argument in tool.arguments]
    names = () if tool.details is None else tool.details.query
    properties["query"] = {"type": "object", **({"properties": dict.fromkeys(names, _TEXT)} if names else {})}
    if rule.method not in BODILESS and (tool.details.body if tool.details is not None else rule.method != "DELETE"):
        properties["body"] = {"type": ["object", "array"]}
    if tool.is_paged:
        properties["cursor"] = _TEXT
    usable_connections = [
        connection for connection in connections if _integration_id_of(connection) in tool.integrations
    ]
    if must_name_connection and len(usable_connections) != 1:
        properties["connection"] = connection_schema(usable_connections)
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


def _integration_id_of(connection: str) -> str:
    return connection.partition("/")[0]


def _add_common(
    properties: dict[str, Any], required: list[str], connections: Sequence[str], *, must_name_connection: bool
) -> None:
    properties |= {"select": _SELECT, "max_bytes": _MAX_BYTES}
    if must_name_connection and len(connections) != 1:
        properties["connection"] = connection_schema(connections)
        required.append("connection")


def _schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def call_api_json(
    rules: Sequence[Sequence[KeyRule | OperationRule]], connections: Sequence[str], *, must_name_connection: bool
) -> dict[str, Any]:
    """Return the tool `call_api`, which sends any request that the key's rules allow."""
    methods: set[str] = set(USUAL_METHODS)
    if rules:
        methods = {
            name for rule in rules[-1] for name in (USUAL_METHODS if rule.methods is None else rule.methods)
        } - UNSENDABLE_METHODS
    properties: dict[str, Any] = {"method": _TEXT, "path": _TEXT, "query": _QUERY, **_BODY}
    required = ["method", "path"]
    _add_common(properties, required, connections, must_name_connection=must_name_connection)
    return {
        "name": "call_api",
        "description": "Send a request to the provider's API. path: below its base URL, such as /v1/items.",
        "inputSchema": _schema(properties, required),
        "annotations": annotations(methods),
    }


def tools_for_search(tools: Sequence[RuleTool]) -> list[dict[str, Any]]:
    """Return the three tools that replace a list that is too long for a model."""
    methods = (
        {"GET"} if all(tool.only_reads for tool in tools) else {method for tool in tools for method in tool.methods}
    )
    name = {"name": _TEXT}
    return [
        {
            "name": "find_tools",
            "description": f"Search the {counted(len(tools), 'tool')} of this key by words.",
            "inputSchema": _schema({"query": _TEXT}, ["query"]),
            "annotations": SEARCH_ANNOTATIONS,
        },
        {
            "name": "describe_tool",
            "description": "Show a tool's arguments.",
            "inputSchema": _schema(name, ["name"]),
            "annotations": SEARCH_ANNOTATIONS,
        },
        {
            "name": "call_tool",
            "description": "Call a found tool.",
            "inputSchema": _schema({**name, "arguments": {"type": "object"}}, ["name", "arguments"]),
            "annotations": annotations(methods),
        },
    ]


def tools_to_show(
    tools: Sequence[RuleTool],
    rules: Sequence[Sequence[KeyRule | OperationRule]],
    connections: Sequence[str],
    *,
    must_name_connection: bool,
) -> list[dict[str, Any]]:
    """Return the tools that `tools/list` shows, at most `MAX_LISTED`.

    Every key can call `call_api`, but only a key without rules sees it in the list: the tools of a key with rules cover
    everything that the key may do.
    """
    if not rules:
        return [call_api_json(rules, connections, must_name_connection=must_name_connection)]
    if len(tools) <= MAX_LISTED:
        return [tool_json(tool, connections, must_name_connection=must_name_connection) for tool in tools]
    named_tools = [tool for tool in tools if isinstance(tool.rule, KeyRule) and tool.rule.name]
    pinned = [
        tool_json(tool, connections, must_name_connection=must_name_connection) for tool in named_tools[:MAX_PINNED]
    ]
    search_tools = tools_for_search(tools)
    chars_left = MAX_CHARS - len(json.dumps([*pinned, *search_tools]))
    for tool in (tool for tool in tools if tool.is_starter and len(pinned) < MAX_PINNED):
        starter = tool_json(tool, connections, must_name_connection=must_name_connection)
        chars_left -= len(json.dumps(starter)) + 2
        if chars_left < 0:
            break
        pinned.append(starter)
    return [*pinned, *search_tools]


def matching_tools(tools: Sequence[RuleTool], query: str) -> list[RuleTool]:
    """Return the tools that contain words of the query, those with the most words first.

    Only the first `MAX_WORDS` words count, because the event loop searches each word in every tool.
    """
    words = list(dict.fromkeys(word.lower() for word in WORD.findall(query)))[:MAX_WORDS]

    def score(tool: RuleTool) -> int:
        text = f"{tool.name} {tool.shown_path} {' '.join(tool.methods)} {tool.summary}".lower()
        return sum(word in text for word in words)

    ranked = sorted(tools, key=score, reverse=True)
    return [tool for tool in ranked if not words or score(tool)]
