"""A channel reports once that the other process has closed it, and does not report its own closing."""

import asyncio
import socket

import pytest

from gateway.process.channel import Channel
from tests.fakes.patience import PATIENCE_S

# One event loop is enough for these tests.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_closing_this_end_is_not_reported() -> None:
    lost = asyncio.Event()
    own_end, other_end = socket.socketpair()
    with other_end:
        channel = Channel(lambda _: None, lost.set)
        await channel.open(own_end)
        await channel.close()
    assert not lost.is_set()


async def test_the_end_of_the_other_process_is_reported() -> None:
    lost = asyncio.Event()
    own_end, other_end = socket.socketpair()
    channel = Channel(lambda _: None, lost.set)
    await channel.open(own_end)
    other_end.close()
    async with asyncio.timeout(PATIENCE_S):
        await lost.wait()
    await channel.close()
    assert lost.is_set()
