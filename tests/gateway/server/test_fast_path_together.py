"""Fast path responses that are sent together at the end of an event loop iteration.

No other response is sent before them, and no response is cut off.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gateway.server.client_protocol import ClientProtocol
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import RawProvider, raw_provider, read_message
from tests.gateway.server.test_fast_path import dial, gateway_to_provider, get, port_of, warm
from tests.gateway.server.test_fast_path_bounds import connections


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head, _ = await read_message(reader)
        target = head.split(b" ")[1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(target) + target)


@pytest_asyncio.fixture
async def batching_gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """Yield a gateway that sends all plain messages at the end of an event loop iteration."""
    provider: RawProvider
    async with raw_provider(echo) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        running.fast_path.write_batch.in_flight = 1
        yield running
        assert running.fast_path.write_batch.in_flight == 1, "each request that began has ended"


async def queued_response(batching_gateway: RunningGateway) -> ClientProtocol:
    """Wait until a response is queued. Return its client connection before the event loop sends the response."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := [connection for connection in connections(batching_gateway) if connection._queued]):
            await asyncio.sleep(0)
    return found[0]


async def test_pipelined_requests_get_responses_in_order(batching_gateway: RunningGateway) -> None:
    async with dial(port_of(batching_gateway)) as client:
        await client.send(get(b"/proxy/0"))
        async with asyncio.timeout(PATIENCE_S):
            while batching_gateway.fast_path.taken == 0:
                await asyncio.sleep(0)
        await client.send(get(b"/proxy/1"))
        await asyncio.sleep(0)
        await client.send(b"".join(get(b"/proxy/%d" % n) for n in range(2, 20)))
        assert [(await client.response()).body.data for _ in range(20)] == [b"/%d" % n for n in range(20)]


async def test_a_response_is_sent_before_the_refusal_of_the_next_request(batching_gateway: RunningGateway) -> None:
    async with dial(port_of(batching_gateway)) as client:
        await client.send(get(b"/proxy/a"))
        await asyncio.sleep(0)
        await client.send(b"GET /proxy/b HTTP/2.0\r\n\r\n")
        assert (await client.response()).body.data == b"/a"
        assert (await client.response()).status in (400, 505)
        assert await client.rest() == b""


async def test_a_connection_closed_in_the_same_loop_turn_gets_its_response_first(
    batching_gateway: RunningGateway,
) -> None:
    async with dial(port_of(batching_gateway)) as client:
        await client.send(get(b"/proxy/a"))
        queued = await queued_response(batching_gateway)
        queued.force_close()
        assert (await client.response()).body.data == b"/a"
        assert await client.rest() == b""


async def test_a_caller_who_closes_its_side_in_the_same_loop_turn_gets_the_response(
    batching_gateway: RunningGateway,
) -> None:
    async with dial(port_of(batching_gateway)) as client:
        await client.send(get(b"/proxy/a"))
        queued = await queued_response(batching_gateway)
        queued.eof_received()
        queued.transport.close()  # type: ignore[union-attr]  # as it does by itself then
        assert (await client.response()).body.data == b"/a"
        assert await client.rest() == b""


async def test_a_request_in_the_same_iteration_comes_after_the_response_was_sent(
    batching_gateway: RunningGateway,
) -> None:
    async with dial(port_of(batching_gateway)) as client:
        await client.send(get(b"/proxy/a"))
        queued = await queued_response(batching_gateway)
        queued.data_received(get(b"/proxy/b"))
        assert queued._queued == b""
        assert [(await client.response()).body.data for _ in range(2)] == [b"/a", b"/b"]
    assert batching_gateway.fast_path.taken == 2
