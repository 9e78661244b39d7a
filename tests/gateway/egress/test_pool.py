"""Connections to providers: kept, reused, waited for, and closed."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.egress import pool as pools
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard
from gateway.egress.provider_exchange import Body, ProviderExchange
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import LOOPBACK
from tests.fakes.raw_provider import OK, RawProvider, Script, raw_provider, read_message


@asynccontextmanager
async def open_egress(**options: object) -> AsyncIterator[Egress]:
    egress = Egress(Guard(LOOPBACK), **options)  # type: ignore[arg-type]
    try:
        yield egress
    finally:
        await egress.close()


def request_to(provider: RawProvider, method: str = "GET", target: str = "/") -> UpstreamRequest:
    return UpstreamRequest(method, "http", "127.0.0.1", provider.port, target)


def pool_of(egress: Egress, provider: RawProvider) -> pools.Pool:
    found = egress.pool(("http", "127.0.0.1", provider.port))
    assert found is not None
    return found


async def read_all(exchange: ProviderExchange) -> bytes:
    body = bytearray()
    while piece := await exchange.read():
        body += piece
    exchange.close()
    return bytes(body)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("response", "method", "kept"),
    [
        (OK, "GET", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "GET", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "GET", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "GET", True),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=20\r\nContent-Length: 2\r\n\r\nok", "GET", True),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: max=1, timeout=0\r\nContent-Length: 2\r\n\r\nok", "GET", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "GET", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", "GET", False),
        (OK + b"x", "GET", False),
        (OK + OK, "GET", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n0\r\n\r\n", "GET", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", "GET", False),
    ],
)
async def test_a_connection_is_kept_only_after_a_clean_response(response: bytes, method: str, kept: bool) -> None:
    async with raw_provider(response) as provider, open_egress() as egress:
        for _ in range(3):
            await read_all(await egress.send(request_to(provider, method)))
    assert provider.connections == (1 if kept else 3)


async def test_most_recent_connection_is_reused_first_and_old_ones_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "CHECK_EVERY_S", 0.01)
    async with raw_provider() as provider, open_egress() as egress:
        await asyncio.gather(*(egress.send(request_to(provider)) for _ in range(3)))
        assert provider.connections == 3
        pool = pool_of(egress, provider)
        idle = [connection for _ in range(3) if (connection := pool.acquire_idle()) is not None]
        for connection in reversed(idle):
            pool.release_unused(connection)
        await egress.send(request_to(provider))
        assert pool.acquire_idle() is idle[0]
        pool.release_unused(idle[0])
        for connection in idle:
            connection.idle_until = 0.0
        async with asyncio.timeout(PATIENCE_S):
            while list(egress.load()):
                await asyncio.sleep(0.001)
        assert (await read_all(await egress.send(request_to(provider)))) == b"ok"
    assert provider.connections == 4


async def test_connections_are_limited_and_waiting_requests_get_the_next_free_one() -> None:
    async with raw_provider() as provider, open_egress(connections_per_host=2) as egress:

        async def ask(index: int) -> None:
            body = Body(pieces(str(index).encode()), len(str(index)))
            assert await read_all(await egress.send(request_to(provider, "POST", f"/{index}"), body)) == b"ok"

        await asyncio.gather(*(ask(index) for index in range(60)))
    assert provider.connections <= 2
    assert {head.split()[1] for head in provider.heads} == {f"/{index}".encode() for index in range(60)}


def hold_response(asked: asyncio.Event, go: asyncio.Event) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_message(reader):
            asked.set()
            await go.wait()
            writer.write(OK)

    return script


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"wait_s": 0.01}, "All 1 connections to .* were in use for 0.01 s"),
        ({"waiting": 0}, "Too many requests wait for a connection"),
    ],
    ids=["wait_s", "waiting"],
)
async def test_waiting_time_and_queue_length_are_limited(limits: dict[str, float], message: str) -> None:
    request_arrived, go = asyncio.Event(), asyncio.Event()
    async with (
        raw_provider(hold_response(request_arrived, go)) as provider,
        open_egress(connections_per_host=1, **limits) as egress,
    ):
        first = asyncio.create_task(egress.send(request_to(provider)))
        await request_arrived.wait()
        with pytest.raises(EgressError, match=message) as refused:
            await egress.send(request_to(provider))
        go.set()
        assert await read_all(await first) == b"ok"
        assert await read_all(await egress.send(request_to(provider))) == b"ok"
    assert refused.value.kind == "busy"
    assert provider.connections == 1


async def test_request_that_leaves_the_queue_takes_no_connection() -> None:
    request_arrived, go = asyncio.Event(), asyncio.Event()
    async with (
        raw_provider(hold_response(request_arrived, go)) as provider,
        open_egress(connections_per_host=1) as egress,
    ):
        first = asyncio.create_task(egress.send(request_to(provider)))
        await request_arrived.wait()
        waiting = [asyncio.create_task(egress.send(request_to(provider))) for _ in range(4)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        go.set()
        await first
        waiting[1].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(item, asyncio.CancelledError) for item in results] == [True, True, False, False]
        assert await read_all(await egress.send(request_to(provider))) == b"ok"


@pytest.mark.parametrize("retired", [True, False])
async def test_connection_granted_to_a_cancelled_request_is_returned_or_closed(
    retired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CHECK_EVERY_S", 0.01)
    async with raw_provider() as provider, open_egress(connections_per_host=1) as egress:
        assert await read_all(await egress.send(request_to(provider))) == b"ok"
        pool = pool_of(egress, provider)
        connection = await pool.acquire()
        await asyncio.sleep(0.05)  # the timer that closes idle connections has ended: there are none
        waiting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
        monkeypatch.setattr(pools, "IDLE_S", 0.01)
        pool.release(connection, None)
        waiting.cancel()
        if retired:
            egress.retire(lambda: None)
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(PATIENCE_S):
            while list(egress.load()):
                await asyncio.sleep(0.001)


async def test_cancelled_requests_do_not_affect_others() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            name = head.split()[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(name))
            await asyncio.sleep(0)
            writer.write(name)

    async with raw_provider(script) as provider, open_egress(connections_per_host=4) as egress:

        async def ask(name: str, turns: int) -> None:
            request = asyncio.create_task(egress.send(request_to(provider, "GET", name)))
            for _ in range(turns):
                await asyncio.sleep(0)
            if turns % 3 == 0:
                request.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                assert await read_all(await request) == name.encode()

        await asyncio.gather(*(ask(f"/{index}", index % 29) for index in range(400)))
        pool = pool_of(egress, provider)
        async with asyncio.timeout(PATIENCE_S):
            while pool.load.busy or pool.load.dialling:
                await asyncio.sleep(0.001)
    assert not pool.load.waiting


@pytest.mark.parametrize(
    ("method", "times"), [("GET", 2), ("HEAD", 2), ("OPTIONS", 2), ("DELETE", 1), ("PUT", 1), ("POST", 1)]
)
async def test_closed_idle_connection_is_replaced_once_for_safe_requests_only(method: str, times: int) -> None:
    heads: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_message(reader))[0])
        writer.write(OK)
        heads.append((await read_message(reader))[0])  # read the request and close without a response

    async with raw_provider(script) as provider, open_egress() as egress:
        await egress.send(request_to(provider))
        heads.clear()
        if times == 2:
            await egress.send(request_to(provider, method))
        else:
            with pytest.raises(EgressError, match="closed the connection without a response") as failure:
                await egress.send(request_to(provider, method))
            assert failure.value.kind == "unreachable"
    assert [head.split()[0].decode() for head in heads] == [method] * times


async def test_a_body_is_never_sent_twice() -> None:
    bodies: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(OK)
        bodies.append((await read_message(reader))[1])

    async with raw_provider(script) as provider:
        for body in (Body(pieces(b"abc"), 3), Body(pieces(), 3, whole=b"abc"), Body(pieces(b"a"), None)):
            async with open_egress() as egress:
                await egress.send(request_to(provider))
                with pytest.raises(EgressError):
                    await egress.send(request_to(provider, "GET"), body)
    assert len(bodies) == 3


async def test_abandoned_response_closes_its_connection_immediately() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await reader.read()

    async with raw_provider(script) as provider, open_egress() as egress:
        exchange = await egress.send(request_to(provider))
        assert await exchange.read() == b"abc"
        reading = asyncio.create_task(exchange.read())
        await asyncio.sleep(0)
        exchange.close()
        exchange.close()
        with pytest.raises(EgressError):
            await reading
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while list(egress.load()):
                await asyncio.sleep(0.001)
    gc.collect()
