"""Attacks on the MCP endpoint, by an agent or by an attacker who controls its model.

Each row of the table in docs/security.md has a test here.
"""

import asyncio
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from jmespath.parser import Parser

from gateway.http.json_select import UnusableExpression, evaluate, parse_expression, steps, values_in
from gateway.http.shaped_body import needs_thread
from gateway.mcp import mcp_messages as mcp
from gateway.mcp.tool_results import provider_result
from gateway.records.proxied_call import ExchangeRecord
from tests.fakes.agent_gateway import CONNECT, AgentGateway, agent_gateway, text_of
from tests.fakes.patience import PATIENCE_S

READ = "GET /base/v1/issue/{issue} as get_issue"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("call_api", {"method": "DELETE", "path": "/issue/1"}),
        ("call_api", {"method": "GET", "path": "/issue/../admin"}),
        ("call_api", {"method": "GET", "path": "/issue/%2e%2e/admin"}),
        ("call_api", {"method": "GET", "path": "/issue/1%2F..%2Fadmin"}),
        ("call_api", {"method": "GET", "path": "//attacker.example/issue/1"}),
        ("call_api", {"method": "GET", "path": "/issue/1", "query": {"_method": "DELETE"}}),
        ("call_api", {"method": "GET HTTP/1.1\r\nX: y", "path": "/issue/1"}),
        ("call_api", {"method": "CONNECT", "path": "/issue/1"}),
        ("get_issue", {"issue": "../admin"}),
        ("get_issue", {"issue": "1/comment"}),
        ("get_issue", {"issue": "1;admin"}),
        ("get_issue", {"issue": "1", "method": "DELETE"}),
        ("get_issue", {"issue": "1", "query": {"_method": "DELETE"}}),
        ("call_tool", {"name": "call_api", "arguments": {"method": "DELETE", "path": "/issue/1"}}),
        ("call_tool", {"name": "call_tool", "arguments": {"name": "call_api", "arguments": {}}}),
    ],
)
async def test_no_tool_bypasses_the_rules(gateway: AgentGateway, name: str, arguments: dict[str, Any]) -> None:
    assert (await gateway.call(await gateway.key(READ), name, arguments))["isError"] is True
    assert gateway.provider.calls == []


async def test_no_argument_sets_a_header_or_another_host(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    elsewhere = "https://attacker.example"
    names = (
        "Base-Url-Override",
        "base_url",
        "host",
        "url",
        "origin",
        "Connection-Id",
        "connection_id",
        "Authorization",
    )
    for extra in ({"headers": {"Base-Url-Override": elsewhere}}, *({name: elsewhere} for name in names)):
        for name, arguments in (("get_issue", {"issue": "1"}), ("call_api", {"method": "GET", "path": "/issue/1"})):
            assert (await gateway.call(key, name, {**arguments, **extra}))["isError"] is True
    assert gateway.provider.calls == []


async def test_headers_of_the_agents_request_are_not_forwarded(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "get_issue", "arguments": {"issue": "1"}},
    }
    override = {
        "Base-Url-Override": "https://attacker.example",
        "X-HTTP-Method-Override": "DELETE",
        "Connection-Id": "c2",
    }
    status, body = await gateway.post_message(
        json.dumps(message).encode(), {"Authorization": f"Bearer {key}", **override}
    )
    assert (status, body["result"]["isError"]) == (200, False)
    assert gateway.provider.calls == [("GET", "/base/v1/issue/1", "Bearer key-of-c1", b"")]


async def test_a_connection_outside_the_key_looks_like_a_missing_one(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    other, none = [
        await gateway.call(key, "get_issue", {"issue": "1", "connection": f"acme/{name}"}) for name in ("c2", "nobody")
    ]
    assert text_of(other).replace("c2", "nobody") == text_of(none)
    assert gateway.provider.calls == []


async def test_a_router_and_the_gateway_read_the_same_message(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    meta = {mcp.META_VERSION: mcp.MODERN, mcp.META_CAPABILITIES: {}}
    params = {"name": "get_issue", "arguments": {"issue": "1"}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": mcp.MODERN, "Mcp-Method": "tools/list"}
    status, body = await gateway.post_message(json.dumps(message).encode(), headers)
    assert (status, body["error"]["code"]) == (400, mcp.HEADER_MISMATCH)
    twice = json.dumps(message)[:-1] + ',"method":"tools/list"}'
    assert (await gateway.post_message(twice.encode(), {**headers, "Mcp-Method": "tools/call"}))[0] == 400
    assert gateway.provider.calls == []


@pytest.mark.parametrize("fast_path", [True, False])
async def test_a_large_body_is_sent_completely_by_mcp_and_by_http(tmp_path: Path, fast_path: bool) -> None:
    async with agent_gateway(tmp_path, fast_path=fast_path) as gateway:
        key, body = await gateway.key("POST /base/v1/issues as add"), {"text": "x" * 600_000}
        result = await gateway.call(key, "add", {"body": body})
        assert result["isError"] is False
        assert [json.loads(sent) for _, _, _, sent in gateway.provider.calls] == [body]


async def test_a_query_that_is_too_long_for_a_request_line_is_refused(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    for query in ({"a": [1] * 9000}, {"a" * 5000: [1, 2]}):
        refused = await gateway.call(key, "get_issue", {"issue": "1", "query": query})
        assert "'query' has more than 8190 characters" in text_of(refused)
    assert gateway.provider.calls == []


async def test_a_search_for_thousands_of_words_is_refused(gateway: AgentGateway) -> None:
    refused = await gateway.call(await gateway.key(READ), "find_tools", {"query": "a " * 300})
    assert "at most 512 characters" in text_of(refused)


async def test_no_result_contains_the_credential(gateway: AgentGateway) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{request.url.origin()}/base/v1/next"})

    key = await gateway.key(READ)
    listed = await gateway.request_result(key, "tools/list")
    shown = await gateway.call(key, "get_issue", {"issue": "1"})
    gateway.provider.responding = echo
    redirected = await gateway.call(key, "get_issue", {"issue": "1"})
    assert "key-of-c1" not in json.dumps([listed, shown, redirected])
    assert len(gateway.provider.calls) == 2


async def test_a_revoked_key_opens_neither_tools_nor_kept_responses(gateway: AgentGateway) -> None:
    async def binary(_request: web.Request) -> web.Response:
        return web.Response(body=b"\xff" * 64, content_type="application/octet-stream")

    gateway.provider.responding = binary
    key = await gateway.key(READ)
    (link,) = [
        b for b in (await gateway.call(key, "get_issue", {"issue": "1"}))["content"] if b["type"] == "resource_link"
    ]
    (shown,) = (await gateway.running.json("GET", "/environment/api-keys"))["data"]
    await gateway.running.json("DELETE", f"/environment/api-keys/{shown['id']}", expect=200)
    for method, params in (("tools/list", {}), ("resources/read", {"uri": link["uri"]})):
        assert (await gateway.send_message(key, method, **params))[0] == 401


@pytest.mark.parametrize("change", ["tags", "deleted"])
async def test_a_connection_that_the_key_no_longer_reaches_has_no_kept_response(
    gateway: AgentGateway, change: str
) -> None:
    async def binary(_request: web.Request) -> web.Response:
        return web.Response(body=b"\xff" * 64, content_type="application/octet-stream")

    gateway.provider.responding = binary
    key = await gateway.key("POST /base/v1/search as search", limits={"tags": {"team": "red"}})
    (link,) = [b for b in (await gateway.call(key, "search"))["content"] if b["type"] == "resource_link"]
    assert "contents" in await gateway.request_result(key, "resources/read", uri=link["uri"])
    at = "/connections/c1?provider_config_key=acme"
    if change == "tags":
        await gateway.running.json("PATCH", at, json={"tags": {"team": "blue"}}, expect=200)
    else:
        await gateway.running.json("DELETE", at, expect=200)
    refused = await gateway.request_result(key, "resources/read", uri=link["uri"])
    assert refused["code"] == mcp.INVALID_PARAMS


async def test_the_uri_of_a_kept_response_cannot_be_forged(gateway: AgentGateway) -> None:
    key = await gateway.key(READ)
    for uri in (
        "gateway://answers/1",
        "file:///etc/passwd",
        "http://169.254.169.254/",
        "gateway://answers/" + "A" * 300,
    ):
        assert (await gateway.request_result(key, "resources/read", uri=uri))["code"] == mcp.INVALID_PARAMS
    assert gateway.provider.calls == []


async def test_only_keys_with_the_scope_get_a_link(gateway: AgentGateway) -> None:
    limits = {"connections": ["acme/c9"]}
    with_scope = await gateway.key(READ, limits=limits, scopes=["environment:proxy", CONNECT])
    without = await gateway.key(READ, limits=limits)
    able: dict[str, Any] = {"capabilities": {"elicitation": {"url": {}}}}
    assert "/connect" in json.dumps(await gateway.call(with_scope, "get_issue", {"issue": "1"}))
    refused = await gateway.call(without, "get_issue", {"issue": "1"}, **able)
    assert refused["resultType"] == "complete"
    assert f"{gateway.running.url}/connect" not in json.dumps(refused)


EXPLODING = (
    " | ".join(["[@,@]"] * 20),
    " | ".join(["[@,@][]"] * 20),
    "[*].{" + ",".join(f"a{n}: @" for n in range(40)) + "} | [*].{b: @, c: @}",
    "[*].join('" + "x" * 200 + "', @)",
    "[*].`[" + ",".join(["1"] * 100) + "]`",
    "to_string([@,@]) | [@,@] | " + " | ".join(["[@,@,@,@]"] * 4),
)


@pytest.mark.parametrize("expression", EXPLODING, ids=range(len(EXPLODING)))
def test_an_expression_that_would_fill_the_memory_is_refused_before_it_runs(expression: str) -> None:
    with pytest.raises(UnusableExpression):
        parse_expression(expression)


def test_a_response_with_too_many_values_is_returned_as_text() -> None:
    body = b"[" + b"[]," * 1_000_000 + b"1]"
    shaped = provider_result(200, "OK", "application/json", body, None, 1000)
    assert "structuredContent" not in shaped.result
    assert shaped.is_partial


def test_a_response_of_millions_of_values_is_not_multiplied() -> None:
    body = b"[" + b"1," * 2_000_000 + b"1]"
    with pytest.raises(UnusableExpression, match="too large"):
        evaluate(parse_expression("[*].{a:@,b:@,c:@,d:@,e:@,f:@}"), [1], values_in(body))


@pytest.mark.parametrize(
    "expression",
    ["[?" + "!" * 240 + "@]", "[*]" + "|[*]" * 60, "[*].[@,@,@,@][] | [*]" + " | [*]" * 15],
)
def test_an_expression_of_many_steps_is_evaluated_off_the_event_loop_and_limited(expression: str) -> None:
    found, body = parse_expression(expression), b"[" + b"1," * 30_000 + b"1]"
    assert needs_thread(body, found)
    with pytest.raises(UnusableExpression, match="too large"):
        evaluate(found, [1], 16 * values_in(body))


@pytest.mark.parametrize(
    "expression", ["[?" + "!" * 480 + "@]", "[*]" + "|[*]" * 120, "[*].[@,@][] | [*]" + "|[*]" * 60]
)
def test_an_expression_of_too_many_steps_is_refused(expression: str) -> None:
    with pytest.raises(UnusableExpression, match=r"steps|recursion"):
        parse_expression(expression)


class CountedNode(dict[str, Any]):
    """A node of a parsed expression, with its children. `reads`: how many members of such nodes have been read."""

    reads = 0

    def __init__(self, node: dict[str, Any]) -> None:
        super().__init__({**node, "children": [CountedNode(child) for child in node["children"]]})

    def __getitem__(self, name: str) -> Any:
        CountedNode.reads += 1
        return super().__getitem__(name)


@pytest.mark.parametrize("part", ["|a", "[*]", "[?a]"])
def test_the_cost_of_an_expression_is_computed_in_linear_time(part: str) -> None:
    """An agent can send expressions, and the event loop computes their cost."""
    counts = []
    for repeats in (40, 80):
        node, CountedNode.reads = CountedNode(Parser().parse("a" + part * repeats).parsed), 0
        assert steps(node) > repeats
        counts.append(CountedNode.reads)
    assert counts[1] < 2.5 * counts[0], counts


def test_a_list_of_thousands_of_values_is_not_cut_on_the_event_loop() -> None:
    assert needs_thread(b"[" + b"1," * 30_000 + b"1]", None)
    assert not needs_thread(b"[" + b"1," * 3000 + b"1]", None)
    assert not needs_thread(b'["' + b"x," * 1000 + b"x" * 50_000 + b'"]', None)


def test_an_ordinary_selection_stays_on_the_event_loop() -> None:
    body = json.dumps({"issues": [{"key": "A", "fields": {"status": {"name": "open"}}}] * 100}).encode()
    assert not needs_thread(body, parse_expression("issues[?key == 'A'].{key: key, state: fields.status.name}"))


def test_long_texts_count_as_several_values() -> None:
    with pytest.raises(UnusableExpression, match="too large"):
        evaluate(
            parse_expression("[" + ",".join(["to_string([@])"] * 16) + "]"),
            "x",
            values_in(b'"' + b"x" * (8 << 20) + b'"'),
        )


DOUBLED = "@" + "|[@,@]" * 34


@pytest.mark.parametrize(
    "expression",
    [
        f"({DOUBLED}) == ({DOUBLED})",
        f"[?({DOUBLED}) == `1`]",
        f"!(to_string({DOUBLED}))",
        "to_string([" * 30 + "@" + "])" * 30,
        "join(to_string(@), l)",
        "l[].join(@, [@])",
    ],
)
def test_large_intermediate_results_are_refused(expression: str) -> None:
    with pytest.raises(UnusableExpression, match=r"too often|first argument of join"):
        parse_expression(expression)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"l[?@ != '{'x' * 200}'] | length(@)", 2),
        ("join(', ', l)", "a, b"),
        ("to_string(length(l))", "2"),
        ("l[?!(@ == 'a') && contains(@, 'b')]", ["b"]),
    ],
)
def test_comparisons_and_texts_of_ordinary_size_are_allowed(expression: str, value: Any) -> None:
    assert evaluate(parse_expression(expression), {"l": ["a", "b"]}, 10) == value


async def test_a_huge_response_takes_no_more_memory_than_a_bound(gateway: AgentGateway) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(1600):  # 100 MiB
            await response.write(b"[" + b" " * 65535)
        return response

    gateway.provider.responding = endless
    key = await gateway.key(READ)
    tracemalloc.start()
    try:
        result = await gateway.call(key, "get_issue", {"issue": "1"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than 8 MiB" in text_of(result)
    assert peak < 40 << 20


ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**400,
    "",
    "x",
    "/",
    "\x00",
    "é" * 3000,
    [],
    [[]],
    {},
    {"a": {}},
    {"_meta": []},
)
FIELDS = ("name", "arguments", "uri", "cursor", "_meta", "requestState", "inputResponses", "protocolVersion")
OF_TOOLS = (
    "issue",
    "method",
    "path",
    "query",
    "body",
    "body_as",
    "select",
    "max_bytes",
    "connection",
    "name",
    "arguments",
)
METHODS = ("initialize", "ping", "tools/list", "tools/call", "resources/read", "resources/list", "server/discover", "x")
TOOLS = ("get_issue", "call_api", "find_tools", "describe_tool", "call_tool")


@pytest.mark.parametrize("seed", range(4))
async def test_no_message_causes_an_internal_error(gateway: AgentGateway, seed: int) -> None:
    draw = random.Random(seed)
    key = await gateway.key(READ, "POST /base/v1/{kind} as make")
    for _ in range(250):
        params: dict[str, Any] = {name: draw.choice(ODD) for name in draw.sample(FIELDS, draw.randint(0, 4))}
        if draw.random() < 0.8:
            arguments: dict[str, Any] = {name: draw.choice(ODD) for name in draw.sample(OF_TOOLS, draw.randint(0, 4))}
            if draw.random() < 0.5:
                arguments |= {"method": "GET", "path": "/issue/1"}
            params |= {"name": draw.choice(TOOLS), "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": draw.choice([1, "a"]), "method": draw.choice(METHODS), "params": params}
        if draw.random() < 0.7:
            message["method"] = "tools/call"
        status, body = await gateway.post_message(json.dumps(message).encode(), {"Authorization": f"Bearer {key}"})
        assert status < 500, (message, body)
        assert "result" in body or "error" in body


async def test_disconnect_of_an_agent_ends_its_call(gateway: AgentGateway) -> None:
    started, records = asyncio.Event(), asyncio.Queue[ExchangeRecord]()
    done = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        started.set()
        await done.wait()
        return web.Response()

    key = await gateway.key(READ)
    gateway.running.runtime.call_queue.record = records.put_nowait  # type: ignore[method-assign]
    gateway.provider.responding = silent
    call = asyncio.create_task(gateway.call(key, "get_issue", {"issue": "1"}))
    async with asyncio.timeout(PATIENCE_S):
        await started.wait()
        call.cancel()
        inner, outer = await records.get(), await records.get()
    done.set()
    assert (inner.path, inner.error_code, outer.path, outer.error_code) == (
        "/issue/1",
        "client_left",
        "/mcp",
        "client_left",
    )


async def test_a_capability_reaches_its_own_mcp_endpoint_on_a_reused_connection(gateway: AgentGateway) -> None:
    """The fast path handles requests below a capability URL, but not its MCP endpoint."""
    body = {"kind": "capability", "display_name": "cap", "limits": {"connections": ["acme/c1"], "rules": [READ]}}
    minted = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=200)
    path = f"/c/{minted['data']['secret']}"
    for _ in range(3):
        async with gateway.running.http.get(f"{gateway.running.url}{path}/issue/1") as response:
            assert response.status == 200
            await response.read()
    taken = gateway.running.fast_path.taken
    assert taken > 0
    assert list(await gateway.tools("unused", path=f"{path}/mcp")) == ["get_issue"]
    assert gateway.running.fast_path.taken == taken
    assert len(gateway.provider.calls) == 3


@pytest.mark.parametrize("path", ["/mcp", "/%6dcp"])
async def test_a_tool_call_below_a_capability_url_never_calls_the_mcp_endpoint(
    gateway: AgentGateway, path: str
) -> None:
    """Otherwise, one message could contain 20 nested tool calls, and the key's rate would count one call."""
    read_only, posting = [f"/c/{await gateway.key(rule, kind='capability')}" for rule in (READ, "POST /base/v1/mcp")]
    inner = {"name": "get_issue", "arguments": {"issue": "1"}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": inner}
    nested = {"method": "POST", "path": path, "body": message}
    refused = await gateway.call("unused", "call_api", nested, path=f"{read_only}/mcp")
    assert refused["structuredContent"]["error"]["payload"]["rule"] in ("rules", "plain_path")
    assert gateway.provider.calls == []
    result = await gateway.call("unused", "call_api", {**nested, "path": "/mcp"}, path=f"{posting}/mcp")
    assert result["structuredContent"]["path"] == "/base/v1/mcp"
    assert [call[:2] for call in gateway.provider.calls] == [("POST", "/base/v1/mcp")]


@pytest.mark.parametrize("location", ["/base/v1/issue/2?x=1", "@ORIGIN@/base/v1/issue/2?x=1"])
async def test_no_redirect_shows_the_capability_to_the_model(gateway: AgentGateway, location: str) -> None:
    async def redirect(_request: web.Request) -> web.Response:
        place = location.replace("@ORIGIN@", f"http://127.0.0.1:{gateway.provider.port}")
        return web.Response(status=302, headers={"Location": place})

    gateway.provider.responding = redirect
    path = f"/c/{await gateway.key(READ, kind='capability')}"
    result = await gateway.call("unused", "get_issue", {"issue": "1"}, path=f"{path}/mcp")
    assert "Location: /issue/2?x=1. " in text_of(result)
    assert path not in json.dumps(result)
    at_proxy = await gateway.call(await gateway.key(READ), "get_issue", {"issue": "1"})
    assert "Location: /issue/2?x=1. " in text_of(at_proxy)


async def test_a_capability_for_an_mcp_server_reaches_the_vendors_server(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.mcp.lazy_endpoint.MCP_MODES", "API_")  # as if the mode of `acme` were MCP_OAUTH2
    request_body = {"kind": "capability", "display_name": "cap", "limits": {"connections": ["acme/c1"]}}
    minted = await gateway.running.json("POST", "/environment/api-keys", json=request_body, expect=200)
    _, body = await gateway.send_message("unused", "tools/list", path=f"/c/{minted['data']['secret']}/mcp")
    assert body["path"] == "/base/v1/mcp"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://x.example/\xff\r\nContent-Length: 0",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/\xff\r\nContent-Length: 3",
    ],
)
async def test_binary_response_causes_no_internal_error(gateway: AgentGateway, head: bytes) -> None:
    async def responding(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(head + b"\r\nConnection: close\r\n\r\n" + b"\0" * int(head[-1:]))
        request.transport.close()
        return web.Response()

    gateway.provider.responding = responding
    key = await gateway.key("GET /base/v1/**")
    status, body = await gateway.send_message(
        key, "tools/call", name="call_api", arguments={"method": "GET", "path": "/x"}
    )
    assert (status, body["result"]["isError"]) == (200, False), body


@pytest.mark.parametrize("connection", [" acme/c1", "acme/c1 ", "acme/ c1\t", "acme/\x0bc1", "acme/c1\r\nX: y"])
async def test_white_space_around_the_name_of_a_connection_is_refused(gateway: AgentGateway, connection: str) -> None:
    """A header field would strip the white space around its value, so rules and errors would refer to another name."""
    key = await gateway.key("GET /base/v1/**")
    result = await gateway.call(key, "call_api", {"method": "GET", "path": "/x", "connection": connection})
    assert (result["isError"], gateway.provider.calls) == (True, [])
