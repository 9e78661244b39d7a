"""Signals under constant load make no request fail.

This is the short form of `make drill`. GATEWAY_DRILL is a factor for the number of clients and requests and the size of
streams.
"""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.fakes.load import Load, Upstream, content
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import Files, ServingProcess, head, serving
from tests.fakes.raw import dial

# The gateway runs in its own processes, so one event loop for the test is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

FACTOR = int(os.environ.get("GATEWAY_DRILL", "1"))
CLIENTS = min(4 * FACTOR, 64)
REQUESTS = 40 * FACTOR
STREAMS = 100
OTHER_KEY = "sk-other-0123456789abcdef"


async def request_status(gateway: ServingProcess, request: bytes) -> int:
    async with dial(gateway.port) as client:
        client.send(request)
        return (await client.response()).status


async def test_no_request_fails_because_of_a_reload(tmp_path: Path) -> None:
    upstream, workers = Upstream(), 2
    async with upstream.serving():
        files = Files(tmp_path, upstream.port, workers=workers)
        async with serving(files) as gateway:
            await gateway.connect()
            load = Load(gateway.port, head("/short"), CLIENTS)
            await load.further(REQUESTS)
            for turn in range(1, 1 + max(2, FACTOR // 2)):  # each reload adds or removes an environment
                environments = files.document["environments"]
                if environments.pop("more", None) is None:
                    environments["more"] = {"secret_keys": [OTHER_KEY]}
                files.write()
                gateway.signal(signal.SIGHUP)
                await gateway.logged("reloaded", turn * workers)
                assert await request_status(gateway, head("/short", OTHER_KEY)) == (
                    404 if "more" in environments else 401
                )
                await load.further(REQUESTS)
            files.path.write_text("server: {port: nonsense}\n")
            gateway.signal(signal.SIGHUP)
            await gateway.logged("reload_refused")
            assert any("gateway.yaml:1: " in entry.get("detail", "") for entry in gateway.log)
            await load.further(REQUESTS)
            await load.stop()
            # every line is complete, no matter which worker wrote it
            assert all("timestamp" in entry for entry in gateway.log)
            assert not load.failed
            assert set(load.done) == {200}


async def test_no_request_fails_when_a_new_process_takes_over_the_socket(tmp_path: Path) -> None:
    upstream, workers = Upstream(), 2
    async with upstream.serving():
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            files = Files(tmp_path, upstream.port, workers=workers)
            async with serving(files, listener) as old:
                await old.connect()
                load = Load(old.port, head("/short"), CLIENTS)
                await load.further(REQUESTS)
                async with serving(files, listener) as new:
                    assert new.port == old.port
                    old.signal(signal.SIGTERM)
                    assert await old.ended() == 0
                    await load.further(REQUESTS)
                    await load.stop()
    assert not load.failed
    assert set(load.done) == {200}
    assert load.closed > 0  # the old process announced the end of connections


@pytest.mark.parametrize(("workers", "everyone"), [(1, False), (2, True)])
async def test_streams_in_flight_are_complete(tmp_path: Path, workers: int, everyone: bool) -> None:
    """All streams arrive complete.

    `everyone`: signal the workers too, as a service manager does. Each worker then gets a second signal from its
    parent.
    """
    upstream = Upstream()
    async with upstream.serving(), serving(Files(tmp_path, upstream.port, workers=workers, drain_s=60)) as gateway:
        await gateway.connect()
        reading = [asyncio.create_task(read_stream(gateway.port, number)) for number in range(STREAMS)]
        await upstream.has_begun(STREAMS)
        gateway.signal(signal.SIGHUP)
        await gateway.logged("reloaded", workers)
        for pid in gateway.workers() if everyone else ():
            os.kill(pid, signal.SIGTERM)
        gateway.signal(signal.SIGTERM)
        await gateway.logged("stopping", workers)
        upstream.release.set()
        bodies = await asyncio.gather(*reading)
        assert await gateway.ended() == 0
    assert [number for number, body in enumerate(bodies) if body != content(number, pieces(number))] == []


async def test_no_connection_waits_for_the_end_of_a_drain(tmp_path: Path) -> None:
    """At the end of the notice period, new connections are refused. A running stream continues."""
    upstream = Upstream()
    async with upstream.serving(), serving(Files(tmp_path, upstream.port, drain_s=600)) as gateway:
        await gateway.connect()
        reading = asyncio.create_task(read_stream(gateway.port, 1))
        await upstream.has_begun(1)
        gateway.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            while _accepts(gateway.port):
                await asyncio.sleep(0.05)
        assert not reading.done()
        upstream.release.set()
        assert await reading == content(1, pieces(1))
        assert await gateway.ended() == 0


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def pieces(number: int) -> int:
    """Return the length of this stream, as a number of pieces of 16 KiB."""
    return (1 + number % 7) * FACTOR


async def read_stream(port: int, number: int) -> bytes:
    """Return the body of a stream. The body is complete only if the last chunk has arrived."""
    async with dial(port) as client:
        client.send(head(f"/stream/{number}/{pieces(number)}"))
        assert b" 200 " in await client.until(b"\r\n\r\n")
        body = b""
        while length := int(await client.until(b"\r\n"), 16):
            body += (await client.exactly(length + 2))[:-2]
        assert await client.until(b"\r\n") == b"\r\n"
        return body
