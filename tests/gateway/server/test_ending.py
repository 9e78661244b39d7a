"""How client connections end: late heads, idle connections, clients that disconnect, and a server that stops."""

import asyncio
import math
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import dial, exchange, parsed
from tests.gateway.server.conftest import RecordingApplication, Served, served
from tests.gateway.server.test_refusals import CHUNKED, HOST, get


@pytest.fixture
async def quick_server(recording_app: RecordingApplication) -> AsyncIterator[Served]:
    """Yield a server that waits 0.05 s for a request head."""
    serving = await served(recording_app, head_s=0.05, drain_s=PATIENCE_S)
    yield serving
    recording_app.release.set()
    await serving.runner.cleanup()


@pytest.fixture
async def steady_server(recording_app: RecordingApplication) -> AsyncIterator[Served]:
    """Yield a server that drains for longer than a test takes."""
    serving = await served(recording_app, drain_s=PATIENCE_S)
    yield serving
    recording_app.release.set()
    await serving.runner.cleanup()


@pytest.fixture
def patient_for_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that stops wait longer for the first request of a connection than a busy machine needs."""
    monkeypatch.setattr(import_module("gateway.server.runner"), "FIRST_REQUEST_S", PATIENCE_S)


async def wait_for_handler(server: Served) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await server.recording_app.entered.wait()


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\nHost: gw", b"\r\n"])
async def test_an_incomplete_head_is_not_waited_for(quick_server: Served, begun: bytes) -> None:
    assert await exchange(quick_server.port, begun) == b""


async def test_second_head_has_the_same_time_limit(quick_server: Served) -> None:
    async with dial(quick_server.port) as client:
        client.send(get(b"/one"))
        assert (await client.response()).status == 200
        client.send(b"GET /tw")
        assert await client.until_closed() == b""


async def test_time_limit_for_a_head_does_not_apply_to_a_slow_handler_or_an_idle_connection(
    quick_server: Served,
) -> None:
    async with dial(quick_server.port) as client:
        client.send(get(b"/wait"))
        await wait_for_handler(quick_server)
        async with dial(quick_server.port) as other:
            assert await other.until_closed() == b""  # at this time, the first connection would be late too
        quick_server.recording_app.release.set()
        assert (await client.response()).body == b"waited"
        async with dial(quick_server.port) as other:
            assert await other.until_closed() == b""
        client.send(get(b"/again"))
        assert (await client.response()).body == b"/again"


async def test_after_a_blocked_turn_the_bytes_of_a_new_connection_are_read_before_its_deadline_is_checked(
    steady_server: Served,
) -> None:
    async with dial(steady_server.port) as client, asyncio.timeout(PATIENCE_S):
        while not steady_server.runner.client_connections:
            await asyncio.sleep(0)
        connection: Any
        (connection,) = steady_server.runner.servers[0].connections
        connection.enforce_time_limits(0.0, late_if_before=math.inf)
        client.send(get(b"/one"))
        assert (await client.response()).status == 200


async def test_an_idle_connection_is_closed_after_a_while(recording_app: RecordingApplication) -> None:
    serving = await served(recording_app, keep_alive_s=0.05)
    async with dial(serving.port) as client:
        client.send(get(b"/one"))
        assert (await client.response()).status == 200
        assert await client.until_closed() == b""
    await serving.runner.cleanup()


async def test_a_connection_without_a_request_is_closed_after_a_while(recording_app: RecordingApplication) -> None:
    serving = await served(recording_app, keep_alive_s=0.05, head_s=1000.0)
    async with dial(serving.port) as client:
        assert await client.until_closed() == b""
    await serving.runner.cleanup()


async def test_disconnect_of_a_client_stops_its_handler(steady_server: Served) -> None:
    async with dial(steady_server.port) as client:
        client.send(get(b"/wait"))
        await wait_for_handler(steady_server)
    async with asyncio.timeout(PATIENCE_S):
        while not steady_server.recording_app.cancelled:
            await asyncio.sleep(0)
    assert not steady_server.recording_app.release.is_set(), "the handler was cancelled, not released"


async def test_a_stop_lets_the_request_in_flight_finish_and_sends_connection_close(steady_server: Served) -> None:
    async with dial(steady_server.port) as client:
        client.send(get(b"/wait"))
        await wait_for_handler(steady_server)
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        steady_server.recording_app.release.set()
        response = parsed(await client.until_closed())
        assert (response.body, response.headers["connection"]) == (b"waited", "close")
        await stopping


async def test_a_stop_lets_a_stream_finish(steady_server: Served) -> None:
    async with dial(steady_server.port) as client:
        client.send(get(b"/stream"))
        await client.until(b"first\r\n")
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        steady_server.recording_app.release.set()
        assert await client.until_closed() == b"6\r\nsecond\r\n0\r\n\r\n"
        await stopping


async def test_a_stop_lets_an_upload_finish(steady_server: Served) -> None:
    async with dial(steady_server.port) as client:
        client.send(b"POST /echo HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n3\r\nabc\r\n")
        await wait_for_handler(steady_server)
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        client.send(b"3\r\ndef\r\n0\r\n\r\n")
        assert parsed(await client.until_closed()).body == b"abcdef"
        await stopping


async def test_a_stop_closes_idle_connections(steady_server: Served) -> None:
    async with dial(steady_server.port) as kept, dial(steady_server.port) as silent:
        kept.send(get(b"/one"))
        await kept.response()
        async with asyncio.timeout(PATIENCE_S):
            await steady_server.runner.cleanup()
        assert await kept.until_closed() == b""
        assert await silent.until_closed() == b""


async def test_while_the_stop_is_announced_requests_are_served_and_connections_end(steady_server: Served) -> None:
    async with dial(steady_server.port) as kept, dial(steady_server.port) as fresh:
        kept.send(get(b"/one"))
        assert "connection" not in (await kept.response()).headers
        steady_server.runner.start_draining()
        for client in (kept, fresh):
            client.send(get(b"/two"))
            response = parsed(await client.until_closed())
            assert (response.status, response.headers["connection"]) == (200, "close")


async def test_after_a_stop_that_was_announced_an_idle_connection_still_serves_the_request_that_is_on_its_way(
    steady_server: Served,
) -> None:
    async with dial(steady_server.port) as kept, dial(steady_server.port) as used:
        for client in (kept, used):
            client.send(get(b"/one"))
            await client.response()
        steady_server.runner.start_draining(idle_s=3)
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        used.send(get(b"/two"))
        response = parsed(await used.until_closed())
        assert (response.status, response.headers["connection"]) == (200, "close")
        assert await kept.until_closed() == b"", "the idle connection is closed when its time is over"
        await stopping


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
async def test_response_not_finished_in_time_is_cut_and_not_complete(
    recording_app: RecordingApplication, version: bytes
) -> None:
    serving = await served(recording_app, drain_s=0.05)
    async with dial(serving.port) as client:
        client.send(get(b"/stream", version=version))
        await client.until(b"first")
        async with asyncio.timeout(PATIENCE_S):
            await serving.runner.cleanup()
        with pytest.raises(ConnectionResetError):
            await client.until_clean_end()


async def closed_for_others(port: int) -> None:
    """Wait until the port accepts no more new connections."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with dial(port):
                    await asyncio.sleep(0)
            except OSError:
                return


async def test_the_drain_begins_when_the_end_is_announced(recording_app: RecordingApplication) -> None:
    serving = await served(recording_app, drain_s=1000)
    async with dial(serving.port) as client:
        client.send(get(b"/wait"))
        await wait_for_handler(serving)
        serving.runner.start_draining()
        assert serving.runner._drain_end is not None
        serving.runner._drain_end -= 1000  # as if the stop had been announced 1000 s ago
        async with asyncio.timeout(PATIENCE_S):
            await serving.runner.cleanup()
    assert recording_app.cancelled == 1


async def test_after_a_keep_alive_response_one_more_request_is_answered_during_the_stop(
    steady_server: Served, patient_for_first_request: None
) -> None:
    async with dial(steady_server.port) as client:
        client.send(get(b"/stream"))
        await client.until(b"first\r\n")  # the head has no `Connection: close`, because it was sent before the stop
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        steady_server.recording_app.release.set()
        await client.until(b"0\r\n\r\n")
        client.send(get(b"/next"))
        response = parsed(await client.until_closed())
        assert (response.status, response.body, response.headers["connection"]) == (200, b"/next", "close")
        await stopping


async def test_a_client_accepted_just_before_the_stop_still_gets_a_response(
    steady_server: Served, patient_for_first_request: None
) -> None:
    async with dial(steady_server.port) as client:
        async with dial(steady_server.port) as other:  # this connection is accepted after the first one
            other.send(get(b"/one"))
            await other.response()
        stopping = asyncio.create_task(steady_server.runner.cleanup())
        await closed_for_others(steady_server.port)
        client.send(get(b"/first"))
        response = parsed(await client.until_closed())
        assert (response.body, response.headers["connection"]) == (b"/first", "close")
        await stopping
