"""MCP messages on the fast path: the same bytes and the same call records as through the middleware chain."""

import asyncio
import gc
import json
import re
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.mcp import mcp_messages as mcp
from gateway.mcp import tool_run
from gateway.records.proxied_call import ExchangeRecord
from gateway.server import fast_path
from gateway.server.fast_message import FastMessage, McpFastPath
from gateway.server.in_process_exchange import InProcessClient
from tests.fakes.agent_gateway import AgentGateway, agent_gateway
from tests.fakes.held_texts import texts_in
from tests.fakes.patience import PATIENCE_S

RULES = ("GET /base/v1/issue/*", "POST /base/v1/issue")
RATE = {"rate": 1000}
KEY, CAPABILITY, SCOPELESS, DECLARED = "@KEY@", "@CAPABILITY@", "@SCOPELESS@", "@DECLARED@"
STRANGER = "gw_sk_" + "x" * 49
VARYING = re.compile(
    rb"(Date|Gateway-Request-Id): [^\r]*|\"(request_id|retry_at)\": ?\"[^\"]*\"|gateway://[^\"]*|X-RateLimit-Reset: [0-9]*"
)


def message(method: str, request_id: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


CALL = message("tools/call", name="get_issue", arguments={"issue": "A-1"})
POSTED = message("tools/call", name="post_issue", arguments={"body": {"text": "hé"}})
MODERN = message(
    "tools/list", _meta={mcp.META_VERSION: mcp.MODERN, mcp.META_CAPABILITIES: {}, "traceparent": "00-" + "a" * 32}
)
TRACED = (
    "traceparent: 00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    "tracestate: a=1",
    "baggage: b=1",
    "sentry-trace: c-1",
)
META = {mcp.META_VERSION: mcp.MODERN, mcp.META_CAPABILITIES: {}}
MODERN_CALL = message("tools/call", name="post_issue", arguments={"body": {"text": "a"}}, _meta=META)
SELECTED = message("tools/call", name="get_issue", arguments={"issue": "A-1", "select": "{sent: method}"})
UNSELECTED = message("tools/call", name="get_issue", arguments={"issue": "A-1", "select": "{"})
RETRIED = message("tools/call", name="get_issue", arguments={"issue": "A-1"}, requestState="unknown")
USUAL = ("Content-Type: application/json", "Accept: application/json", "MCP-Protocol-Version: 2025-06-18")


def head(*lines: str, path: str = "/mcp", key: str = KEY, method: str = "POST", version: str = "HTTP/1.1") -> str:
    head_lines = (
        f"{method} {path} {version}",
        "Host: gateway.example:1",
        f"Authorization: Bearer {key}" if key else "",
        *lines,
    )
    return "\r\n".join(line for line in head_lines if line)


def whole_message(body: bytes, *lines: str, **options: str) -> bytes:
    """Return a message with its length, the usual header lines, and `lines`."""
    return f"{head(*USUAL, *lines, f'Content-Length: {len(body)}', **options)}\r\n\r\n".encode() + body


def chunked(body: bytes) -> bytes:
    return f"{head(*USUAL, 'Transfer-Encoding: chunked')}\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


# `FAST`: messages that stay on the fast path. `CHAIN`: messages that the middleware chain must handle.
FAST = {
    "call": whole_message(CALL),
    "post": whole_message(POSTED),
    "modern call": whole_message(MODERN_CALL, "Mcp-Method: tools/call", "Mcp-Name: post_issue").replace(
        b"2025-06-18", mcp.MODERN.encode()
    ),
    "modern call without headers": whole_message(MODERN_CALL).replace(b"2025-06-18", mcp.MODERN.encode()),
    "selected": whole_message(SELECTED),
    "not selectable": whole_message(UNSELECTED),
    "unknown state": whole_message(RETRIED),
    "list": whole_message(message("tools/list")),
    "initialize": whole_message(message("initialize", protocolVersion="2025-11-25", capabilities={})),
    "ping": whole_message(message("ping", "a text")),
    "notification": whole_message(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'),
    "modern": whole_message(MODERN, "Mcp-Method: tools/list", "X-Ignored: 1").replace(
        b"2025-06-18", mcp.MODERN.encode()
    ),
    "unknown tool": whole_message(message("tools/call", name="nobody", arguments={})),
    "unfit arguments": whole_message(message("tools/call", name="get_issue", arguments={"other": 1})),
    "refused by a rule": whole_message(
        message("tools/call", name="call_api", arguments={"method": "DELETE", "path": "/x"})
    ),
    "unknown method": whole_message(message("tools/forget")),
    "no JSON": whole_message(b"{"),
    "not UTF-8": whole_message(b"\xff\xfe"),
    "twice a member": whole_message(b'{"id": 1, "id": 2}'),
    "a batch": whole_message(b"[]"),
    "header mismatch": whole_message(MODERN, "Mcp-Method: tools/call").replace(b"2025-06-18", mcp.MODERN.encode()),
    "twice a header": whole_message(CALL, "MCP-Protocol-Version: 2025-06-18"),
    "own name": whole_message(CALL, "X-Request-Id: mine-1", "traceparent: 00-" + "1" * 32 + "-" + "2" * 16 + "-01"),
    "an unfit name": whole_message(CALL, "X-Request-Id: not fit"),
    "agent's name": whole_message(CALL, "User-Agent: agent/1 é"),
    "fields of a trace": whole_message(CALL, *TRACED, "tracestate: a=2"),
    "a key in another field": whole_message(CALL, f"X-Copy: {KEY}", f"tracestate: a={KEY}", f"User-Agent: {KEY}"),
    "no content type": f"{head(f'Content-Length: {len(CALL)}')}\r\n\r\n".encode() + CALL,
    "capability": whole_message(CALL, path="/c/@CAPABILITY@/mcp", key=""),
    "keep-alive": whole_message(CALL, "Connection: keep-alive"),
    "odd spaces": whole_message(CALL).replace(b"Accept: ", b"Accept:\t "),
}
CHAIN = {
    "close": whole_message(CALL, "Connection: close"),
    "chunked": chunked(CALL),
    "version 1.0": whole_message(CALL, version="HTTP/1.0"),
    "a query": whole_message(CALL, path="/mcp?x=1"),
    "options": whole_message(b"", method="OPTIONS"),
    "get": whole_message(b"", method="GET"),
    "no body": head(*USUAL, "Content-Length: 0").encode() + b"\r\n\r\n",
    "no length": head(*USUAL).encode() + b"\r\n\r\n",
    "large": whole_message(b" " * 70_000 + CALL),
    "too large": whole_message(b" " * ((1 << 20) + 1)),
    "another type": whole_message(CALL).replace(b"application/json", b"text/plain", 1),
    "takes no JSON": whole_message(CALL).replace(b"Accept: application/json", b"Accept: text/event-stream"),
    "an origin": whole_message(CALL, "Origin: https://elsewhere.example"),
    "own origin": whole_message(CALL, "Origin: http://gateway.example:1"),
    "no key": whole_message(CALL, key=""),
    "a stranger": whole_message(CALL, key=STRANGER),
    "two keys": whole_message(CALL, "Authorization: Bearer other"),
    "two hosts": whole_message(CALL, "Host: other"),
    "two lengths": whole_message(CALL, "Content-Length: 1"),
    "two types": whole_message(CALL, "Content-Type: text/plain"),
    "two names of an agent": whole_message(CALL, "User-Agent: a", "user-agent: b"),
    "both framings": whole_message(CALL, "Transfer-Encoding: chunked"),
    "a key at a capability URL": whole_message(CALL, path="/c/@CAPABILITY@/mcp"),
    "a capability as a key": whole_message(CALL, key=CAPABILITY),
    "no scope": whole_message(CALL, key=SCOPELESS),
    "a key of gateway.yaml": whole_message(CALL, key=DECLARED),
    "expects": whole_message(CALL, "Expect: 100-continue"),
    "an unknown capability URL": whole_message(CALL, path="/c/gw_cap_" + "y" * 49 + "/mcp", key=""),
    "a folded line": whole_message(CALL, "X-Folded: a\r\n b"),
    "a control byte": whole_message(CALL, "X-Odd: a\x01b"),
}


class MessageSender:
    """Sends messages to a gateway with or without fast path, each on a new connection."""

    def __init__(self, gateway: AgentGateway, key: str, capability: str, scopeless: str) -> None:
        self.gateway = gateway
        declared = gateway.running.headers["Authorization"].removeprefix("Bearer ")
        self.names = {CAPABILITY: capability, SCOPELESS: scopeless, KEY: key, DECLARED: declared}
        self.noted: list[ExchangeRecord] = []
        gateway.running.runtime.call_queue.record = self.noted.append  # type: ignore[method-assign]

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = int(self.gateway.running.url.rpartition(":")[2])
        return await asyncio.open_connection("127.0.0.1", port)

    def with_keys(self, data: bytes) -> bytes:
        for name, value in self.names.items():
            data = data.replace(name.encode(), value.encode())
        return data

    async def responses(self, *pieces: bytes, count: int = 1) -> list[bytes]:
        """Send `pieces` one after another and return `count` responses. The gateway reads each piece before the next is
        sent.
        """
        reader, writer = await self.open()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            return [await response(reader) for _ in range(count)]
        finally:
            writer.close()

    async def seen(self, data: bytes) -> tuple[list[bytes], list[tuple[object, ...]]]:
        """Send `data`. Return the responses without the parts that vary, and the call records."""
        self.noted.clear()
        self.gateway.provider.calls.clear()
        responses = await self.responses(self.with_keys(data))
        return [VARYING.sub(b"-", item) for item in responses], [comparable_record(record) for record in self.noted]


async def response(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        start = await reader.readuntil(b"\r\n\r\n")
        if start.startswith(b"HTTP/1.1 100"):
            return start + await response(reader)
        length = re.search(rb"\r\ncontent-length: (\d+)", start, re.IGNORECASE)
        return start + (await reader.readexactly(int(length[1])) if length is not None else b"")


def comparable_record(record: ExchangeRecord) -> tuple[object, ...]:
    request_id = record.request_id if record.request_id.startswith("mine-") else ""
    # the digest differs, because each gateway has another key
    path = re.sub("^/c/[0-9a-f]{8}", "/c/digest", record.path)
    place = (record.environment, record.integration_id, record.connection_id, record.method, record.host, path)
    times = (record.gateway_ms is None, record.token_ms, record.upstream_ms is None)
    return (
        request_id,
        *place,
        *times,
        record.status,
        # with 413, the rest of the body is not read, so the number of bytes varies
        record.bytes_in if record.status != 413 else None,
        record.bytes_out if record.path.endswith("/mcp") else None,
        record.error_code,
        record.key_id,
        record.traceparent,
        record.rule,
        record.attempts,
    )


async def message_sender(gateway: AgentGateway) -> MessageSender:
    made = []
    for options in (
        {"limits": {"rules": list(RULES), **RATE}},
        {"kind": "capability", "limits": {"rules": list(RULES)}},
        {"scopes": ["environment:connections:list"]},
    ):
        limits = {"connections": ["acme/c1"], **options.pop("limits", {})}  # type: ignore[dict-item]
        body = {"display_name": f"agent {len(made)}", "limits": limits, **options}
        key = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=200)
        made.append(key["data"]["secret"])
    sender = MessageSender(gateway, *made)
    await sender.seen(whole_message(CALL))
    await sender.seen(whole_message(CALL, key=SCOPELESS))
    await sender.seen(whole_message(CALL, path="/c/@CAPABILITY@/mcp", key=""))
    return sender


@pytest.fixture
async def fast(tmp_path: Path) -> AsyncIterator[MessageSender]:
    (tmp_path / "fast").mkdir()
    async with agent_gateway(tmp_path / "fast") as gateway:
        made = await message_sender(gateway)
        async with asyncio.timeout(PATIENCE_S):
            while not gateway.running.fast_path.mcp_fast_path.taken:  # the middleware chain must look up the key first
                await made.responses(made.with_keys(whole_message(message("ping"))))
        made.noted.clear()
        yield made


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[MessageSender]:
    (tmp_path / "chain").mkdir()
    async with agent_gateway(tmp_path / "chain", fast_path=False) as gateway:
        yield await message_sender(gateway)


async def test_every_message_is_processed_and_recorded_as_by_the_chain(
    fast: MessageSender, chain: MessageSender
) -> None:
    differing = {}
    mcp_fast_path = fast.gateway.running.fast_path.mcp_fast_path
    for name, data in (FAST | CHAIN).items():
        before = mcp_fast_path.taken - mcp_fast_path.handed_back
        found, expected = await fast.seen(data), await chain.seen(data)
        if found != expected:
            differing[name] = (found, expected)
        if name in CHAIN:
            assert mcp_fast_path.taken - mcp_fast_path.handed_back == before, name
            continue
        async with asyncio.timeout(PATIENCE_S):
            # after a change, the key is loaded again in the middleware chain
            while mcp_fast_path.taken - mcp_fast_path.handed_back == before:
                await fast.seen(data)
    assert differing == {}


async def received_fields(request: web.Request) -> web.StreamResponse:
    """Return the header fields that the provider received."""
    return web.json_response([f"{name}: {value}" for name, value in request.headers.items() if name != "Host"])


async def compare(fast: MessageSender, chain: MessageSender, data: bytes) -> None:
    """Assert that both ways give the same responses, call records and calls to the provider."""
    mcp_fast_path = fast.gateway.running.fast_path.mcp_fast_path
    expected = await chain.seen(data), chain.gateway.provider.calls
    before = mcp_fast_path.taken
    async with asyncio.timeout(PATIENCE_S):
        while mcp_fast_path.taken == before:  # after a change, the key is loaded again in the middleware chain
            found = await fast.seen(data), fast.gateway.provider.calls
    assert found == expected


async def test_a_remembered_head_changes_nothing_but_length_and_trace(
    fast: MessageSender, chain: MessageSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway remembers the head of a message when the head arrives for the second time. It also remembers heads of
    calls.
    """
    monkeypatch.setattr(fast_path, "FORGET_AFTER_S", 3600.0)
    mcp_fast_path, call_heads = fast.gateway.running.fast_path.mcp_fast_path, fast.gateway.running.fast_path.call_heads

    for number in range(6):
        params: dict[str, Any] = {"name": "get_issue", "arguments": {"issue": f"A-{number}"}}
        if number % 2:
            params = {"name": "post_issue", "arguments": {"body": {"n": "x" * number}}}
        if number == 4:
            params["_meta"] = {"traceparent": f"00-{9:032x}-{9:016x}-00"}
        trace = "of another form" if number == 3 else f"00-{number + 1:032x}-{number + 1:016x}-01"
        for path, key in (("/mcp", KEY), ("/c/@CAPABILITY@/mcp", "")):
            data = whole_message(message("tools/call", number, **params), f"traceparent: {trace}", path=path, key=key)
            await compare(fast, chain, data)
    for _ in range(3):  # this spelling is not recognized as the trace line or the length line
        spelled = whole_message(CALL, f"TraceParent: 00-{1:032x}-{1:016x}-01").replace(
            b"Content-Length", b"CONTENT-LENGTH"
        )
        await compare(fast, chain, spelled)
    for number in (1, 1, 1, 2):  # a name that is similar to `traceparent`
        trace = f"00-{number:032x}-{number:016x}-01"
        similar = whole_message(CALL, f"Craceparent: {trace}", f"TraceParent: 00-{1:032x}-{1:016x}-01")
        await compare(fast, chain, similar)
    for number in range(6):  # in this spelling, the line belongs to the remembered head
        meta = {"_meta": {"traceparent": f"00-{8:032x}-{8:016x}-01"}} if number % 2 else {}
        call = message("tools/call", name="get_issue", arguments={"issue": "A-1"}, **meta)
        await compare(fast, chain, whole_message(call, "TraceParent: a\tb"))
    assert fast.names[KEY] not in texts_in(mcp_fast_path.heads.known, call_heads.known)
    assert len(call_heads) >= 4  # heads with and without a body, for the key and for the capability


@pytest.mark.parametrize("path", ["/mcp", "/c/@CAPABILITY@/mcp"])
async def test_remembered_heads_never_mix_values_of_different_messages(
    fast: MessageSender, chain: MessageSender, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(fast_path, "FORGET_AFTER_S", 3600.0)
    for sender in (fast, chain):
        sender.gateway.provider.responding = received_fields
    heads, of_calls = fast.gateway.running.fast_path.mcp_fast_path.heads, fast.gateway.running.fast_path.call_heads
    heads.forget()
    of_calls.forget()
    key = KEY if path == "/mcp" else ""
    secret = KEY if key else CAPABILITY

    def numbered(number: int, *more: str, state: str = "", named: str = "", agent: str = "agent/1") -> bytes:
        params = {"name": "get_issue", "arguments": {"issue": f"A-{number}"}}
        own = (
            f"traceparent: 00-{number + 1:032x}-{number + 1:016x}-01",
            f"tracestate: {state or f'a={number}'}",
            f"baggage: user={number}",
            f"sentry-trace: {number:032x}-{number:016x}-1",
            f"x-datadog-trace-id: {number}",
            f"X-Request-Id: mine-{number}",
            "Mcp-Method: tools/call",
            f"mcp-name: {named or 'get_issue'}",
            f"User-Agent: {agent}",
        )
        return whole_message(message("tools/call", number, **params), *own, *more, path=path, key=key)

    for number in range(5):
        await compare(fast, chain, numbered(number))
    assert (len(heads), len(of_calls)) == (1, 1)
    (known,) = heads.known.values()
    await compare(fast, chain, numbered(5, state=f"a={secret}"))  # the provider does not get this line
    await compare(fast, chain, numbered(6, named="=?base64?Z2V0X2lzc3Vl?="))
    await compare(fast, chain, numbered(7, named="another"))
    assert b"must have the same value" in (await fast.seen(numbered(7, named="another")))[0][0]
    await compare(fast, chain, numbered(8, state="a=8\tb"))
    assert list(heads.known.values()) == [known]
    for number in range(9, 12):
        for more in ("tracestate: b=1", "mcp-name: get_issue", f"X-Copy: {secret}"):
            await compare(fast, chain, numbered(number, more))
        await compare(fast, chain, numbered(number, agent=secret))
    assert len(heads) == 3  # all but those with the key
    token = fast.names[secret]
    assert token not in texts_in(heads.known, of_calls.known).replace(f"/c/{token}", "")


@pytest.mark.parametrize("path", ["/mcp", "/c/@CAPABILITY@/mcp"])
async def test_a_tracestate_in_a_body_cannot_forward_the_key(
    fast: MessageSender, chain: MessageSender, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(fast_path, "FORGET_AFTER_S", 3600.0)
    for sender in (fast, chain):
        sender.gateway.provider.responding = received_fields
    key = KEY if path == "/mcp" else ""
    secret = KEY if key else CAPABILITY

    def numbered(number: int, state: str) -> bytes:
        meta = {"traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01", "tracestate": state}
        params = {"name": "get_issue", "arguments": {"issue": f"A-{number}"}, "_meta": meta}
        return whole_message(message("tools/call", number, **params), path=path, key=key)

    for number in range(4):
        await compare(fast, chain, numbered(number, f"a={number}"))
    taken = fast.gateway.running.fast_path.taken
    for way in (fast, chain):
        (result,), _ = await way.seen(numbered(4, f"a={way.names[secret]}"))
        assert b"traceparent: 00-" in result
        assert b"tracestate" not in result
    assert fast.gateway.running.fast_path.taken == taken + 1


async def used_key(fast: MessageSender) -> str:
    """Make calls with a new key, so that the key and the heads of its messages are in memory. Return the key's path."""
    minted = await fast.gateway.running.json(
        "POST",
        "/environment/api-keys",
        json={"display_name": "brief", "limits": {"connections": ["acme/c1"], "rules": list(RULES)}},
        expect=200,
    )
    fast.names = {KEY: minted["data"]["secret"]}
    for _ in range(4):
        (found,) = await fast.responses(fast.with_keys(whole_message(CALL)))
        assert found.startswith(b"HTTP/1.1 200 ")
    return f"/environment/api-keys/{minted['data']['id']}"


async def begin_incomplete(
    fast: MessageSender, data: bytes, missing: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send `data` without its last bytes `missing` on a new connection, and return the connection when the fast path
    has begun to handle the message.
    """
    mcp_fast_path = fast.gateway.running.fast_path.mcp_fast_path
    async with asyncio.timeout(PATIENCE_S):
        while True:
            before = mcp_fast_path.taken
            reader, writer = await fast.open()
            writer.write(data.removesuffix(missing))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    while mcp_fast_path.taken == before:
                        await asyncio.sleep(0.01)
            if mcp_fast_path.taken > before:
                return reader, writer
            # after a change, the key is loaded again in the middleware chain
            writer.write(missing)
            await response(reader)
            writer.close()


async def test_a_key_that_is_revoked_before_the_end_of_the_body_makes_no_call(fast: MessageSender) -> None:
    key = await used_key(fast)
    data = fast.with_keys(whole_message(CALL))
    reader, writer = await begin_incomplete(fast, data, data[-10:])
    await fast.gateway.running.json("DELETE", key, expect=200)
    fast.gateway.provider.calls.clear()
    writer.write(data[-10:])
    assert b'"isError":false' not in await response(reader)
    writer.close()
    assert fast.gateway.provider.calls == []


async def test_a_remembered_head_opens_nothing_once_its_key_is_revoked(fast: MessageSender) -> None:
    await fast.gateway.running.json("DELETE", await used_key(fast), expect=200)
    fast.gateway.provider.calls.clear()
    (found,) = await fast.responses(fast.with_keys(whole_message(CALL)))
    assert found.startswith(b"HTTP/1.1 401 ")
    assert fast.gateway.provider.calls == []


async def test_a_message_may_come_in_pieces_of_any_size(fast: MessageSender, chain: MessageSender) -> None:
    data = fast.with_keys(whole_message(POSTED))
    expected = (await chain.seen(whole_message(POSTED)))[0]
    for at in range(1, len(data)):
        responses = await fast.responses(data[:at], data[at:])
        assert [VARYING.sub(b"-", item) for item in responses] == expected, at
    responses = await fast.responses(*(data[at : at + 1] for at in range(len(data))))
    assert [VARYING.sub(b"-", item) for item in responses] == expected


async def test_pipelined_messages_get_responses_in_order(fast: MessageSender) -> None:
    bodies = [message("ping", number) for number in range(5)]
    data = fast.with_keys(b"".join(whole_message(body) for body in bodies))
    responses = await fast.responses(data, count=5)
    assert [json.loads(item.partition(b"\r\n\r\n")[2])["id"] for item in responses] == list(range(5))


async def test_an_exceeded_rate_is_refused_as_by_the_middleware_chain(
    fast: MessageSender, chain: MessageSender
) -> None:
    seen = []
    for sender in (fast, chain):
        key = await sender.gateway.key(*RULES, limits={"rate": 3})
        sender.names = {KEY: key}
        seen.append(
            [await sender.seen(whole_message(data)) for data in (CALL, CALL, message("ping"), message("ping"), CALL)]
        )
    masked = json.loads(re.sub(r'"key_id": \d+', "", json.dumps([[str(item) for item in sender] for sender in seen])))
    assert re.sub(r"in \d+ s|Retry-After: \d+", "", str(masked[0])) == re.sub(
        r"in \d+ s|Retry-After: \d+", "", str(masked[1])
    )
    assert b"429" in seen[0][3][0][0]


async def test_disconnect_of_an_agent_ends_its_call_and_is_recorded(fast: MessageSender) -> None:
    request_arrived, silent = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        request_arrived.set()
        await silent.wait()
        return web.Response()

    fast.gateway.provider.responding = wait
    _, writer = await fast.open()
    fast.noted.clear()
    writer.write(fast.with_keys(whole_message(CALL)))
    async with asyncio.timeout(PATIENCE_S):
        await request_arrived.wait()
        writer.close()
        while len(fast.noted) < 2:
            await asyncio.sleep(0.01)
    silent.set()
    ended = [(record.path, record.status, record.error_code) for record in fast.noted]
    assert ended == [("/issue/A-1", 499, "client_left"), ("/mcp", 499, "client_left")]


class HeldCall:
    """A call without a task that waits for the provider. The provider responds after `released` is set."""

    def __init__(self, fast: MessageSender, monkeypatch: pytest.MonkeyPatch) -> None:
        self.released = asyncio.Event()
        self._fast = fast
        self._asked = asyncio.Event()
        self._started: list[FastMessage] = []
        start_message = McpFastPath.start_message

        def starting(*of_message: Any) -> Any:
            started = start_message(*of_message)
            if started is not None:
                self._started.append(started[0])
            return started

        monkeypatch.setattr(McpFastPath, "start_message", starting)

    async def _wait(self, _: web.Request) -> web.StreamResponse:
        self._asked.set()
        await self.released.wait()
        return web.json_response({"a": 1})

    async def sent(self) -> tuple[FastMessage, asyncio.StreamReader, asyncio.StreamWriter]:
        """Send the call. Return its message and the connection.

        The first call gets a task, because not each part of it is in memory yet. On a busy machine, a later one can too.
        """
        fast, started = self._fast, self._started
        fast.gateway.provider.responding = self._wait
        async with asyncio.timeout(PATIENCE_S):
            while True:
                started.clear()
                fast.gateway.provider.calls.clear()
                fast.noted.clear()
                self._asked.clear()
                reader, writer = await fast.open()
                writer.write(fast.with_keys(whole_message(CALL)))
                await self._asked.wait()
                if started and started[0].task is None:
                    return started.pop(), reader, writer
                self.released.set()
                await response(reader)
                writer.close()
                self.released.clear()


async def test_a_call_needs_no_task_until_it_takes_long_and_is_sent_once(
    fast: MessageSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = HeldCall(fast, monkeypatch)
    one, reader, writer = await call.sent()
    tasks = [one.task]
    one.enforce_time_limits(0.0)
    tasks.append(one.task)
    assert [task is None for task in tasks] == [True, False]
    call.released.set()
    assert b'"structuredContent":{"a":1}' in await response(reader)
    writer.close()
    assert len(fast.gateway.provider.calls) == 1
    assert [(one.path, one.status) for one in fast.noted] == [("/issue/A-1", 200), ("/mcp", 200)]


@pytest.mark.parametrize("ticks", [0, 1])
async def test_disconnect_of_an_agent_before_the_task_begins_is_recorded(
    fast: MessageSender, monkeypatch: pytest.MonkeyPatch, ticks: int
) -> None:
    call = HeldCall(fast, monkeypatch)
    one, _, writer = await call.sent()
    for _ in range(ticks):
        one.enforce_time_limits(0.0)
    one.caller_left(stopped=False)
    call.released.set()
    ended = [("/issue/A-1", 499, "client_left"), ("/mcp", 499, "client_left")]
    assert [(one.path, one.status, one.error_code) for one in fast.noted] == ended
    assert fast.gateway.running.fast_path.write_batch.in_flight == 0
    writer.close()
    await writer.wait_closed()
    assert len(fast.noted) == len(ended)


async def test_a_message_creates_no_garbage_cycles(fast: MessageSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of a message refer to each other. If the gateway did not release them, the garbage collector would
    take at least 5 % of the CPU.
    """
    call = HeldCall(fast, monkeypatch)
    one, reader, writer = await call.sent()
    assert isinstance(one.call, InProcessClient)
    objects: list[weakref.ref[Any]] = [weakref.ref(one), weakref.ref(one.call)]
    del one
    gc.disable()
    try:
        call.released.set()
        await response(reader)
        assert [each() for each in objects] == [None, None]
    finally:
        gc.enable()
        writer.close()


async def test_disconnect_of_an_agent_within_its_message_is_recorded(fast: MessageSender, chain: MessageSender) -> None:
    seen = []
    for sender in (fast, chain):
        # the middleware chain asks for the body after it has found the key
        expects = () if sender is fast else ("Expect: 100-continue",)
        data = sender.with_keys(whole_message(CALL, *expects))
        async with asyncio.timeout(PATIENCE_S):
            if sender is fast:
                _, writer = await begin_incomplete(fast, data, data[-10:])
            else:
                reader, writer = await chain.open()
                head_end = data.index(b"\r\n\r\n") + 4
                writer.write(data[:head_end])
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                writer.write(data[head_end:-10])
            sender.noted.clear()
            writer.close()
            while not sender.noted:
                await asyncio.sleep(0.01)
        seen.append([(record.path, record.status, record.error_code, record.key_id) for record in sender.noted])
    assert seen[0] == seen[1]
    assert seen[0][0][:3] == ("/mcp", 499, "client_left")


async def test_a_message_with_a_late_body_goes_to_the_chain(fast: MessageSender) -> None:
    data, gateway = fast.with_keys(whole_message(CALL)), fast.gateway.running.fast_path.mcp_fast_path
    before, handed_back = gateway.taken, gateway.handed_back
    async with asyncio.timeout(PATIENCE_S):
        while gateway.handed_back == handed_back:
            reader, writer = await fast.open()
            writer.write(data[:-10])
            with suppress(TimeoutError):  # if its key was not known yet, the chain took the message, so send another
                async with asyncio.timeout(3):
                    # the server checks late bodies about once a second
                    while gateway.taken == before or gateway.handed_back == handed_back:
                        await asyncio.sleep(0.01)
            writer.write(data[-10:])
            found = await response(reader)
            writer.close()
            assert found.startswith(b"HTTP/1.1 200 ")


async def test_a_failure_after_the_call_gets_exactly_one_response(
    fast: MessageSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(tool_run, "provider_result", broken)
    fast.gateway.provider.calls.clear()
    (found,) = await fast.responses(fast.with_keys(whole_message(CALL)))
    assert found.startswith(b"HTTP/1.1 500 ")
    assert b"Connection: close" in found
    assert b'"generic_error_support"' in found
    assert len(fast.gateway.provider.calls) == 1


async def test_the_chain_responds_to_a_failure_before_the_call(
    fast: MessageSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    gateway = fast.gateway.running.fast_path.mcp_fast_path
    handed_back = gateway.handed_back
    monkeypatch.setattr(tool_run, "call_of_rule", broken)
    async with asyncio.timeout(PATIENCE_S):
        while gateway.handed_back == handed_back:
            (found,) = await fast.responses(fast.with_keys(whole_message(CALL)))
            assert found.startswith(b"HTTP/1.1 500 ")
