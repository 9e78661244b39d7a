"""Rules that read the request's body, for example ``POST /mcp with tools search_*`` (ADR 62).

The part of a rule after its path, and the bodies that it allows:

    with   = "tools " names       calls of these tools of an MCP server (`tools/call`), the methods of `HANDSHAKE`, and
                                  responses to the server's own requests
           | "query " names       a GraphQL query, if all its root fields are among the names
           | "mutation " names    a GraphQL mutation, if all its root fields are among the names
    names  = name *("," name)     a name can contain * for any characters, at most twice

`read_body` parses exactly the bytes that the gateway then sends to the provider.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import unquote_plus

from gateway.errors import InvalidRequest
from gateway.http.graphql_document import AmbiguousDocument, GraphqlOperation, operation_of
from gateway.http.headers import normalized_name
from gateway.http.json_depth import nests_deeper
from gateway.http.strict_json import parse

WITH: Final = " with "
Kind = Literal["tools", "query", "mutation"]
KINDS: Final[dict[str, Kind]] = {"tools": "tools", "query": "query", "mutation": "mutation"}
MAX_STARS: Final = 2
MAX_COMPARISON_COST: Final = 50_000_000
"""Maximum of `comparison_cost` for the rules of a key and all its ancestors, in nanoseconds: 50 ms. The gateway refuses
a request that costs more. Only hundreds of patterns together with thousands of fields, or names of thousands of
characters, cost more."""
INLINE_COMPARISON_COST: Final = 5_000_000  # in nanoseconds; above this cost, a thread compares the names
COST_PER_COMPARISON: Final = 16  # fixed cost of each comparison, as a number of characters
COST_OF_SEARCH: Final = 10  # cost per character, if a pattern has a text of two or more characters between two ``*``
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
HANDSHAKE: Final = frozenset(
    {
        "initialize",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "ping",
        "server/discover",
        TOOLS_LIST,
    }
)
"""MCP methods that a client sends in addition to tool calls, for example to list the tools. Rules with tools always
allow these methods, because they change nothing at the server."""
ALWAYS_ALLOWED_FIELDS: Final = frozenset({"__typename"})
_TOOL_PATTERN: Final = re.compile(r"[A-Za-z0-9_./*-]{1,128}")
_FIELD_PATTERN: Final = re.compile(r"[A-Za-z0-9_*]{1,128}")


@dataclass(frozen=True, slots=True)
class McpMessage:
    """A message from a client to an MCP server.

    `method`: None if the message is the client's response to a request of the server. `tool`: the name of the called
    tool; empty if the method is not ``tools/call``.
    """

    method: str | None
    tool: str = ""


@dataclass(frozen=True, slots=True)
class SentBody:
    """The body of a request, parsed in two ways: as an MCP message and as a GraphQL request.

    `mcp`, `graphql`: the parsed body, or a text that says why the body is invalid or ambiguous.
    """

    mcp: McpMessage | str
    graphql: GraphqlOperation | str


@dataclass(frozen=True, slots=True)
class BodyRule:
    """The part of a rule after ``with``.

    `text`: this part, as its author wrote it. `exact`: the names without ``*``. `patterns`: the names with ``*``, which
    are compiled at the first comparison. `cost`: the time to compare one character of a name in a body with this rule,
    in nanoseconds.
    """

    text: str
    kind: Kind
    exact: frozenset[str]
    patterns: tuple[str, ...]
    cost: int
    _compiled: re.Pattern[str] | None = field(default=None, init=False, compare=False, repr=False)

    def includes(self, name: str) -> bool:
        """Return whether the rule names the tool or field `name`."""
        return name in self.exact or (bool(self.patterns) and self.compile().fullmatch(name) is not None)

    def compile(self) -> re.Pattern[str]:
        """Return the regular expression of `patterns`. The first call compiles the expression."""
        compiled = self._compiled
        if compiled is None:
            compiled = re.compile("|".join(map(_name_regex, self.patterns)), re.ASCII)
            object.__setattr__(self, "_compiled", compiled)
        return compiled

    def refusal(self, body: SentBody) -> str | None:
        """Return why the rule does not allow this body, as the end of a sentence that begins with "it".

        Return None if the rule allows the body.
        """
        if self.kind == "tools":
            return self._tool_refusal(body.mcp)
        return self._field_refusal(body.graphql)

    def _tool_refusal(self, message: McpMessage | str) -> str | None:
        if isinstance(message, str):
            return message
        if message.method is None:  # allowed, because a response calls no tool
            return None
        if message.method != TOOLS_CALL:
            return None if message.method in HANDSHAKE else f"sends the MCP method '{message.method[:64]}'"
        return None if self.includes(message.tool) else f"calls the tool '{message.tool}'"

    def _field_refusal(self, operation: GraphqlOperation | str) -> str | None:
        if isinstance(operation, str):
            return operation
        if operation.kind != self.kind:
            return f"sends a GraphQL {operation.kind}"
        forbidden_field = next((field for field in operation.fields if not self._is_named(field)), None)
        return None if forbidden_field is None else f"requests '{forbidden_field[:64]}' in a GraphQL {operation.kind}"

    def _is_named(self, name: str) -> bool:
        return name in ALWAYS_ALLOWED_FIELDS or self.includes(name)


def parse_body_rule(text: str) -> BodyRule:
    """Parse the part of a rule after ``with``.

    Raises ValueError; its message is the rest of a sentence that begins with the rule.
    """
    kind_word, _, names = text.partition(" ")
    kind = KINDS.get(kind_word)
    if kind is None:
        raise ValueError("must have tools, query or mutation after 'with', for example 'with tools search_*'")
    name_format = _TOOL_PATTERN if kind == "tools" else _FIELD_PATTERN
    patterns = names.split(",")
    for pattern in patterns:
        if not name_format.fullmatch(pattern):
            raise ValueError(
                f"must have names separated by commas, without spaces, after 'with {kind}'; * stands for any characters"
            )
        if pattern.count("*") > MAX_STARS or "**" in pattern:
            raise ValueError(f"may have '*' at most {MAX_STARS} times in a name, and no '**'")
    exact = frozenset(pattern for pattern in patterns if "*" not in pattern)
    wildcard_patterns = tuple(pattern for pattern in patterns if "*" in pattern)
    return BodyRule(text, kind, exact, wildcard_patterns, COST_PER_COMPARISON + sum(map(_cost_of, wildcard_patterns)))


def _name_regex(pattern: str) -> str:
    """Return the pattern as a regular expression that matches in linear time.

    Each ``*`` except the last matches up to the first occurrence of the text that follows it: a name that matches with
    a later occurrence also matches with the first. The last ``*`` matches the rest of the name, which must end with the
    last text. The expression does not backtrack.
    """
    start_text, *middle, end_text = pattern.split("*")
    middle_regex = "".join(map(_first_occurrence_regex, middle))
    return f"{re.escape(start_text)}{middle_regex}" + (
        f".{{{len(end_text)},}}+(?<={re.escape(end_text)})" if end_text else ".*+"
    )


def _first_occurrence_regex(text: str) -> str:
    """Return a regular expression that matches any characters up to the first `text`, and this `text`.

    For a `text` of one character, the expression has a set of characters, because `re` searches a set ten times as
    fast.
    """
    escaped_text = re.escape(text)
    return f"[^{escaped_text}]*+{escaped_text}" if len(text) == 1 else f"(?>.*?{escaped_text})"


def _cost_of(pattern: str) -> int:
    return COST_OF_SEARCH if any(len(text) > 1 for text in pattern.split("*")[1:-1]) else 1


def comparison_cost(rules: Iterable[BodyRule], body: SentBody) -> int:
    """Return the maximum time to match the names in `body` with `rules`, in nanoseconds.

    The estimate relies on measurements on one machine.
    """
    names: Iterable[str] = ()
    if isinstance(body.graphql, GraphqlOperation):
        names = body.graphql.fields
    elif isinstance(body.mcp, McpMessage):
        names = (body.mcp.tool,)
    return sum(rule.cost for rule in rules) * sum(len(name) + COST_PER_COMPARISON for name in names)


# ── Parses the request's body, exactly as the gateway sends it: an MCP message or a GraphQL operation. No I/O. Refuses
# every body that another parser could read differently: other media types and charsets, encoded bodies, JSON with a
# duplicate member, members that differ only in case, several messages or operations in one body, and names that headers
# or the URL contradict. A refusal is the end of a sentence that begins with "it".

MAX_BODY_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 128
_JSON: Final = re.compile(r'application/json(?:[ \t]*;[ \t]*charset="?utf-8"?)?', re.ASCII | re.IGNORECASE)
_FORBIDDEN_HEADERS: Final = ("content-encoding", "content-range", "content-transfer-encoding")
_REQUEST_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})
_RESULT_MEMBERS: Final = frozenset({"jsonrpc", "id", "result"})
_ERROR_MEMBERS: Final = frozenset({"jsonrpc", "id", "error"})
_PARAMS_MEMBERS: Final = frozenset({"name", "arguments"})
_MCP_URL_PARAMETERS: Final = _REQUEST_MEMBERS - {"id"} | _PARAMS_MEMBERS
_MEMBER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PROTOTYPE_MEMBERS: Final = frozenset({"__proto__", "constructor", "prototype"})
_GRAPHQL_MEMBERS: Final = frozenset({"query", "variables", "operationName", "extensions"})
_BASE64_HEADER: Final = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=")


def read_body(fields: Iterable[tuple[str, str]], query: str, raw: bytes) -> SentBody:
    """Parse the body of a request.

    `fields`: the header fields that the gateway sends, without the fields that contain the credential. `query`: the
    query of the URL. `raw`: the bytes of the body.
    """
    head = _fields_by_name(fields)
    fault = _message_fault(head, raw)
    value: Any = None
    if fault is None:
        try:
            value = parse(raw)
        except InvalidRequest as json_fault:
            fault = f"has an invalid or ambiguous body: {json_fault.message.rstrip('.')}"
    if fault is None and nests_deeper(value, MAX_DEPTH):
        fault = f"has a body that nests deeper than {MAX_DEPTH} levels"
    if fault is None and not isinstance(value, dict):
        kind = "a batch" if isinstance(value, list) else "no object"
        fault = f"has a body that is {kind}; send one message in each request"
    if fault is not None:
        return SentBody(fault, fault)
    return SentBody(_mcp_message(value, head, query), _graphql_operation(value, query))


def _fields_by_name(fields: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the values of each header field, by the field's name with ``-`` in place of ``_``.

    CGI servers do not distinguish the two characters.
    """
    values_by_name: dict[str, list[str]] = {}
    for name, value in fields:
        values_by_name.setdefault(normalized_name(name), []).append(value)
    return values_by_name


def _message_fault(head: Mapping[str, Sequence[str]], raw: bytes) -> str | None:
    for name in _FORBIDDEN_HEADERS:
        if name in head:
            return f"has the header {name}, so its body may mean something else than its bytes show"
    content_types = head.get("content-type", ())
    if len(content_types) != 1 or not _JSON.fullmatch(content_types[0].strip(" \t")):
        return "does not have exactly one header Content-Type: application/json (with charset utf-8 or without charset)"
    if len(raw) > MAX_BODY_BYTES:
        return f"has a body of more than {MAX_BODY_BYTES >> 20} MiB"
    if raw.startswith(b"\xef\xbb\xbf"):
        return "has a body that begins with a byte order mark"
    return None


def _fold_case(name: str) -> str:
    """Return `name` in the form in which a case-insensitive JSON parser, such as Go's, compares names."""
    return unicodedata.normalize("NFKC", name).casefold().partition("\0")[0].strip().replace("-", "_")


# ── Parses an MCP message, which is one JSON-RPC message (https://modelcontextprotocol.io/specification).


def _mcp_message(message: Mapping[str, Any], head: Mapping[str, Sequence[str]], query: str) -> McpMessage | str:
    if message.keys() in (_RESULT_MEMBERS, _ERROR_MEMBERS):
        return _mcp_response(message, head, query)
    extra_member = next((name for name in message if name not in _REQUEST_MEMBERS), None)
    if extra_member is not None:
        return f"has a body with the member '{extra_member[:64]}', which no MCP request has"
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        return "has a body that is not an MCP request: jsonrpc, method and params as an object"
    if (fault := _members_fault(params, "params")) is not None:
        return fault
    tool = params.get("name", "") if method == TOOLS_CALL else ""
    if method == TOOLS_CALL and (not isinstance(tool, str) or not TOOL_NAME.fullmatch(tool)):
        return "calls a tool whose name does not consist of letters, digits and . _ / -"
    if not isinstance(params.get("arguments", {}), dict) and method == TOOLS_CALL:
        return "calls a tool with arguments that are not an object"
    fault = _contradiction_outside_body(method, tool or None, head, query)
    return McpMessage(method, tool) if fault is None else fault


def _mcp_response(message: Mapping[str, Any], head: Mapping[str, Sequence[str]], query: str) -> McpMessage | str:
    """Read a message that has exactly the members of a JSON-RPC response, with a result or an error.

    A client sends such a message in response to a request of the server, for example ``ping`` or
    ``elicitation/create``.
    """
    content = message.get("result", message.get("error"))
    has_request_id = isinstance(message["id"], str) or type(message["id"]) is int  # excludes bool, a subclass of int
    if message["jsonrpc"] != "2.0" or not has_request_id or not isinstance(content, dict):
        return "has a body that is not an MCP response: jsonrpc, the id of a request, and result or error as an object"
    fault = _members_fault(content, "its result or error") or _contradiction_outside_body(None, None, head, query)
    return McpMessage(None) if fault is None else fault


def _members_fault(members: Mapping[str, Any], location: str) -> str | None:
    for name in members:
        if name in _PARAMS_MEMBERS:
            continue
        if not _MEMBER_NAME.fullmatch(name) or name in _PROTOTYPE_MEMBERS or _fold_case(name) in _PARAMS_MEMBERS:
            return f"has the member '{name[:64]}' in {location}, which some parsers read as another member"
    return None


def _contradiction_outside_body(
    method: str | None, tool: str | None, head: Mapping[str, Sequence[str]], query: str
) -> str | None:
    """Return how a header or the URL contradicts the body; None if there is no contradiction."""
    fault = _header_contradiction("mcp-method", method, head) or _header_contradiction("mcp-name", tool, head)
    if fault is None and (url_parameter := _url_parameter_among(query, _MCP_URL_PARAMETERS)):
        fault = f"has the URL parameter '{url_parameter}', which some servers read in place of the body"
    return fault


def _header_contradiction(header: str, value_in_body: str | None, head: Mapping[str, Sequence[str]]) -> str | None:
    """Return how a header of MCP revision 2026-07-28 contradicts the body; None if there is no contradiction.

    `value_in_body`: the value in the body that the header must repeat. If the body has no such value, `value_in_body`
    is None, and any header is a contradiction.
    """
    values = head.get(header, ())
    if not values:
        return None
    if len(values) > 1:
        return f"has the header {header} {len(values)} times"
    if value_in_body is None or decoded_mcp_header(values[0].strip(" \t")) != value_in_body:
        return f"has a header {header} that contradicts its body"
    return None


def decoded_mcp_header(value: str) -> str | None:
    """Decode the value ``=?base64?…?=`` of an MCP header; return other values unchanged, and None if it is malformed.

    Clients use this format for a name that is not plain ASCII.
    """
    match = _BASE64_HEADER.fullmatch(value)
    if match is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _url_parameter_among(query: str, names: frozenset[str]) -> str | None:
    for pair in re.split("[&;?]", query):
        name = _fold_case(unquote_plus(pair.partition("=")[0])).partition("[")[0].lstrip(". _$")
        if name in names:
            return name
    return None


# ── Parses one GraphQL operation in a POST (https://graphql.github.io/graphql-over-http/draft/).


def _graphql_operation(request: Mapping[str, Any], query: str) -> GraphqlOperation | str:
    if query:
        return "has URL parameters, which some GraphQL servers read in place of the body"
    extra_member = next((name for name in request if name not in _GRAPHQL_MEMBERS), None)
    if extra_member is not None:
        return f"has a body with the member '{extra_member[:64]}'; a GraphQL request has query, variables and operationName"
    document, variables = request.get("query"), request.get("variables")
    if not isinstance(document, str):
        return "has no GraphQL document in 'query'; stored and persisted queries are not looked up"
    if request.get("extensions"):
        return "has GraphQL extensions, with which some servers run a stored query instead of the document"
    if variables is not None and not isinstance(variables, dict):
        return "has GraphQL variables that are not an object"
    try:
        operation = operation_of(document)
    except AmbiguousDocument as fault:
        return f"has a GraphQL document that {fault}"
    operation_name = request.get("operationName")
    if operation_name is not None and (
        not isinstance(operation_name, str) or operation_name != operation.name or not operation_name
    ):
        return "has an operationName that differs from the name of the only operation in its document"
    return operation
