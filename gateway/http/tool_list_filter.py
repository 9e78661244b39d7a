"""Removes the tools that a caller may not call from an MCP server's ``tools/list`` response, JSON or event stream.
No I/O."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from gateway.errors import InvalidRequest
from gateway.http.headers import MalformedResponse
from gateway.http.strict_json import parse

Shows = Callable[[str], bool]
MOST_EVENT: Final = 4 << 20
MOST_VALUES: Final = 250_000  # values of a list: its JSON is parsed in one call, during which no other thread runs
MOST_LINES: Final = 50_000  # lines of an event
INLINE_STREAM_BYTES: Final = 4096
"""A larger part of a stream is not filtered on the event loop, since it may hold a thousand events."""
BOM: Final = b"\xef\xbb\xbf"
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n|\n\r|\r\r\n")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def filtered_json(body: bytes, shows: Shows) -> bytes:
    """Return `body` with only the tools that `shows` accepts; unchanged if it has no tool list.
    Raises MalformedResponse."""
    if not body.strip():
        return body
    if sum(map(body.count, (b",", b":", b"[", b"{"))) > MOST_VALUES:
        raise MalformedResponse(f"its list of tools has more than {MOST_VALUES} values")
    try:
        value = parse(body)
    except InvalidRequest as fault:
        raise MalformedResponse("its list of tools is not JSON, or is JSON that parsers read differently") from fault
    if not _filter(value, shows):
        return body
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _filter(value: Any, shows: Shows) -> bool:
    """Remove tools from `value`; return whether any was removed."""
    if isinstance(value, list):
        filtered = [_filter(item, shows) for item in value]
        return any(filtered)
    result = value.get("result") if isinstance(value, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(tools, list):
        return False
    result["tools"] = [tool for tool in tools if _is_shown(tool, shows)]
    return len(result["tools"]) < len(tools)


def _is_shown(tool: Any, shows: Shows) -> bool:
    name = tool.get("name") if isinstance(tool, dict) else None
    return isinstance(name, str) and shows(name)


class StreamEventFilter:
    """Filters an event stream piece by piece (https://html.spec.whatwg.org/multipage/server-sent-events.html). It
    buffers one event, of at most `MOST_EVENT` bytes."""

    def __init__(self, shows: Shows, inline_bytes: int = INLINE_STREAM_BYTES) -> None:
        """`inline_bytes`: see `needs_thread`; never more than `INLINE_STREAM_BYTES`."""
        self._shows = shows
        self._inline_bytes = min(inline_bytes, INLINE_STREAM_BYTES)
        self._held = bytearray()
        self._begun = False

    def needs_thread(self, piece: bytes) -> bool:
        """Return whether `feed` with this piece would block the event loop for too long."""
        return len(self._held) + len(piece) > self._inline_bytes

    def feed(self, piece: bytes) -> bytes:
        """Return the events that `piece` completes, filtered. Raises MalformedResponse."""
        begins = max(0, len(self._held) - 3)  # an event's end may be split over two pieces
        self._held += piece
        found: list[bytes] = []
        at = 0
        while (end := _EVENT_END.search(self._held, max(at, begins))) is not None:
            if end.end() == len(self._held) and self._held.endswith(b"\r"):
                break  # a line feed may follow
            found.append(self._event(bytes(self._held[at : end.end()])))
            at = begins = end.end()
        del self._held[:at]
        if len(self._held) > MOST_EVENT:
            raise MalformedResponse(f"an event of it has more than {MOST_EVENT >> 20} MiB")
        return b"".join(found)

    def finish(self) -> bytes:
        """Return the bytes after the last complete event, filtered; clients ignore them. Raises MalformedResponse."""
        rest = self._event(bytes(self._held)) if self._held else b""
        self._held.clear()
        return rest

    def _event(self, raw: bytes) -> bytes:
        if not self._begun:  # clients skip a byte order mark at the start of the stream
            self._begun = True
            raw = raw.removeprefix(BOM)
        if raw.count(b"\n") + raw.count(b"\r") > MOST_LINES:
            raise MalformedResponse(f"an event of it has more than {MOST_LINES} lines")
        try:
            lines = _LINE_END.split(raw.decode())
        except UnicodeDecodeError as fault:
            raise MalformedResponse("an event of it is not UTF-8") from fault
        fields = [line.partition(":") for line in lines if line]
        data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
        if not data.strip():
            return raw
        filtered = filtered_json(data.encode(), self._shows)
        if filtered == data.encode():
            return raw
        kept = [line for line in lines if line and line.partition(":")[0] != "data"]
        return "\n".join((*kept, f"data: {filtered.decode()}", "", "")).encode()
