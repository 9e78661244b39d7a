"""A rolling restart of nodes, and a database restart, behind nginx and behind HAProxy: no request fails.

This is the short form, which restarts one node. `make rolling` restarts every node three times and sets
GATEWAY_ROLLING to the number of requests per second.
"""

import asyncio
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.deploy.cluster import Cluster
from tests.fakes.balancer_provider import EVERY_S
from tests.fakes.fronts import HOST, Balancer
from tests.fakes.load import Load
from tests.fakes.postgres import PostgresServer
from tests.fakes.processes import head

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1800)]

LONG: Final = "GATEWAY_ROLLING" in os.environ
PER_S: Final = int(os.environ.get("GATEWAY_ROLLING", "80"))
RESTARTED: Final = (0, 1, 2) * 3 if LONG else (0,)
CLIENTS: Final = 30 if LONG else 10
STREAMS: Final = 50 if LONG else 10
STREAM_S: Final = 6.0 if LONG else 1.5
SETTLED_S: Final = 5.0 if LONG else 2.5  # between two nodes: until the balancer uses the restarted node again


class Streams:
    """A constant number of event streams, each open for `STREAM_S`. `broken` counts incomplete streams by reason."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self.complete = 0
        self.broken: Counter[str] = Counter()
        self._port, self._tls = port, tls
        self._more = True
        self._tasks = [asyncio.create_task(self._repeat(n * STREAM_S / STREAMS)) for n in range(STREAMS)]

    async def stop(self) -> None:
        """Stop after the last event of the open streams."""
        self._more = False
        await asyncio.gather(*self._tasks)

    async def _repeat(self, after_s: float) -> None:
        await asyncio.sleep(after_s)  # so that the streams begin at different times
        while self._more:
            try:
                await self._stream(round(STREAM_S / EVERY_S))
            except (OSError, EOFError, AssertionError) as error:
                self.broken[f"{type(error).__name__}: {error}"] += 1
            else:
                self.complete += 1

    async def _stream(self, count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, server_hostname=HOST)
        try:
            writer.write(head(f"/events/{count}"))
            response = await reader.readuntil(b"\r\n\r\n")
            assert response.startswith(b"HTTP/1.1 200"), response[:40]
            body = b""
            while length := int(await reader.readline(), 16):
                body += (await reader.readexactly(length + 2))[:-2]
            events = body.split(b"\n\n")
            assert [event.partition(b"\n")[0] for event in events[:-2]] == [b"id: %d" % n for n in range(count)]
            assert events[-2:] == [b"event: end\ndata:", b""]
        finally:
            writer.transport.abort()


@asynccontextmanager
async def busy(balancer: Balancer) -> AsyncIterator[tuple[list[Load], Streams]]:
    """Send `PER_S` requests a second (every third is a POST) and keep streams open, until the block is left."""
    https, tls = balancer.ports.https, balancer.tls
    post = head("/short").replace(b"GET", b"POST", 1).replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nthere")
    kinds = (head("/short"), head("/short?2"), post)
    loads = [Load(https, kind, CLIENTS, tls=tls, each_s=3 * CLIENTS / PER_S) for kind in kinds]
    streams = Streams(https, tls)
    try:
        yield loads, streams
    finally:
        await asyncio.gather(streams.stop(), *(load.stop() for load in loads))


async def test_no_request_and_no_stream_fails_while_node_after_node_is_restarted(
    balancer: Balancer, cluster: Cluster
) -> None:
    async with busy(balancer) as (loads, streams):
        began = time.monotonic()
        await asyncio.sleep(STREAM_S)
        for number in RESTARTED:
            assert await cluster.stop(number) == 0
            await cluster.start(number)
            await asyncio.sleep(SETTLED_S)
        took_s = time.monotonic() - began
    done: Counter[int] = sum((load.done for load in loads), Counter())
    failed: Counter[str] = sum((load.failed for load in loads), Counter())
    result = f"{done.total()} requests at {done.total() / took_s:.0f}/s, {failed.total()} failed; "
    result += f"{streams.complete} streams of {STREAM_S:g} s complete, {streams.broken.total()} broken"
    print(f"\n{balancer.name}, {len(RESTARTED)} restarts: {result}")
    faults = [line for line in balancer.log.splitlines() if "[error]" in line]
    assert (failed, streams.broken) == (Counter(), Counter()), "\n".join([result, *faults[-5:]])
    assert set(done) == {200}
    assert streams.complete >= 2 * STREAMS


async def test_no_request_fails_while_the_database_restarts(
    balancer: Balancer, cluster: Cluster, postgres_server: PostgresServer
) -> None:
    if balancer.name == "nginx" and not LONG:
        pytest.skip("nginx makes no active health checks; `make rolling` tests this case")
    async with busy(balancer) as (loads, streams):
        await asyncio.sleep(1)
        await asyncio.to_thread(postgres_server.stop)
        try:
            await asyncio.sleep(10 if LONG else 3)  # longer than every check needs to notice
        finally:
            postgres_server.launch()
        await postgres_server.responses()
        await asyncio.sleep(2)
    assert [load.failed for load in loads] == [Counter()] * len(loads)
    assert {status for load in loads for status in load.done} == {200}
    assert not streams.broken
    if balancer.name == "haproxy":
        assert " without_database/node-" in balancer.log
