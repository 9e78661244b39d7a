"""A key for two tools of an MCP server or two fields of a GraphQL API, and attempts to do more with this key.

Each attempt is made through the fast path and through the middleware chain. Only requests that the rules name reach the
provider.
"""

import base64
import gzip
import json
import threading
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from gateway.access.key_policy import Breach, Policy, SentRequest
from tests.fakes.agent_gateway import AgentGateway, agent_gateway

TOOLS = "POST /base/v1/mcp with tools search_*,get_issue"
QUERY = "POST /base/v1/graphql with query issues,viewer"
MUTATION = "POST /base/v1/graphql with mutation commentCreate"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=["fast path", "chain"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentGateway]:
    async with agent_gateway(tmp_path, fast_path=request.param == "fast path") as made:
        yield made


async def post(
    gateway: AgentGateway,
    key: str,
    path: str,
    body: bytes,
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    method: str = "POST",
) -> tuple[int, dict[str, Any]]:
    header_fields = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1"}
    fields = [
        *header_fields.items(),
        *(JSON if headers is None else dict(headers) if isinstance(headers, dict) else {}).items(),
    ]
    fields += headers if isinstance(headers, list) else []
    url = URL(f"{gateway.running.url}/proxy{path}", encoded=True)
    async with gateway.running.http.request(
        method, url, data=BytesIO(body), headers=fields, skip_auto_headers=["Content-Type"]
    ) as response:
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else {}


def call(tool: Any = "delete_issue", **extra: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return json.dumps({**message, **extra}).encode()


GOOD = call("get_issue")
EVIL = call()
RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PARAMS = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
ENCODED = base64.b64encode(b"delete_issue").decode()

# The columns: name of the attempt, body, header fields in addition to Content-Type, end of the URL.
MCP_WAYS: tuple[tuple[str, bytes, Any, str], ...] = (
    ("another tool", EVIL, None, ""),
    ("other case of the tool", call("GET_ISSUE"), None, ""),
    ("a blank behind the tool", call("get_issue "), None, ""),
    ("a line end behind the tool", call("get_issue\n"), None, ""),
    ("a NUL behind the tool", call("get_issue\0"), None, ""),
    ("a wide letter in the tool", call("get_iss\uff55e"), None, ""),
    ("a list of tools", call(["get_issue", "delete_issue"]), None, ""),
    ("no tool", PARAMS + b'{"arguments":{}}}', None, ""),
    ("the tool twice, the good one last", PARAMS + b'{"name":"delete_issue","name":"get_issue"}}', None, ""),
    ("the tool twice, the good one first", PARAMS + b'{"name":"get_issue","name":"delete_issue"}}', None, ""),
    ("the tool twice, once escaped", PARAMS + b'{"name":"get_issue","n\\u0061me":"delete_issue"}}', None, ""),
    ("the tool twice, once in capitals", PARAMS + b'{"name":"get_issue","Name":"delete_issue"}}', None, ""),
    ("the tool twice, once with a NUL", PARAMS + b'{"name":"get_issue","name\\u0000":"delete_issue"}}', None, ""),
    ("the tool twice, once wide", PARAMS + '{"name":"get_issue","ｎame":"delete_issue"}}'.encode(), None, ""),
    ("the tool in a prototype", PARAMS + b'{"__proto__":{"name":"delete_issue"},"name":"get_issue"}}', None, ""),
    ("params twice", GOOD[:-1] + b',"params":{"name":"delete_issue"}}', None, ""),
    ("params twice, once in capitals", GOOD[:-1] + b',"Params":{"name":"delete_issue"}}', None, ""),
    ("params with a long s", GOOD[:-1] + ',"param\u017f":{"name":"delete_issue"}}'.encode(), None, ""),
    ("the method twice", EVIL[:-1] + b',"method":"tools/list"}', None, ""),
    ("the method twice, once in capitals", GOOD[:-1] + b',"METHOD":"resources/read"}', None, ""),
    ("a batch", b"[" + GOOD + b"," + EVIL + b"]", None, ""),
    ("a batch of one", b"[" + EVIL + b"]", None, ""),
    ("two messages", GOOD + b"\n" + EVIL, None, ""),
    ("a message behind a NUL", GOOD + b"\0" + EVIL, None, ""),
    ("a comment", b"/*" + GOOD + b"*/" + EVIL, None, ""),
    ("a byte order mark", b"\xef\xbb\xbf" + GOOD, None, ""),
    ("UTF-16", GOOD.decode().encode("utf-16"), None, ""),
    ("UTF-16 by its charset", EVIL.decode().encode("utf-16"), {"Content-Type": "application/json; charset=utf-16"}, ""),
    ("UTF-7 by its charset", GOOD, {"Content-Type": "application/json; charset=utf-7"}, ""),
    ("a type with a long s", GOOD, {"Content-Type": "application/j\u017fon"}, ""),
    ("a type after a no-break space", GOOD, {"Content-Type": "\u00a0application/json"}, ""),
    ("two charsets", GOOD, {"Content-Type": "application/json; charset=utf-8; charset=utf-16"}, ""),
    ("bytes that are not UTF-8", GOOD.replace(b"{}", b'{"a":"\xff"}'), None, ""),
    ("half a surrogate pair", GOOD.replace(b"{}", b'{"a":"\\ud800"}'), None, ""),
    ("NaN, which is not a JSON number", GOOD.replace(b"{}", b'{"a":NaN}'), None, ""),
    ("a number beyond measure", GOOD.replace(b"{}", b'{"a":1e999}'), None, ""),
    ("nested beyond measure", GOOD.replace(b"{}", b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"), None, ""),
    ("compressed", gzip.compress(EVIL), {**JSON, "Content-Encoding": "gzip"}, ""),
    ("compressed, as it is not", GOOD, {**JSON, "Content-Encoding": "gzip"}, ""),
    ("compressed, with an underscore", GOOD, {**JSON, "Content_Encoding": "gzip"}, ""),
    ("coded by name alone", GOOD, {**JSON, "Content-Encoding": "identity"}, ""),
    ("a part of a body", GOOD, {**JSON, "Content-Range": "bytes 0-3/100"}, ""),
    (
        "as a form",
        b"jsonrpc=2.0&method=tools/call&name=delete_issue",
        {"Content-Type": "application/x-www-form-urlencoded"},
        "",
    ),
    ("as plain text", EVIL, {"Content-Type": "text/plain"}, ""),
    ("without a type", EVIL, {}, ""),
    ("with two types", GOOD, [("Content-Type", "application/json"), ("Content-Type", "text/plain")], ""),
    ("with a type and an underscore", GOOD, [("Content-Type", "application/json"), ("Content_Type", "text/plain")], ""),
    ("another tool in the header", GOOD, {**JSON, "Mcp-Name": "delete_issue"}, ""),
    ("the tool in the header, after a no-break space", GOOD, {**JSON, "Mcp-Name": "\u00a0get_issue"}, ""),
    ("another tool in the header, encoded", GOOD, {**JSON, "Mcp-Name": f"=?base64?{ENCODED}?="}, ""),
    ("another tool in a header with underscores", GOOD, {**JSON, "Mcp_Name": "delete_issue"}, ""),
    ("two tools in headers", GOOD, [*JSON.items(), ("Mcp-Name", "get_issue"), ("Mcp-Name", "delete_issue")], ""),
    ("another method in the header", call("get_issue"), {**JSON, "Mcp-Method": "resources/read"}, ""),
    ("a tool in the header of another message", call(method="tools/list"), {**JSON, "Mcp-Name": "delete_issue"}, ""),
    ("a minted header", GOOD, {**JSON, "Nango-Proxy-Mcp-Name": "delete_issue"}, ""),
    ("a minted coding", GOOD, {**JSON, "Nango-Proxy-Content-Encoding": "gzip"}, ""),
    ("another method", call("get_issue", method="resources/read"), None, ""),
    ("another method in other case", call("get_issue", method="TOOLS/CALL"), None, ""),
    ("a task", b'{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"name":"get_issue"}}', None, ""),
    ("a response beside a call", GOOD[:-1] + b',"result":{}}', None, ""),
    ("an error beside a call", GOOD[:-1] + b',"error":{"code":-1,"message":"x"}}', None, ""),
    ("a response beside a method", RESPONSE[:-1] + b',"method":"tools/call"}', None, ""),
    ("a response beside a method in capitals", RESPONSE[:-1] + b',"METHOD":"tools/call"}', None, ""),
    ("a response beside an escaped method", RESPONSE[:-1] + b',"\\u006dethod":"tools/call"}', None, ""),
    ("a response beside no method", RESPONSE[:-1] + b',"method":null}', None, ""),
    ("a response beside params", RESPONSE[:-1] + b',"params":{"name":"delete_issue"}}', None, ""),
    ("a response with result and error", RESPONSE[:-1] + b',"error":{"code":-1,"message":"x"}}', None, ""),
    ("a response with two results", RESPONSE[:-1] + b',"result":{}}', None, ""),
    ("a response with two results, once in capitals", RESPONSE[:-1] + b',"Result":{}}', None, ""),
    ("a response with two ids", RESPONSE[:-1] + b',"id":2}', None, ""),
    ("a response with its result in capitals", b'{"jsonrpc":"2.0","id":1,"RESULT":{}}', None, ""),
    ("a response without an id", b'{"jsonrpc":"2.0","result":{}}', None, ""),
    ("a response without a version", b'{"id":1,"result":{}}', None, ""),
    ("a response of another version", RESPONSE.replace(b"2.0", b"1.0"), None, ""),
    *(
        (f"a response with the id {entry}", b'{"jsonrpc":"2.0","id":%s,"result":{}}' % entry.encode(), None, "")
        for entry in (
            "null",
            "true",
            "1.5",
            "[1]",
            "{}",
        )
    ),
    *(
        (f"a response with the result {entry}", b'{"jsonrpc":"2.0","id":1,"result":%s}' % entry.encode(), None, "")
        for entry in (
            "null",
            '"x"',
            "[]",
            '{"__proto__":{"method":"tools/call"}}',
            '{"Name":"delete_issue"}',
        )
    ),
    ("an error that is a text", b'{"jsonrpc":"2.0","id":1,"error":"x"}', None, ""),
    ("a batch of responses", b"[" + RESPONSE + b"]", None, ""),
    ("a batch of a response and a call", b"[" + RESPONSE + b"," + EVIL + b"]", None, ""),
    ("a response and a call", RESPONSE + b"\n" + EVIL, None, ""),
    ("a response with a method in the header", RESPONSE, {**JSON, "Mcp-Method": "tools/call"}, ""),
    ("a response with a tool in the header", RESPONSE, {**JSON, "Mcp-Name": "get_issue"}, ""),
    ("a response with a method in the URL", RESPONSE, None, "?method=tools/call&name=delete_issue"),
    (
        "parameters by their place",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["delete_issue"]}',
        None,
        "",
    ),
    ("another version of JSON-RPC", GOOD.replace(b"2.0", b"1.0"), None, ""),
    ("no body", b"", None, ""),
    ("the method in the URL", GOOD, None, "?method=tools/call&name=delete_issue"),
    ("a tool in the URL", GOOD, None, "?x=1&name=delete_issue"),
    ("an encoded tool in the URL", GOOD, None, "?n%61me=delete_issue"),
    ("params in the URL", GOOD, None, "?params[name]=delete_issue"),
    ("another path", GOOD, None, "/"),
    ("an encoded path", GOOD, None, "/%2e%2e/mcp"),
    ("too large", GOOD.replace(b"{}", b'{"a":"' + b"x" * (1 << 20) + b'"}'), None, ""),
    ("another method by a header", GOOD, {**JSON, "X-HTTP-Method-Override": "PUT"}, ""),
    ("as a whole list", GOOD, {**JSON, "Gateway-Paginate": "all; cursor_path=a; cursor_name_in_request=b"}, ""),
)


async def test_no_tool_outside_the_rules_is_called(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS)
    assert len(MCP_WAYS) >= 40
    for name, body, headers, end in MCP_WAYS:
        status, response = await post(gateway, key, f"/mcp{end}", body, headers)
        assert status in {400, 403, 404, 413}, (name, status)
        assert response["error"]["code"], name
        assert gateway.provider.calls == [], name


def graphql_body(query: Any, **extra: Any) -> bytes:
    return json.dumps({"query": query, **extra}).encode()


DELETE = "mutation { issueDelete(id: 1) { success } }"
GRAPHQL_WAYS: tuple[tuple[str, bytes, Any, str], ...] = (
    ("another mutation", graphql_body(DELETE), None, ""),
    ("another field", graphql_body("{ users { id } }"), None, ""),
    ("one field more", graphql_body("{ viewer { id } users { id } }"), None, ""),
    ("under an alias", graphql_body("{ viewer: users { id } }"), None, ""),
    ("in a fragment", graphql_body("{ ...F } fragment F on Query { users { id } }"), None, ""),
    (
        "in a fragment of a fragment",
        graphql_body("{ ...F } fragment F on Query { ...G } fragment G on Query { users { id } }"),
        None,
        "",
    ),
    ("in a fragment without a name", graphql_body("{ viewer { id } ... on Query { users { id } } }"), None, ""),
    (
        "under a directive",
        graphql_body("query($x: Boolean!) { viewer { id } users @include(if: $x) { id } }"),
        None,
        "",
    ),
    ("behind the name of an operation", graphql_body("mutation viewer { issueDelete(id: 1) { success } }"), None, ""),
    ("a mutation's field in a query", graphql_body("{ commentCreate { id } }"), None, ""),
    ("a query's field in a mutation", graphql_body("mutation { viewer { id } }"), None, ""),
    ("a subscription", graphql_body("subscription { issues { id } }"), None, ""),
    ("the schema", graphql_body("{ __schema { types { name } } }"), None, ""),
    (
        "two operations",
        graphql_body("query A { viewer { id } } mutation B { issueDelete(id: 1) { success } }"),
        None,
        "",
    ),
    (
        "two operations, one chosen",
        graphql_body("query A { viewer { id } } " + DELETE.replace("{", "B {", 1), operationName="B"),
        None,
        "",
    ),
    ("another operation chosen", graphql_body("query A { viewer { id } }", operationName="B"), None, ""),
    ("a chosen operation without a name", graphql_body("{ viewer { id } }", operationName=""), None, ""),
    ("a batch", b"[" + graphql_body("{ viewer { id } }") + b"," + graphql_body(DELETE) + b"]", None, ""),
    ("the query twice", b'{"query":"{ viewer { id } }","query":"mutation { issueDelete { id } }"}', None, ""),
    (
        "the query twice, once in capitals",
        b'{"query":"{ viewer { id } }","Query":"mutation { issueDelete { id } }"}',
        None,
        "",
    ),
    (
        "a persisted query",
        graphql_body("{ viewer { id } }", extensions={"persistedQuery": {"version": 1, "sha256Hash": "0" * 64}}),
        None,
        "",
    ),
    ("a persisted query alone", b'{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}', None, ""),
    ("a stored document", graphql_body("{ viewer { id } }", documentId="evil"), None, ""),
    ("a stored query", graphql_body("{ viewer { id } }", id="evil"), None, ""),
    ("a stored query of Facebook", graphql_body("{ viewer { id } }", doc_id="1"), None, ""),
    ("a mutation beside the query", graphql_body("{ viewer { id } }", mutation=DELETE), None, ""),
    ("variables as a text", graphql_body("{ viewer { id } }", variables='{"a":1}'), None, ""),
    ("a query that is no text", graphql_body(["{ viewer { id } }", DELETE]), None, ""),
    ("the query in the URL", graphql_body("{ viewer { id } }"), None, "?query=mutation%7BissueDelete%7D"),
    ("the operation in the URL", graphql_body("query A { viewer { id } }"), None, "?operationName=B"),
    ("a document as its own type", DELETE.encode(), {"Content-Type": "application/graphql"}, ""),
    ("a form", b"query=mutation%7BissueDelete%7D", {"Content-Type": "application/x-www-form-urlencoded"}, ""),
    ("parts", b"--a\r\n\r\n--a--", {"Content-Type": "multipart/form-data; boundary=a"}, ""),
    ("compressed", gzip.compress(graphql_body(DELETE)), {**JSON, "Content-Encoding": "gzip"}, ""),
    ("a comment that another reader ends", graphql_body("{ viewer { id } # \u2028 users { id }\n }"), None, ""),
    ("a comment and a carriage return", graphql_body("{ viewer { id } # \r users { id }\n }"), None, ""),
    ("a block string", graphql_body('{ viewer(x: """ " ) { id } users(x: " """) { id } }'), None, ""),
    ("a quote that is not escaped", graphql_body('{ viewer(x: "\\\\") { id } users(x: "") { id } }'), None, ""),
    ("a definition beside it", graphql_body("{ viewer { id } } extend type Query { users: [User] }"), None, ""),
    ("a byte order mark in the document", graphql_body("\ufeff{ viewer { id } }"), None, ""),
    ("a mutation behind a bracket too many", graphql_body("{ viewer { id } } } " + DELETE), None, ""),
    ("an MCP call", call("get_issue"), None, ""),
)


async def test_no_graphql_field_outside_the_rules_is_requested(gateway: AgentGateway) -> None:
    key = await gateway.key(QUERY, MUTATION)
    assert len(GRAPHQL_WAYS) >= 40
    for name, body, headers, end in GRAPHQL_WAYS:
        status, response = await post(gateway, key, f"/graphql{end}", body, headers)
        assert status in {400, 403, 404, 413}, (name, status)
        assert response["error"]["code"], name
        assert gateway.provider.calls == [], name


async def test_keys_allow_their_tools_and_the_exact_bytes_are_sent(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS, QUERY, MUTATION)
    spaced = json.dumps(json.loads(GOOD), indent=3).encode()
    for path, body, headers in (
        ("/mcp", GOOD, None),
        (
            "/mcp",
            spaced,
            {"Content-Type": 'Application/JSON ; charset="UTF-8"', "Mcp-Name": "get_issue", "Mcp-Method": "tools/call"},
        ),
        (
            "/mcp?project=1",
            call("search_é".replace("é", "x")),
            {**JSON, "Mcp-Name": "=?base64?" + base64.b64encode(b"search_x").decode() + "?="},
        ),
        (
            "/mcp",
            call(
                "get_issue", params={"name": "get_issue", "arguments": {"Name": 1, "params": []}, "_meta": {"x/y": 1}}
            ),
            None,
        ),
        ("/mcp", GOOD.replace(b"{}", b'{"a":"' + b"x" * 500_000 + b'"}'), None),
        ("/mcp", RESPONSE, None),
        (
            "/mcp",
            b'{"jsonrpc":"2.0","id":"7-a","result":{"action":"accept","content":{"name":"x"},"_meta":{"x/y":1}}}',
            None,
        ),
        ("/mcp", b'{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}', None),
        (
            "/graphql",
            graphql_body(
                "query A($n: Int) { viewer { id } issues(first: $n) { id } }", operationName="A", variables={"n": 1}
            ),
            None,
        ),
        (
            "/graphql",
            graphql_body('mutation { commentCreate(body: "mutation { issueDelete }") { id } }', extensions={}),
            None,
        ),
    ):
        status, _ = await post(gateway, key, path, body, headers)
        assert status == 200, (path, body[:80])
        assert gateway.provider.calls.pop()[3] == body
        assert gateway.provider.calls == []


async def test_a_refusal_names_the_tool_and_the_rules(gateway: AgentGateway) -> None:
    status, response = await post(gateway, await gateway.key(TOOLS), "/mcp", EVIL)
    error = response["error"]
    assert (status, error["code"], error["payload"]["rule"]) == (403, "forbidden", "body")
    assert "it calls the tool 'delete_issue'" in error["message"]
    assert error["payload"]["allowed"] == [TOOLS]


async def test_many_names_are_compared_with_many_patterns_away_from_the_event_loop(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison must not block the event loop. A body of 1 KB blocked it for 60 ms with one key, and for 300 ms
    with a chain of five keys.
    """
    patterns = ",".join(f"*0{number}*1" for number in range(60))
    key = await gateway.key(*(f"POST /base/v1/graphql with query {patterns},{n}*" for n in range(40)), QUERY)
    threads: list[threading.Thread] = []
    compare = Policy.decision

    def decision(policy: Policy, request: SentRequest) -> Breach | str:
        if request.body is not None:
            threads.append(threading.current_thread())
        return compare(policy, request)

    monkeypatch.setattr(Policy, "decision", decision)
    for document, expected in (("{ viewer issues }", 200), (f"{{ {' '.join(f'f{n}' for n in range(100))} }}", 403)):
        status, _ = await post(gateway, key, "/graphql", graphql_body(document))
        assert status == expected
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_chunked_body_and_body_with_expect_100_continue_are_checked(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS)

    async def pieces(body: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(body), 7):
            yield body[at : at + 7]

    for body, expected in ((GOOD, 200), (EVIL, 403)):
        headers = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1", **JSON}
        for more in ({}, {"Expect": "100-continue"}):
            url = f"{gateway.running.url}/proxy/mcp"
            expects = "Expect" in more
            async with gateway.running.http.post(
                url, data=pieces(body), headers=headers, expect100=expects
            ) as response:
                assert response.status == expected
    assert [call[3] for call in gateway.provider.calls] == [GOOD, GOOD]


async def test_retry_sends_the_bytes_that_were_checked(gateway: AgentGateway) -> None:
    key, seen = await gateway.key(TOOLS), []
    long = GOOD.replace(b"{}", b'{"a":"' + b"x" * 200_000 + b'"}')

    async def fails(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response(status=503 if len(seen) == 1 else 200)

    gateway.provider.responding = fails
    headers = {**JSON, "Retries": "1", "Retry-On": "503", "Idempotency-Key": "k"}
    status, _ = await post(gateway, key, "/mcp", long, headers)
    assert status == 200
    assert seen == [long, long]


async def test_the_list_of_tools_has_those_that_can_be_called(gateway: AgentGateway) -> None:
    tools = [{"name": name} for name in ("get_issue", "delete_issue", "search_users")]
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
    responses = {
        "json": web.Response(text=listed, content_type="application/json", headers={"ETag": "x"}),
        "gzip": web.Response(
            body=gzip.compress(listed.encode()), content_type="application/json", headers={"Content-Encoding": "gzip"}
        ),
        "events": web.Response(text=f"event: message\ndata: {listed}\n\n", content_type="text/event-stream"),
    }
    key, plain = await gateway.key(TOOLS), await gateway.key("POST /base/v1/mcp")
    for kind, response in responses.items():

        async def responding(_request: web.Request, response: web.Response = response) -> web.StreamResponse:
            return web.Response(
                body=response.body, headers={k: v for k, v in response.headers.items() if k != "Content-Length"}
            )

        gateway.provider.responding = responding
        for item, expected in (
            (key, ["get_issue", "search_users"]),
            (plain, ["get_issue", "delete_issue", "search_users"]),
        ):
            headers = {"Authorization": f"Bearer {item}", "Provider-Config-Key": "acme", "Connection-Id": "c1", **JSON}
            url, body = f"{gateway.running.url}/proxy/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
            async with gateway.running.http.post(url, data=body, headers=headers) as got:
                raw = await got.read()
                text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
                assert got.status == 200, kind
            found = json.loads(text.partition("data: ")[2] or text)
            assert [tool["name"] for tool in found["result"]["tools"]] == expected, kind


async def test_an_ambiguous_tool_list_is_not_passed_on(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    for text, headers in (
        ('{"result":{"tools":[],"tools":[{"name":"delete_issue"}]}}', JSON),
        ("delete_issue", {"Content-Type": "text/plain"}),
        ("delete_issue", {**JSON, "Content-Encoding": "unknown"}),
    ):

        async def responding(_: web.Request, text: str = text, headers: dict[str, str] = headers) -> web.Response:
            return web.Response(body=text.encode(), headers=headers)

        gateway.provider.responding = responding
        status, response = await post(gateway, key, "/mcp", body)
        assert (status, response["error"]["code"]) == (502, "upstream_protocol"), text


async def test_dry_run_gets_the_same_decision_as_the_call(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS)
    headers = {**JSON, "Gateway-Dry-Run": "true"}
    assert [(await post(gateway, key, "/mcp", body, headers))[0] for body in (GOOD, EVIL)] == [200, 403]
    assert gateway.provider.calls == []


async def test_the_mcp_endpoint_offers_graphql_but_not_the_tools_of_an_mcp_server(gateway: AgentGateway) -> None:
    key = await gateway.key(TOOLS, f"{QUERY} as ask")
    assert list(await gateway.tools(key)) == ["ask"]
    assert (await gateway.call(key, "ask", {"body": {"query": "{ viewer { id } }"}}))["isError"] is False
    assert (await gateway.call(key, "ask", {"body": {"query": "{ users { id } }"}}))["isError"] is True
    assert (await gateway.call(key, "call_api", {"method": "POST", "path": "/mcp", "body": json.loads(EVIL)}))[
        "isError"
    ] is True
    assert (await gateway.call(key, "call_api", {"method": "POST", "path": "/mcp", "body": json.loads(GOOD)}))[
        "isError"
    ] is False
    assert len(gateway.provider.calls) == 2
