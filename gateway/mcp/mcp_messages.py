"""Parses and builds messages of the Model Context Protocol. No I/O, no sessions, no state.

The gateway supports two groups of revisions (https://modelcontextprotocol.io/specification):

    2026-07-28            each request has its revision and the client's capabilities in ``params._meta``; the headers
                          MCP-Protocol-Version, Mcp-Method and Mcp-Name repeat values for routers, and must match
    2025-03-26 … -11-25   ``initialize`` first, then requests with MCP-Protocol-Version; the gateway sends no session id,
                          so each request is independent as well

The gateway refuses JSON that two parsers could read differently: a duplicate member, NaN, half a surrogate pair.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any, Final, NoReturn

from gateway.access.body_rules import decoded_mcp_header
from gateway.http.compact_json import compact_json
from gateway.http.json_depth import nests_deeper
from gateway.off_loop import INLINE_BYTES

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26")
REVISIONS: Final = (MODERN, *HANDSHAKE)
# The revision of a request without MCP-Protocol-Version, per the specifications of 2025.
DEFAULT_REVISION: Final = "2025-03-26"

# This revision has no blocks of the type resource_link.
WITHOUT_LINKS: Final = "2025-03-26"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022

MAX_LEVELS: Final = 64  # maximum nesting of arrays and objects in a message
MAX_ID_CHARS: Final = 256
MAX_METHOD_CHARS: Final = 128

VERSION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
ROUTING_HEADERS: Final = (VERSION_HEADER, METHOD_HEADER, NAME_HEADER)
NAME_PARAMETERS: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that Mcp-Name repeats, by method."""

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"

METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/call",
        "tools/list",
    }
)
"""The methods that the MCP endpoint supports."""

# HTTP status by error code. Revision 2026-07-28 uses these statuses for every error, earlier revisions only for the
# errors in `_MESSAGE_ERRORS`.
_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
}
_MESSAGE_ERRORS: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_REVISION})
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class RpcError(Exception):
    """An error of the protocol itself, not of a tool."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"code": self.code, "message": self.message}
        return fields if self.data is None else {**fields, "data": self.data}


@dataclass(slots=True)
class RpcRequest:
    """A message that needs a response.

    `capabilities`: the client's capabilities; empty if the request's revision does not send them.
    """

    id: int | str
    method: str
    params: Mapping[str, Any]
    revision: str = DEFAULT_REVISION
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def modern(self) -> bool:
        """Whether the request uses revision 2026-07-28."""
        return self.revision == MODERN


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A message that needs no response: a notification or a response.

    The gateway never sends requests to clients, so it ignores responses. `method`: empty for a response.
    """

    method: str


STRUCTURED: Final = "structuredContent"


@dataclass(slots=True)
class McpReply:
    """An HTTP reply.

    `body`: the JSON object in the body; None if the reply has no body. `structured_json`: the result's
    ``structuredContent`` as JSON text, which then need not be encoded a second time; None if that text is not known.
    """

    status: int
    body: dict[str, Any] | None
    structured_json: str | None = None

    def content(self) -> bytes:
        """Return the body as JSON. A lone surrogate in a provider's text becomes a question mark."""
        body, structured_json = self.body or {}, self.structured_json
        result = body.get("result")
        if result is None or STRUCTURED not in result:
            return compact_json(body)
        value = result.pop(STRUCTURED)  # written last, so that its known text can be used
        other_members = compact_json(body)[:-2]
        comma = b"," if result else b""
        result[STRUCTURED] = value
        structured = compact_json(value) if structured_json is None else structured_json.encode("utf-8", "replace")
        return b'%b%b"structuredContent":%b}}' % (other_members, comma, structured)

    @property
    def is_large(self) -> bool:
        """Whether the body is so large that serializing it would block the event loop.

        The body is large if it contains a large response of a provider.
        """
        result = (self.body or {}).get("result", {})
        parts = result.get("content") or result.get("contents") or ()
        return sum(len(part.get("text") or part.get("blob") or "") for part in parts) > INLINE_BYTES


def read_message(body: bytes, headers: Iterable[tuple[str, str]]) -> RpcRequest | RpcNotification:
    """Return the message in the body of a POST, checked against the headers.

    Raises RpcError. For the error reply, use `id_in` to find the message's id.
    """
    message = _parse_body(body)
    routing = _routing(headers)
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else "no object"
        raise RpcError(INVALID_REQUEST, f"Send one JSON-RPC message per request; this is {kind}.")
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "'jsonrpc' must be \"2.0\".")
    method, params = message.get("method"), message.get("params", {})
    if "method" not in message and ("result" in message or "error" in message):
        _check_revision(routing.get(VERSION_HEADER))
        return RpcNotification("")
    if not isinstance(method, str) or not 0 < len(method) <= MAX_METHOD_CHARS:
        raise RpcError(INVALID_REQUEST, f"'method' must be text of at most {MAX_METHOD_CHARS} characters.")
    if routing:
        _check_routing_headers(routing, method, params)
    if "id" not in message:
        _check_revision(routing.get(VERSION_HEADER))
        return RpcNotification(method)
    request_id = id_of(message)
    if request_id is None:
        raise RpcError(INVALID_REQUEST, f"'id' must be text of at most {MAX_ID_CHARS} characters, or a whole number.")
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "'params' must be an object.")
    meta, revision = params.get("_meta"), routing.get(VERSION_HEADER, DEFAULT_REVISION)
    has_version = isinstance(meta, dict) and META_VERSION in meta
    if has_version or revision == MODERN or method == "server/discover":
        return _read_modern_request(request_id, method, params, routing)
    if method == "initialize":
        return RpcRequest(request_id, method, params)
    _check_revision(revision)
    return RpcRequest(request_id, method, params, revision)


def id_of(message: Any) -> int | str | None:
    """Return a message's id; None if the message has no valid id."""
    request_id = message.get("id") if isinstance(message, dict) else None
    if isinstance(request_id, str) and len(request_id) <= MAX_ID_CHARS:
        return request_id
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def id_in(body: bytes) -> int | str | None:
    """Return the id of a refused message; None if the id cannot be read."""
    try:
        return id_of(_parse_body(body))
    except RpcError:
        return None


def _read_modern_request(
    request_id: int | str, method: str, params: dict[str, Any], routing: Mapping[str, str]
) -> RpcRequest:
    sent_meta = params.get("_meta")
    meta: Mapping[str, Any] = sent_meta if isinstance(sent_meta, dict) else {}
    if META_VERSION in meta:
        version = meta[META_VERSION]
        _check_header(VERSION_HEADER, routing.get(VERSION_HEADER), version, f"params._meta['{META_VERSION}']")
        if version != MODERN:  # before the checks below, because another revision can require other fields and headers
            _raise_unsupported(version)
    else:
        _check_revision(routing.get(VERSION_HEADER))
    if missing := [name for name in (META_VERSION, META_CAPABILITIES) if name not in meta]:
        raise RpcError(INVALID_PARAMS, f"params._meta must have {' and '.join(missing)}.")
    capabilities = meta[META_CAPABILITIES]
    _check_header(METHOD_HEADER, routing.get(METHOD_HEADER), method, "method")
    parameter = NAME_PARAMETERS.get(method)
    if parameter is not None and (value := params.get(parameter)) is not None:
        name_header = routing.get(NAME_HEADER)
        _check_header(
            NAME_HEADER, None if name_header is None else decoded_mcp_header(name_header), value, f"params.{parameter}"
        )
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"params._meta['{META_CAPABILITIES}'] must be an object.")
    return RpcRequest(request_id, method, params, MODERN, capabilities)


def _check_routing_headers(routing: Mapping[str, str], method: str, params: Any) -> None:
    """Check the headers that repeat the method and the name. Clients of every revision can send these headers."""
    if METHOD_HEADER in routing:
        _check_header(METHOD_HEADER, routing[METHOD_HEADER], method, "method")
    if NAME_HEADER in routing:
        parameter = NAME_PARAMETERS.get(method)
        value = params.get(parameter) if parameter is not None and isinstance(params, dict) else None
        _check_header(NAME_HEADER, decoded_mcp_header(routing[NAME_HEADER]), value, f"params.{parameter or 'name'}")


def _check_header(header: str, header_value: str | None, member_value: Any, member: str) -> None:
    if header_value is None or header_value != member_value:
        raise RpcError(HEADER_MISMATCH, f"The header {header} must have the same value as {member} in the body.")


def _check_revision(header: str | None) -> None:
    if header is not None and header not in REVISIONS:
        _raise_unsupported(header)


def _raise_unsupported(requested_version: Any) -> NoReturn:
    data = {"supported": list(REVISIONS), "requested": requested_version}
    raise RpcError(UNSUPPORTED_REVISION, f"Unsupported protocol version. Use one of {', '.join(REVISIONS)}.", data)


def _routing(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the header fields that routers read, by name in lower case.

    Raises RpcError for a duplicate header, because two readers could use different values.
    """
    fields: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower in ROUTING_HEADERS:
            if lower in fields:
                raise RpcError(HEADER_MISMATCH, f"The header {lower} was sent more than once. Send it once.")
            fields[lower] = value.strip(" \t")
    return fields


# ── Parses JSON strictly.


def _parse_body(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
        value = _decode(text)
        if "\\" in text and _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as fault:
        raise RpcError(PARSE_ERROR, f"The body is not valid, unambiguous JSON: {_brief(fault)}.") from fault
    if text.count("[") + text.count("{") > MAX_LEVELS and nests_deeper(value, MAX_LEVELS):
        raise RpcError(PARSE_ERROR, f"The body nests deeper than {MAX_LEVELS} levels.")
    return value


def _decode(text: str) -> Any:
    if text.startswith("{"):
        value, end = _DECODER.raw_decode(text)  # what `decode` does, without two searches for spaces
        if end == len(text):
            return value
    return _DECODER.decode(text)


def _brief(fault: Exception) -> str:
    return str(fault)[:200] if isinstance(fault, (json.JSONDecodeError, _Ambiguous)) else type(fault).__name__


class _Ambiguous(ValueError):
    pass


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Ambiguous("an object has a member twice")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise _Ambiguous(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    return number if isfinite(number := float(text)) else _refuse_constant(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant, parse_float=_finite
)


# ── Builds replies.


def negotiate_revision(params: Mapping[str, Any]) -> str:
    """Return the revision for a client that begins with ``initialize``.

    Return the client's revision if the gateway supports it, else the newest revision with a handshake.
    """
    revision = params.get("protocolVersion")
    return revision if isinstance(revision, str) and revision in HANDSHAKE else HANDSHAKE[0]


def result_reply(
    request: RpcRequest,
    result: Mapping[str, Any],
    server: Mapping[str, Any],
    ttl_ms: int | None,
    structured_json: str | None = None,
) -> McpReply:
    """Return `result` in the form of the request's revision.

    `ttl_ms`: the time for which the client can cache the result, in milliseconds; None if this kind of result has no
    such time. `structured_json`: the result's ``structuredContent`` as JSON text; None if that text is not known.
    """
    full_result = dict(result)
    if request.revision == MODERN:
        full_result.setdefault("resultType", "complete")
        if ttl_ms is not None:
            full_result |= {"ttlMs": ttl_ms, "cacheScope": "private"}
        full_result["_meta"] = {**full_result.get("_meta", {}), META_SERVER: dict(server)}
    elif not isinstance(full_result.get(STRUCTURED, {}), dict):
        del full_result[STRUCTURED]  # must be an object in revisions before 2026-07-28
    if request.revision == WITHOUT_LINKS and "content" in full_result:
        full_result["content"] = [_without_link(block) for block in full_result["content"]]
    return McpReply(200, {"jsonrpc": "2.0", "id": request.id, "result": full_result}, structured_json)


def _without_link(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block of a tool's result as text if it is a link, so that a strict client can read the result."""
    if block["type"] != "resource_link":
        return block
    return {"type": "text", "text": f"The link, for resources/read: {block['uri']}"}


def error_reply(error: RpcError, request: RpcRequest | None, request_id: int | str | None) -> McpReply:
    """Return the reply for `error`.

    `request`: the request; None if the message could not be read. `request_id`: the message's id; None if the id could
    not be read. In revisions before 2026-07-28, the error of a method has status 200.
    """
    by_code = request is None or request.modern or error.code in _MESSAGE_ERRORS
    status = _STATUS.get(error.code, 200) if by_code else 200
    return McpReply(status, {"jsonrpc": "2.0", "id": request_id, "error": error.as_json()})


ACCEPTED: Final = McpReply(202, None)
"""The reply to a notification."""


@lru_cache(maxsize=64)
def accepts_json(accept: str | None) -> bool:
    """Return whether the client accepts JSON, the only format of the MCP endpoint's responses.

    `accept`: the value of the header Accept; None, a missing header, accepts all formats.
    """
    if accept is None:
        return True
    media_types = {media_type.partition(";")[0].strip().lower() for media_type in accept.split(",")}
    return bool(media_types & {"application/json", "application/*", "*/*"})
