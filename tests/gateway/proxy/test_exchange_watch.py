"""The time limit on silence: a caller that reads slowly is not silent."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.streams import EMPTY_PAYLOAD

from gateway.proxy.exchange_watch import ExchangeTimeout, ExchangeWatch
from tests.fakes.clock import Clock


async def test_a_caller_that_still_reads_from_the_socket_buffer_does_not_count_as_silent(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The caller reads until the fourth check, and each check comes 40 s after the one before."""
    held_up = [400, 300, 200, 100, 100, 100]

    def next_held_up(_transport: asyncio.WriteTransport) -> int:
        clock.ahead_s += 40
        return held_up.pop(0)

    monkeypatch.setattr("gateway.proxy.exchange_watch.bytes_held_up", next_held_up)
    monkeypatch.setattr("gateway.proxy.exchange_watch.CHECK_EVERY_S", 0.0)
    request: Any = SimpleNamespace(
        transport=SimpleNamespace(is_closing=lambda: False), get=lambda _: None, content=EMPTY_PAYLOAD, protocol=None
    )
    with pytest.raises(ExchangeTimeout), ExchangeWatch(request, 60):
        await asyncio.Event().wait()
    assert held_up == []
