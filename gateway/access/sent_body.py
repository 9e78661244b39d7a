"""Reads a request's body from the bytes that leave: a message to an MCP server, or a GraphQL operation. No I/O.

Whatever another reader could take for something else is refused: other media types and charsets, coded bodies, JSON with a
member twice, members that differ only in case, several messages or operations in one body, and names that headers or the URL
contradict. A refusal is a text in words that follow "it".
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_plus

from gateway.access.body_rules import TOOL_NAME, TOOLS_CALL, McpMessage, SentBody
from gateway.errors import InvalidRequest
from gateway.http.graphql_document import GraphqlOperation, UnplainDocument, operation_of
from gateway.http.headers import plain
from gateway.http.strict_json import parse

MOST_BYTES: Final = 1 << 20
DEEPEST: Final = 128
_JSON: Final = re.compile(r'application/json(?:[ \t]*;[ \t]*charset="?utf-8"?)?', re.IGNORECASE)
_STALE: Final = ("content-encoding", "content-range", "content-transfer-encoding")
_MESSAGE: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMS: Final = frozenset({"name", "arguments"})
_IN_QUERY: Final = _MESSAGE - {"id"} | _PARAMS
_MEMBER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_POLLUTES: Final = frozenset({"__proto__", "constructor", "prototype"})
_GRAPHQL: Final = frozenset({"query", "variables", "operationName", "extensions"})
_ENCODED: Final = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=")


def read_body(fields: Iterable[tuple[str, str]], query: str, raw: bytes) -> SentBody:
    """`fields`: of the head as it leaves, but for those that carry the credential."""
    head = _by_name(fields)
    fault = _unplain_message(head, raw)
    value: Any = None
    if fault is None:
        try:
            value = parse(raw)
        except InvalidRequest as wrong:
            fault = f"has a body that cannot be read in one way: {wrong.message.rstrip('.')}"
    if fault is None and _nests_deeper(value, DEEPEST):
        fault = f"has a body that nests deeper than {DEEPEST} levels"
    if fault is None and not isinstance(value, dict):
        what = "a batch" if isinstance(value, list) else "no object"
        fault = f"has a body that is {what}; send one message in each request"
    if fault is not None:
        return SentBody(fault, fault)
    return SentBody(_mcp_message(value, head, query), _graphql(value, query))


def _by_name(fields: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The values of each field, by its name as a reader that follows CGI spells it."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(plain(name), []).append(value)
    return found


def _unplain_message(head: Mapping[str, Sequence[str]], raw: bytes) -> str | None:
    for name in _STALE:
        if name in head:
            return f"has the header {name}, so that its body may be another than it seems"
    kinds = head.get("content-type", ())
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        return "has no body of Content-Type: application/json (in UTF-8), named once"
    if len(raw) > MOST_BYTES:
        return f"has a body of more than {MOST_BYTES >> 20} MiB"
    if raw.startswith(b"\xef\xbb\xbf"):
        return "has a body that begins with a byte order mark"
    return None


def _nests_deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True


def _folded(name: str) -> str:
    """`name` as a JSON reader that ignores case, such as Go's, compares it."""
    return unicodedata.normalize("NFKC", name).casefold().partition("\0")[0].strip().replace("-", "_")


# ── MCP (https://modelcontextprotocol.io/specification): one JSON-RPC message.


def _mcp_message(message: Mapping[str, Any], head: Mapping[str, Sequence[str]], query: str) -> McpMessage | str:
    other = next((name for name in message if name not in _MESSAGE), None)
    if other is not None:
        return f"has a body with the member '{other[:64]}', which no MCP request has"
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        return "has a body that is not an MCP request: jsonrpc, method and params as an object"
    if (fault := _unplain_members(params)) is not None:
        return fault
    tool = params.get("name", "") if method == TOOLS_CALL else ""
    if method == TOOLS_CALL and (not isinstance(tool, str) or not TOOL_NAME.fullmatch(tool)):
        return "calls a tool whose name is not a text of letters, digits and . _ / -"
    if not isinstance(params.get("arguments", {}), dict) and method == TOOLS_CALL:
        return "calls a tool with arguments that are not an object"
    fault = _contradicted("mcp-method", method, head) or _contradicted("mcp-name", tool or None, head)
    if fault is None and (named := _named_in(query, _IN_QUERY)):
        fault = f"has the URL parameter '{named}', which some servers read in place of the body"
    return McpMessage(method, tool) if fault is None else fault


def _unplain_members(params: Mapping[str, Any]) -> str | None:
    for name in params:
        if name in _PARAMS:
            continue
        if not _MEMBER.fullmatch(name) or name in _POLLUTES or _folded(name) in _PARAMS:
            return f"has the member '{name[:64]}' in params, which some readers take for another"
    return None


def _contradicted(header: str, said: str | None, head: Mapping[str, Sequence[str]]) -> str | None:
    """By a header of revision 2026-07-28. `said`: what the body says, None where it says nothing."""
    values = head.get(header, ())
    if not values:
        return None
    if len(values) > 1:
        return f"has the header {header} {len(values)} times"
    if said is None or _decoded(values[0].strip()) != said:
        return f"has a header {header} that says something other than its body"
    return None


def _decoded(value: str) -> str | None:
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        raw = base64.b64decode(encoded[1], validate=True)
        return raw.decode() if base64.b64encode(raw).decode() == encoded[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _named_in(query: str, names: frozenset[str]) -> str | None:
    for pair in re.split("[&;?]", query):
        name = _folded(unquote_plus(pair.partition("=")[0])).partition("[")[0].lstrip(". _$")
        if name in names:
            return name
    return None


# ── GraphQL over HTTP (https://graphql.github.io/graphql-over-http/draft/): one operation in a POST.


def _graphql(request: Mapping[str, Any], query: str) -> GraphqlOperation | str:
    if query:
        return "has URL parameters, which some GraphQL servers read in place of the body"
    other = next((name for name in request if name not in _GRAPHQL), None)
    if other is not None:
        return f"has a body with the member '{other[:64]}'; a GraphQL request has query, variables and operationName"
    document, variables = request.get("query"), request.get("variables")
    if not isinstance(document, str):
        return "has no GraphQL document in 'query'; stored and persisted queries are not looked up"
    if request.get("extensions"):
        return "has GraphQL extensions, by which some servers take a stored query in place of the document"
    if variables is not None and not isinstance(variables, dict):
        return "has GraphQL variables that are not an object"
    try:
        operation = operation_of(document)
    except UnplainDocument as wrong:
        return f"has a GraphQL document that {wrong}"
    named = request.get("operationName")
    if named is not None and (not isinstance(named, str) or named != operation.name or not named):
        return "has an operationName that is not that of the one operation in its document"
    return operation
