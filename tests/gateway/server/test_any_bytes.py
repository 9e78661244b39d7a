"""For any input, the server responds in HTTP or closes the connection, and continues to serve other clients."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import RawClient, dial
from tests.gateway.server.conftest import RecordingApplication, Served, served
from tests.gateway.server.test_refusals import REFUSED, get

HEADS = re.compile(rb"HTTP/1\.[01] [1-5]\d\d [^\r\n]*\r\n")
SEEDS = [
    get(b"/a?b=c", b"X-A: b\r\n"),
    b"POST /echo HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhello" + get(b"/next"),
    *(parameters.values[0] for parameters in REFUSED if len(parameters.values[0]) < 500),
]
SPICE = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\x00",
    b"\xff",
    b":",
    b"0",
    b"\r\n\r\n",
    b"Host: x\r\n",
    b";",
    b"chunked",
]
ROUNDS = 300
QUIET = 500


def damaged_messages(chance: random.Random) -> bytes:
    """Return one or two messages. A few of their bytes are removed, changed, repeated or inserted."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.randint(1, 2))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.randint(0, 6))
        data[at:to] = chance.choice([b"", chance.choice(SPICE), bytes([chance.randrange(256)]), data[at:to] * 2])
    return bytes(data)


@pytest.fixture
async def server_without_limits(recording_app: RecordingApplication) -> AsyncIterator[Served]:
    """Yield a server without time limits, so that slow machines do not change the result."""
    recording_app.release.set()
    serving = await served(recording_app, head_s=1000.0, keep_alive_s=1000.0)
    yield serving
    await serving.runner.cleanup()


@pytest.mark.parametrize("seed", range(4))
async def test_damaged_messages_get_valid_http_responses(server_without_limits: Served, seed: int) -> None:
    chance = random.Random(seed)
    sent = [damaged_messages(chance) for _ in range(ROUNDS)]
    seen = [bytearray() for _ in sent]
    async with AsyncExitStack() as open_until_here:
        clients = [await open_until_here.enter_async_context(dial(server_without_limits.port)) for _ in sent]
        reading = [asyncio.create_task(read(client, response)) for client, response in zip(clients, seen, strict=True)]
        for client, data in zip(clients, sent, strict=True):
            cut = chance.randrange(len(data) + 1)
            client.send(data[:cut])
            await asyncio.sleep(0)
            client.send(data[cut:])
        await wait_until_nothing_moves(server_without_limits, seen)
    await asyncio.gather(*reading)  # some connections wait for a body that was announced but not sent; others are idle
    for data, response in zip(sent, seen, strict=True):
        assert not response or HEADS.match(response), (data, response)
    assert sum(bool(response) for response in seen) > ROUNDS / 2
    async with dial(server_without_limits.port) as client:
        client.send(get(b"/alive"))
        assert (await client.response()).body == b"/alive"


async def read(client: RawClient, response: bytearray) -> None:
    """Append received bytes to `response` until the connection ends."""
    with suppress(ConnectionError):
        while piece := await client.reader.read(65536):
            response += piece


async def wait_until_nothing_moves(serving: Served, seen: Sequence[bytearray]) -> None:
    """Wait until nothing has changed for QUIET iterations of the event loop: no new connection, request or received
    byte.
    """
    still, before = 0, (0, 0, 0)
    async with asyncio.timeout(PATIENCE_S):
        while still < QUIET or not before[0]:
            await asyncio.sleep(0)
            now = (sum(map(len, seen)), len(serving.recording_app.heads), serving.runner.client_connections)
            still = still + 1 if now == before else 0
            before = now
