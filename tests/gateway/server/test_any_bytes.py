"""Whatever comes, the server answers in HTTP or not at all, and goes on serving others."""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator

import pytest

from tests.fakes.raw import dial
from tests.gateway.server.conftest import Served, Shown, served
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


def spoiled(chance: random.Random) -> bytes:
    """One or two messages, with a few bytes gone, changed, repeated or put in."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.randint(1, 2))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.randint(0, 6))
        data[at:to] = chance.choice([b"", chance.choice(SPICE), bytes([chance.randrange(256)]), data[at:to] * 2])
    return bytes(data)


@pytest.fixture
async def brisk(shown: Shown) -> AsyncIterator[Served]:
    """A server that waits for nothing long, so that every connection of the test comes to its end."""
    shown.release.set()
    serving = await served(shown, head_s=1.0, keep_alive_s=0.1)
    yield serving
    await serving.runner.cleanup()


@pytest.mark.parametrize("seed", range(4))
async def test_spoiled_messages_are_answered_in_http(brisk: Served, seed: int) -> None:
    chance = random.Random(seed)
    sent = [spoiled(chance) for _ in range(ROUNDS)]
    seen = await asyncio.gather(*(answered(brisk.port, data, chance.randrange(len(data) + 1)) for data in sent))
    for data, answer in zip(sent, seen, strict=True):
        assert not answer or HEADS.match(answer), (data, answer)
    assert sum(bool(answer) for answer in seen) > ROUNDS / 2
    async with dial(brisk.port) as client:
        client.send(get(b"/alive"))
        assert (await client.answer()).body == b"/alive"


async def answered(port: int, data: bytes, cut: int) -> bytes:
    """What comes back. A body that is announced and never sent would be waited for, so the client ends that."""
    seen = bytearray()
    async with dial(port) as client:
        client.send(data[:cut])
        await asyncio.sleep(0)
        client.send(data[cut:])
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):
                while piece := await client.reader.read(65536):
                    seen += piece
    return bytes(seen)
