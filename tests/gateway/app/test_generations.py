"""The egress of a generation has the limits of gateway.yaml."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.app.generations import build_egress
from gateway.config import parse
from gateway.egress.client import Egress, Timeouts
from gateway.egress.egress_errors import EgressError
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import raw_provider
from tests.gateway.egress.test_pool import hold_response

ENCRYPTION_KEY = "JiURJZyxq9u8wNGbojb4XRaHcZEAUy+EK5yLz55SrSM="


def egress_of(**section: Any) -> Egress:
    """Return the egress that a gateway.yaml with this section `egress` defines."""
    settings = {"store": {"encryption_keys": [ENCRYPTION_KEY]}, "egress": section}
    return build_egress(parse(settings, base=Path.cwd(), environ={}).egress)


async def test_timeouts_are_as_configured() -> None:
    timeouts = {"connect_s": 1, "first_byte_s": 2, "idle_s": 3, "total_s": 4, "max_first_byte_s": 5}
    assert egress_of(timeouts=timeouts).timeouts == Timeouts(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"wait_s": 0.01}, "All 1 connections to .* were in use for 0.01 s"),
        ({"waiting": 0}, "Too many requests wait for a connection"),
    ],
    ids=["wait_s", "waiting"],
)
async def test_connections_to_a_provider_and_the_wait_for_them_are_limited(
    limits: dict[str, float], message: str
) -> None:
    request_arrived, go = asyncio.Event(), asyncio.Event()
    async with raw_provider(hold_response(request_arrived, go)) as provider:
        egress = egress_of(allow=[f"127.0.0.1:{provider.port}"], limits={"connections": 1, **limits})
        first = asyncio.create_task(egress.fetch("GET", provider.origin, timeout_s=PATIENCE_S))
        await request_arrived.wait()
        with pytest.raises(EgressError, match=message):
            await egress.fetch("GET", provider.origin)
        go.set()
        assert (await first).body == b"ok"
        await egress.close()
