"""The Model Context Protocol without I/O: how a POST is parsed, and which reply it gets."""

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.mcp import mcp_messages as mcp
from gateway.mcp.mcp_messages import RpcError, RpcNotification, RpcRequest

META: dict[str, Any] = {mcp.META_VERSION: mcp.MODERN, mcp.META_CAPABILITIES: {}}


def request_of_2026(method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


def routing_headers(
    method: str = "tools/list", name: str | None = None, version: str = mcp.MODERN
) -> list[tuple[str, str]]:
    name_header = [("Mcp-Name", name)] if name is not None else []
    return [("MCP-Protocol-Version", version), ("Mcp-Method", method), *name_header]


def read(message: Any, headers: list[tuple[str, str]] | None = None) -> RpcRequest | RpcNotification:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return mcp.read_message(body, headers or [])


def error_of_message(message: Any, headers: list[tuple[str, str]] | None = None) -> RpcError:
    with pytest.raises(RpcError) as raised:
        read(message, headers)
    return raised.value


def test_a_request_of_2026_states_its_revision() -> None:
    found = read(request_of_2026("tools/call", name="get_x"), routing_headers("tools/call", "get_x"))
    assert isinstance(found, RpcRequest)
    assert (found.revision, found.method, found.params["name"], found.modern) == (
        mcp.MODERN,
        "tools/call",
        "get_x",
        True,
    )


def test_name_that_is_invalid_in_a_header_is_sent_in_base64() -> None:
    name = "größe"
    coded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    read(request_of_2026("tools/call", name=name), routing_headers("tools/call", coded))
    assert (
        error_of_message(
            request_of_2026("tools/call", name=name), routing_headers("tools/call", coded[:-3] + "x?=")
        ).code
        == mcp.HEADER_MISMATCH
    )


@pytest.mark.parametrize(
    "headers",
    [
        [],
        routing_headers("tools/list", "get_x"),
        routing_headers("tools/call", "delete_all"),
        routing_headers("tools/call"),
        routing_headers("tools/call", "get_x", "2025-11-25"),
        [*routing_headers("tools/call", "get_x"), ("mcp-name", "delete_all")],
        [*routing_headers("tools/call", "get_x"), ("MCP-METHOD", "tools/list")],
    ],
    ids=["none", "other method", "other name", "no name", "other revision", "name twice", "method twice"],
)
def test_headers_that_say_something_else_than_the_body_are_refused(headers: list[tuple[str, str]]) -> None:
    fault = error_of_message(request_of_2026("tools/call", name="get_x"), headers)
    assert fault.code == mcp.HEADER_MISMATCH
    assert mcp.error_reply(fault, None, 1).status == 400


@pytest.mark.parametrize("version", [[], [("MCP-Protocol-Version", "2025-06-18")]], ids=["no version", "2025"])
@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("tools/call", ("Mcp-Method", "tools/list")),
        ("tools/call", ("Mcp-Method", "\u00a0tools/call")),
        ("tools/call", ("Mcp-Name", "delete_all")),
        ("tools/call", ("Mcp-Name", "=?base64?eA==x?=")),
        ("tools/list", ("Mcp-Name", "get_x")),
        ("initialize", ("Mcp-Method", "tools/call")),
    ],
)
def test_headers_are_compared_with_the_body_in_each_revision(
    version: list[tuple[str, str]], method: str, sent: tuple[str, str]
) -> None:
    message: Any = {"jsonrpc": "2.0", "id": 1, "method": method}
    if method == "tools/call":
        message["params"] = {"name": "get_x"}
        read(message, [*version, ("Mcp-Method", method), ("Mcp-Name", "get_x")])
    assert error_of_message(message, [*version, sent]).code == mcp.HEADER_MISMATCH
    del message["id"]
    assert error_of_message(message, [*version, sent]).code == mcp.HEADER_MISMATCH


def test_an_unknown_revision_gets_the_list_of_supported_revisions() -> None:
    message = request_of_2026()
    message["params"]["_meta"] = {**META, mcp.META_VERSION: "2031-01-01"}
    fault = error_of_message(message, routing_headers(version="2031-01-01"))
    assert (fault.code, fault.data) == (-32022, {"supported": list(mcp.REVISIONS), "requested": "2031-01-01"})
    old = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert error_of_message(old, [("MCP-Protocol-Version", "2031-01-01")]).code == -32022
    assert mcp.error_reply(fault, None, 1).status == 400


@pytest.mark.parametrize("method", ["tools/call", "server/discover"])
def test_an_unknown_revision_need_not_have_the_fields_and_headers_of_this_one(method: str) -> None:
    version = ("MCP-Protocol-Version", "2031-01-01")
    message = request_of_2026(method, name="get_x")
    message["params"]["_meta"] = {mcp.META_VERSION: "2031-01-01"}
    assert error_of_message(message, [version]).code == mcp.UNSUPPORTED_REVISION
    assert error_of_message(message, [("MCP-Protocol-Version", "2032-01-01")]).code == mcp.HEADER_MISMATCH
    message["params"].pop("_meta")
    assert error_of_message(message, [version]).code == mcp.UNSUPPORTED_REVISION


def test_capabilities_are_part_of_each_request() -> None:
    message = request_of_2026()
    message["params"]["_meta"] = {mcp.META_VERSION: mcp.MODERN}
    fault = error_of_message(message, routing_headers())
    assert fault.code == mcp.INVALID_PARAMS
    assert mcp.META_CAPABILITIES in fault.message


@pytest.mark.parametrize("revision", mcp.HANDSHAKE)
def test_a_client_of_2025_sends_initialize_and_then_the_version_header(revision: str) -> None:
    begin = read({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": revision}})
    assert isinstance(begin, RpcRequest)
    assert mcp.negotiate_revision(begin.params) == revision
    message = {"jsonrpc": "2.0", "id": "a", "method": "tools/list"}
    found = read(message, [("MCP-Protocol-Version", revision)])
    assert isinstance(found, RpcRequest)
    assert (found.id, found.revision, found.modern) == ("a", revision, False)


def test_initialize_with_an_unknown_revision_gets_the_newest_that_has_a_handshake() -> None:
    assert mcp.negotiate_revision({"protocolVersion": "2024-11-05"}) == "2025-11-25"
    assert mcp.negotiate_revision({"protocolVersion": ["2025-06-18"]}) == "2025-11-25"


def test_notifications_and_responses_get_no_response() -> None:
    assert read({"jsonrpc": "2.0", "method": "notifications/initialized"}) == RpcNotification(
        "notifications/initialized"
    )
    assert read({"jsonrpc": "2.0", "id": 4, "result": {}}) == RpcNotification("")


NO_MESSAGE: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", mcp.PARSE_ERROR),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', mcp.PARSE_ERROR),
    "a member twice": (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', mcp.PARSE_ERROR),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', mcp.PARSE_ERROR),
    "infinite": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}', mcp.PARSE_ERROR),
    "half a pair": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}', mcp.PARSE_ERROR),
    "deep": (b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":' + b"[" * 65 + b"]" * 65 + b"}}", mcp.PARSE_ERROR),
    "deeper than Python reads": (b"[" * 100_000, mcp.PARSE_ERROR),
    "a number without end": (b'{"id":' + b"1" * 10_000 + b"}", mcp.PARSE_ERROR),
    "a batch": ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], mcp.INVALID_REQUEST),
    "a text": ("ping", mcp.INVALID_REQUEST),
    "another version": ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, mcp.INVALID_REQUEST),
    "no method": ({"jsonrpc": "2.0", "id": 1}, mcp.INVALID_REQUEST),
    "a long method": ({"jsonrpc": "2.0", "id": 1, "method": "x" * 129}, mcp.INVALID_REQUEST),
    "id null": ({"jsonrpc": "2.0", "id": None, "method": "ping"}, mcp.INVALID_REQUEST),
    "id true": ({"jsonrpc": "2.0", "id": True, "method": "ping"}, mcp.INVALID_REQUEST),
    "id a fraction": ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, mcp.INVALID_REQUEST),
    "params a list": ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, mcp.INVALID_REQUEST),
}


@pytest.mark.parametrize("what", NO_MESSAGE)
def test_only_a_single_plain_message_is_accepted(what: str) -> None:
    message, code = NO_MESSAGE[what]
    fault = error_of_message(message)
    assert fault.code == code
    assert mcp.error_reply(fault, None, None).status == 400


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
@example({"id": 1})
def test_any_json_is_read_or_refused(value: Any) -> None:
    body = json.dumps(value).encode()
    status = None
    try:
        read(body)
    except RpcError as fault:
        status = mcp.error_reply(fault, None, mcp.id_in(body)).status
    assert status in (None, 400)
    assert isinstance(mcp.id_in(body), str | int | None)


def test_the_error_for_an_id_says_which_ids_are_valid() -> None:
    with pytest.raises(RpcError, match=f"at most {mcp.MAX_ID_CHARS} characters, or a whole number"):
        mcp.read_message(json.dumps({"jsonrpc": "2.0", "id": "x" * 257, "method": "ping"}).encode(), [])


def test_results_are_complete_and_lists_state_how_long_they_are_valid() -> None:
    request = RpcRequest(7, "tools/list", {}, mcp.MODERN)
    body = mcp.result_reply(request, {"tools": []}, {"name": "g"}, 60_000).body
    assert body is not None
    assert body["result"] == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {mcp.META_SERVER: {"name": "g"}},
    }
    older = mcp.result_reply(RpcRequest(7, "tools/list", {}, "2025-06-18"), {"tools": []}, {"name": "g"}, 60_000)
    assert older.body == {"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}


def test_an_unknown_method_has_status_404_since_revision_2026_and_200_before() -> None:
    fault = RpcError(mcp.METHOD_NOT_FOUND, "No.")
    assert mcp.error_reply(fault, RpcRequest(1, "x", {}, mcp.MODERN), 1).status == 404
    assert mcp.error_reply(fault, RpcRequest(1, "x", {}, "2025-11-25"), 1).status == 200


@pytest.mark.parametrize(
    ("accept", "taken"),
    [(None, True), ("*/*", True), ("text/event-stream, application/json;q=0.9", True), ("text/event-stream", False)],
)
def test_a_response_is_json_or_none(accept: str | None, taken: bool) -> None:
    assert mcp.accepts_json(accept) is taken


def test_only_clients_of_2026_get_structured_content_that_is_not_an_object() -> None:
    for revision, expected in ((mcp.MODERN, True), ("2025-11-25", False)):
        body = mcp.result_reply(RpcRequest(1, "tools/call", {}, revision), {"structuredContent": [1]}, {}, None).body
        assert body is not None
        assert ("structuredContent" in body["result"]) is expected


def test_a_client_of_the_first_revision_gets_a_link_as_text() -> None:
    """The schema of 2025-03-26 has no type resource_link, and clients refuse a result with an unknown type."""
    content = [{"type": "text", "text": "cut"}, {"type": "resource_link", "uri": "gateway://answers/x", "name": "x"}]
    for revision in mcp.REVISIONS:
        reply = mcp.result_reply(RpcRequest(1, "tools/call", {}, revision), {"content": content}, {}, None)
        shown = json.loads(reply.content())["result"]["content"]
        assert [block["type"] for block in shown] == ["text", "text" if revision == "2025-03-26" else "resource_link"]
        assert "gateway://answers/x" in str(shown[1])
    assert content[1]["type"] == "resource_link"


@pytest.mark.parametrize("revision", mcp.REVISIONS)
@pytest.mark.parametrize("structured", [{"a": "é\ud800", "b": [1.5, None, {}]}, {}, [1, {"x": 2}], "text", None])
def test_a_known_json_text_gives_the_same_bytes_as_encoding_its_value(revision: str, structured: Any) -> None:
    request = RpcRequest("an id", "tools/call", {}, revision)
    known = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
    for result in (
        {"content": [{"type": "text", "text": known}], "isError": False, "structuredContent": structured},
        {"structuredContent": structured},
        {"structuredContent": structured, "isError": False},
    ):
        encoded = mcp.result_reply(request, result, {"name": "g"}, None)
        spliced = mcp.result_reply(request, result, {"name": "g"}, None, known)
        assert spliced.content() == encoded.content()
        assert json.loads(spliced.content()) == json.loads(
            json.dumps(encoded.body, ensure_ascii=False).encode("utf-8", "replace")
        )


def test_a_result_without_structured_content_ignores_a_known_json_text() -> None:
    reply = mcp.result_reply(RpcRequest(1, "tools/call", {}), {"content": []}, {}, None, "{}")
    assert json.loads(reply.content()) == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
