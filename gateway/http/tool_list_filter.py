"""Removes the tools that a caller is not allowed to call from an MCP server's ``tools/list`` response. No I/O.

The response is JSON or an event stream.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from gateway.errors import InvalidRequest
from gateway.http.headers import MalformedResponse
from gateway.http.strict_json import parse

IsToolAllowed = Callable[[str], bool]
MAX_EVENT_BYTES: Final = 4 << 20
MAX_VALUES: Final = 250_000  # maximum values in a list, because no other thread runs during the call that parses it
MAX_LINES: Final = 50_000  # maximum lines in an event
INLINE_STREAM_BYTES: Final = 4096
"""A thread filters a larger part of a stream, because the part can contain a thousand events."""
BOM: Final = b"\xef\xbb\xbf"
_CACHE_HINTS: Final = frozenset({"ttlMs", "cacheScope"})  # without a scope, a client may share the list
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n|\n\r|\r\r\n")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def filtered_json(body: bytes, is_allowed: IsToolAllowed) -> bytes:
    """Return `body` with only the tools that `is_allowed` accepts; unchanged if `body` has no list of tools.

    The list is marked as cacheable only for this caller (``cacheScope``, MCP revision 2026-07-28), because another key
    has another list. Raises MalformedResponse.
    """
    if not body.strip():
        return body
    if sum(map(body.count, (b",", b":", b"[", b"{"))) > MAX_VALUES:
        raise MalformedResponse(f"its list of tools has more than {MAX_VALUES} values")
    try:
        value = parse(body)
    except InvalidRequest as fault:
        raise MalformedResponse("its list of tools is not JSON, or is JSON that parsers read differently") from fault
    try:
        if not _filter_lists(value, is_allowed):
            return body
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError as fault:
        raise MalformedResponse("its list of tools is nested too deep") from fault


def _filter_lists(value: Any, is_allowed: IsToolAllowed) -> bool:
    """Remove tools from `value`, and mark its lists; return whether `value` was changed."""
    if isinstance(value, list):
        changes = [_filter_lists(item, is_allowed) for item in value]
        return any(changes)
    result = value.get("result") if isinstance(value, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(tools, list):
        return False
    result["tools"] = [tool for tool in tools if _is_tool_allowed(tool, is_allowed)]
    is_shared = not _CACHE_HINTS.isdisjoint(result) and result.get("cacheScope") != "private"
    if is_shared:
        result["cacheScope"] = "private"
    return is_shared or len(result["tools"]) < len(tools)


def _is_tool_allowed(tool: Any, is_allowed: IsToolAllowed) -> bool:
    name = tool.get("name") if isinstance(tool, dict) else None
    return isinstance(name, str) and is_allowed(name)


class StreamEventFilter:
    """Filters an event stream piece by piece (https://html.spec.whatwg.org/multipage/server-sent-events.html).

    The filter buffers one event of at most `MAX_EVENT_BYTES` bytes.
    """

    def __init__(self, is_allowed: IsToolAllowed, inline_bytes: int = INLINE_STREAM_BYTES) -> None:
        """`inline_bytes`: maximum bytes that the event loop filters itself; at most `INLINE_STREAM_BYTES`."""
        self._is_allowed = is_allowed
        self._inline_bytes = min(inline_bytes, INLINE_STREAM_BYTES)
        self._buffer = bytearray()
        self._has_begun = False

    def needs_thread(self, piece: bytes) -> bool:
        """Return whether `feed` with this piece would block the event loop for too long."""
        return len(self._buffer) + len(piece) > self._inline_bytes

    def feed(self, piece: bytes) -> bytes:
        """Return the filtered events that `piece` completes. Raises MalformedResponse."""
        search_start = max(0, len(self._buffer) - 3)  # the end of an event can be split over two pieces
        self._buffer += piece
        events: list[bytes] = []
        event_start = 0
        while (event_end := _EVENT_END.search(self._buffer, max(event_start, search_start))) is not None:
            if event_end.end() == len(self._buffer) and self._buffer.endswith(b"\r"):
                break  # a line feed can follow
            events.append(self._filtered_event(bytes(self._buffer[event_start : event_end.end()])))
            event_start = search_start = event_end.end()
        del self._buffer[:event_start]
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise MalformedResponse(f"one of its events has more than {MAX_EVENT_BYTES >> 20} MiB")
        return b"".join(events)

    def finish(self) -> bytes:
        """Return the filtered bytes after the last complete event. Raises MalformedResponse.

        Clients ignore these bytes.
        """
        last_event = self._filtered_event(bytes(self._buffer)) if self._buffer else b""
        self._buffer.clear()
        return last_event

    def _filtered_event(self, event: bytes) -> bytes:
        if not self._has_begun:  # clients skip a byte order mark at the start of the stream
            self._has_begun = True
            event = event.removeprefix(BOM)
        if event.count(b"\n") + event.count(b"\r") > MAX_LINES:
            raise MalformedResponse(f"one of its events has more than {MAX_LINES} lines")
        try:
            lines = _LINE_END.split(event.decode())
        except UnicodeDecodeError as fault:
            raise MalformedResponse("one of its events is not UTF-8") from fault
        fields = [line.partition(":") for line in lines if line]
        data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
        if not data.strip():
            return event
        filtered_data = filtered_json(data.encode(), self._is_allowed)
        if filtered_data == data.encode():
            return event
        other_lines = [line for line in lines if line and line.partition(":")[0] != "data"]
        return "\n".join((*other_lines, f"data: {filtered_data.decode()}", "", "")).encode()
