"""Tool lists in responses of MCP servers are filtered: JSON and event streams, in pieces of any size."""

import json
import random
from typing import Any

import pytest

from gateway.http.headers import MalformedResponse
from gateway.http.tool_list_filter import MAX_EVENT_BYTES, StreamEventFilter, filtered_json

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("get_issue", "delete_issue", "search")]
RESPONSE: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS, "nextCursor": "c"}}


def is_allowed(name: str) -> bool:
    return not name.startswith("delete")


def names_in(text: bytes) -> list[str]:
    return [tool["name"] for tool in json.loads(text)["result"]["tools"]]


def test_tools_that_may_not_be_called_are_removed() -> None:
    remaining = filtered_json(json.dumps(RESPONSE).encode(), is_allowed)
    assert names_in(remaining) == ["get_issue", "search"]
    assert json.loads(remaining)["result"]["nextCursor"] == "c"


def test_response_without_forbidden_tools_is_unchanged() -> None:
    for value in ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1}}, {"a": 1.50}, [], "x", {"result": {"tools": 3}}):
        raw = json.dumps(value, indent=2).encode()
        assert filtered_json(raw, is_allowed) == raw
    raw = json.dumps(RESPONSE, indent=3).encode()
    assert filtered_json(raw, lambda _: True) == raw
    assert filtered_json(b"", is_allowed) == b""


@pytest.mark.parametrize("hints", [{"ttlMs": 60000, "cacheScope": "public"}, {"ttlMs": 60000}])
def test_a_filtered_list_is_not_shared_with_other_keys(hints: dict[str, Any]) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS, **hints}}).encode()
    event = StreamEventFilter(lambda _: True).feed(b"data: " + raw + b"\n\n").removeprefix(b"data: ")
    for filtered in (filtered_json(raw, is_allowed), filtered_json(raw, lambda _: True), event):
        result = json.loads(filtered)["result"]
        assert (result["ttlMs"], result["cacheScope"]) == (60000, "private")
    assert filtered_json(filtered, lambda _: True) == filtered


def test_items_without_a_name_are_removed() -> None:
    nameless: list[Any] = [{"name": 3}, {}, "search", None, {"name": "search"}]
    assert names_in(filtered_json(json.dumps({"result": {"tools": nameless}}).encode(), is_allowed)) == ["search"]


def test_every_response_of_a_batch_is_filtered() -> None:
    remaining = json.loads(filtered_json(json.dumps([RESPONSE, RESPONSE]).encode(), is_allowed))
    assert [len(item["result"]["tools"]) for item in remaining] == [2, 2]


@pytest.mark.parametrize("body", [b'{"result":{"tools":[],"tools":[{"name":"x"}]}}', b"{", b"\xff", b"<html>"])
def test_ambiguous_list_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedResponse):
        filtered_json(body, is_allowed)


@pytest.mark.parametrize("depth", [100, 600, 900, 5000])
def test_list_that_is_nested_deep_is_filtered_or_refused(depth: int) -> None:
    body = b"[" * depth + json.dumps(RESPONSE).encode() + b"]" * depth
    try:
        assert b"delete_issue" not in filtered_json(body, is_allowed)
    except MalformedResponse:
        assert depth > 100


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
def test_events_are_filtered_however_the_stream_is_split(line: str) -> None:
    draw = random.Random(5)
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    stream = line.join(
        (
            ": ping",
            "",
            "event: message",
            f"data: {json.dumps(progress)}",
            "",
            "id: 7",
            "event: message",
            f"data: {json.dumps(RESPONSE)[:17]}",
            f"data:{json.dumps(RESPONSE)[17:]}",
            "",
            "data",
            "",
            "",
        )
    ).encode()
    at_once = StreamEventFilter(is_allowed)
    whole = at_once.feed(stream) + at_once.finish()
    for _ in range(50):
        events, out, at = StreamEventFilter(is_allowed), b"", 0
        while at < len(stream):
            step = draw.randint(1, 40)
            out += events.feed(stream[at : at + step])
            at += step
        assert out + events.finish() == whole
    assert b"delete_issue" not in whole
    assert b"id: 7" in whole
    assert b"get_issue" in whole
    assert whole.startswith(b": ping")


def test_an_event_is_passed_on_as_soon_as_it_is_complete() -> None:
    events = StreamEventFilter(is_allowed)
    assert events.feed(b"data: {}\n") == b""
    assert events.feed(b"\ndata: {") == b"data: {}\n\n"


def test_an_event_without_end_is_refused() -> None:
    events = StreamEventFilter(is_allowed)
    piece = b"data: " + b"x" * 65_536
    for _ in range(MAX_EVENT_BYTES // len(piece)):
        assert events.feed(piece) == b""
    with pytest.raises(MalformedResponse):
        events.feed(piece)


def test_ambiguous_event_is_refused() -> None:
    with pytest.raises(MalformedResponse):
        StreamEventFilter(is_allowed).feed(b'data: {"result":{"tools":[],"tools":[{"name":"x"}]}}\n\n')


def test_byte_order_mark_does_not_hide_a_list() -> None:
    stream = b"\xef\xbb\xbfdata: " + json.dumps(RESPONSE).encode() + b"\n\n"
    assert b"delete_issue" not in StreamEventFilter(is_allowed).feed(stream)


@pytest.mark.parametrize("event", [b"a\n" * 60_000, b"data: [" + b"[]," * 200_000 + b"1]\n"])
def test_an_event_that_takes_too_long_to_read_is_refused(event: bytes) -> None:
    with pytest.raises(MalformedResponse):
        StreamEventFilter(is_allowed).feed(event + b"\n")
