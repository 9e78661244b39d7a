"""Calls of the MCP endpoint on the fast path: the same results, errors and call records as through the middleware
chain.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.egress.provider_exchange import ProviderResponse
from gateway.mcp.tool_provider_call import MAX_RESPONSE_BYTES
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import InProcessRequest
from gateway.records.proxied_call import ExchangeRecord
from gateway.server.in_process_exchange import InProcessClient, wait_for_response
from tests.fakes.agent_gateway import AgentGateway, agent_gateway, text_of
from tests.fakes.patience import PATIENCE_S

RULES = ("GET /base/v1/issue/*", "POST /base/v1/issue")
Responding = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[AgentGateway]:
    async with agent_gateway(tmp_path) as made:
        yield made


async def plain(_: web.Request) -> web.StreamResponse:
    return web.json_response({"items": [1, 2, 3]})


async def in_pieces(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for piece in (b'{"a": [1,', b" 2,", b" 3]}"):
        await response.write(piece)
    return response


async def compressed_response(_: web.Request) -> web.StreamResponse:
    body = gzip.compress(json.dumps({"text": "é" * 50}).encode())
    return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})


async def without_content(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


async def redirect_response(_: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "https://elsewhere.example/x"})


async def refusal_response(_: web.Request) -> web.StreamResponse:
    return web.json_response({"error": "no"}, status=422)


async def response_with_gateway_fields(_: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"code": "forbidden"}}, status=403, headers={"Gateway-Error": "forbidden"})


async def large(_: web.Request) -> web.StreamResponse:
    return web.Response(text="x" * (3 * INLINE_BYTES))


async def too_large(_: web.Request) -> web.StreamResponse:
    return web.Response(text="x" * (MAX_RESPONSE_BYTES + 1))


async def broken_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"x" * 10)
    assert request.transport is not None
    request.transport.close()
    return response


async def unauthorized_response(_: web.Request) -> web.StreamResponse:
    return web.json_response({"error": "token"}, status=401)


RESPONSES: list[Responding] = [
    plain,
    in_pieces,
    compressed_response,
    without_content,
    redirect_response,
    refusal_response,
    response_with_gateway_fields,
    large,
    too_large,
    broken_off,
    unauthorized_response,
]


async def on_fast_path(gateway: AgentGateway, key: str) -> int:
    """Call until three calls in a row take the fast path. Return the number of requests that have taken the fast path
    so far.

    The first calls go through the middleware chain, which loads the new key and reads the row of the imported
    connection.
    """
    path, in_a_row = gateway.running.fast_path, 0
    async with asyncio.timeout(PATIENCE_S):
        while in_a_row < 3:
            before = path.taken
            await gateway.call(key, "get_issue", {"issue": "A-1"})
            in_a_row = in_a_row + 1 if path.taken > before else 0
    gateway.provider.calls.clear()
    return path.taken


@pytest.mark.parametrize("responding", RESPONSES, ids=lambda responding: responding.__name__)
async def test_a_call_ends_and_is_recorded_as_through_the_chain(tmp_path: Path, responding: Responding) -> None:
    through_chain, _ = await results_and_records(tmp_path / "chain", responding, fast_path=False)
    for number in range(5):  # a late change notification can send a call to the middleware chain
        on_path, taken = await results_and_records(tmp_path / f"fast-{number}", responding, fast_path=True)
        assert on_path == through_chain
        if taken:
            break
    assert taken


async def results_and_records(folder: Path, responding: Responding, *, fast_path: bool) -> tuple[object, int]:
    """Make two calls. Return their results and records, and how many of the calls took the fast path."""
    folder.mkdir()
    async with agent_gateway(folder, fast_path=fast_path) as gateway:
        key = await gateway.key(*RULES)
        before = await on_fast_path(gateway, key) if fast_path else 0
        records: list[ExchangeRecord] = []
        gateway.running.runtime.call_queue.record = records.append  # type: ignore[method-assign]
        gateway.provider.responding = responding
        results = [
            await gateway.call(key, "get_issue", {"issue": "A-1"}),
            await gateway.call(key, "post_issue", {"body": {"text": "hé"}}),
        ]
        taken = gateway.running.fast_path.taken - before if fast_path else 0
        return (
            list(map(without_variable_parts, results)),
            [comparable_record(record) for record in records],
            gateway.provider.calls,
        ), taken


def without_variable_parts(result: Any) -> Any:
    """Return the result as text without the parts that differ each time: the sealed URI of a whole response, and the
    request ID.
    """
    text = json.dumps(result)
    for block in result["content"]:
        text = text.replace(block.get("uri", "\0"), "URI")
    return text.partition("request_id")[0]


def comparable_record(record: ExchangeRecord) -> tuple[object, ...]:
    return (
        record.method,
        record.path,
        record.status,
        record.error_code,
        record.bytes_in,
        record.connection_id,
        record.rule,
        record.attempts,
    )


async def test_a_tool_call_is_recorded_as_one_call_with_the_request_id(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    records: list[ExchangeRecord] = []
    gateway.running.runtime.call_queue.record = records.append  # type: ignore[method-assign]
    for _ in range(5):  # a late change notification can send a call to the middleware chain
        taken = await on_fast_path(gateway, key)
        records.clear()
        await gateway.call(key, "get_issue", {"issue": "A-1"})
        if gateway.running.fast_path.taken > taken:
            break
    assert gateway.running.fast_path.taken == taken + 1
    inner, outer = records
    assert (inner.path, outer.path) == ("/issue/A-1", "/mcp")
    assert inner.request_id == outer.request_id


async def test_a_rate_limit_is_enforced(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES, limits={"rate": 2})
    results = [await gateway.call(key, "get_issue", {"issue": "A-1"}) for _ in range(3)]
    assert [result["isError"] for result in results] == [False, False, True]
    assert results[2]["structuredContent"]["error"]["status"] == 429


@pytest.mark.parametrize("odd", ["acme/c1\r\nX-Evil: 1", "acme/c1\nX-Evil: 1", "acme/c1\0"])
async def test_a_name_that_would_end_its_line_is_not_sent(gateway: AgentGateway, odd: str) -> None:
    key = await gateway.key(*RULES, limits={"connections": None})
    taken = gateway.running.fast_path.taken
    result = await gateway.call(key, "get_issue", {"issue": "A-1", "connection": odd})
    assert result["isError"] is True
    assert gateway.provider.calls == []
    assert gateway.running.fast_path.taken == taken


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
async def test_a_stalled_response_is_aborted(tmp_path: Path, fast_path: bool) -> None:
    silent = asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        await silent.wait()
        return web.Response()

    async with agent_gateway(tmp_path, fast_path=fast_path) as gateway:
        egress = gateway.running.runtime.current.generation.egress
        object.__setattr__(egress.timeouts, "first_byte_s", 0.2)
        key = await gateway.key(*RULES)
        gateway.provider.responding = wait
        async with asyncio.timeout(PATIENCE_S):
            result = await gateway.call(key, "get_issue", {"issue": "A-1"})
        silent.set()
    assert result["isError"] is True
    assert "did not respond within 0.2 s" in text_of(result)


async def test_a_large_response_waits_for_memory(gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = gateway.running.runtime.page_memory
    requests: list[int] = []
    reserve = memory.reserve

    async def counting(share: Any, size: int, wait_s: float) -> Any:
        requests.append(size)
        await asyncio.sleep(0)
        return await reserve(share, size, wait_s)

    monkeypatch.setattr(memory, "reserve", counting)
    gateway.provider.responding = large
    key = await gateway.key(*RULES)
    result = await gateway.call(key, "get_issue", {"issue": "A-1", "max_bytes": 1000})
    assert result["isError"] is False
    assert len(requests) == 1


async def test_an_agent_that_disconnects_at_the_hand_over_to_the_chain_is_recorded(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider returned 401. The middleware chain would refresh and send again, but the agent has disconnected."""
    key = await gateway.key(*RULES)
    await on_fast_path(gateway, key)
    records: list[ExchangeRecord] = []
    closed: list[ProviderResponse] = []
    calling: asyncio.Task[Any]
    continue_in_chain, close = InProcessClient.continue_in_chain, ProviderResponse.close

    def leaving(client: InProcessClient, data: bytes, handover: FastPathHandover) -> None:
        continue_in_chain(client, data, handover)
        calling.cancel()

    def closing(response: ProviderResponse) -> None:
        closed.append(response)
        close(response)

    async def nothing(_: int) -> None: ...

    monkeypatch.setattr(gateway.running.runtime.call_queue, "record", records.append)
    monkeypatch.setattr(InProcessClient, "continue_in_chain", leaving)
    monkeypatch.setattr(ProviderResponse, "close", closing)
    gateway.provider.responding = unauthorized_response
    authorization = f"Bearer {key}"
    of_message = ("acme", "c1", {}, None, None, "the-agents", None)
    request = InProcessRequest(
        "GET", "/proxy", "/issue/A-1", lambda: authorization, None, None, *of_message, 1 << 20, PATIENCE_S
    )

    async def call() -> Any:
        client, path = InProcessClient(request), gateway.running.fast_path
        if not client.start(path):
            return None
        client.begin()
        return await wait_for_response(path, client, nothing, has_left=lambda: False, stopped=lambda: False)

    async def begin_call() -> Any:
        nonlocal calling
        calling = asyncio.create_task(call())
        return await asyncio.gather(calling, return_exceptions=True)

    async with asyncio.timeout(PATIENCE_S):
        while (ended := await begin_call()) == [None]:
            await asyncio.sleep(0)  # None: no idle connection to the provider is free yet
    assert isinstance(ended[0], asyncio.CancelledError)
    assert [(record.path, record.status, record.error_code) for record in records] == [
        ("/issue/A-1", 499, "client_left")
    ]
    assert len(closed) == 1
