"""A gateway that sends its events to a receiver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.errors import GatewayError
from gateway.records.connection import ConnectionRef
from gateway.records.event import Delivery
from gateway.store import EventFilter
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.connections.conftest import advance_clock

__all__ = ["advance_clock"]

EXPIRED_S = 3601
OUTAGE = web.Response(status=503)
GONE = web.json_response({"error": "invalid_grant", "error_description": "no such token"}, status=400)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    fake = Receiver()
    server = await fake.serve()
    yield fake
    fake.hold.set()
    await server.close()


@pytest.fixture
def settings(tracker: Tracker, receiver: Receiver, tmp_path: Path) -> dict[str, Any]:
    """The gateway.yaml of `event_gateway`. A test may change it before `event_gateway` starts."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    ports = (tracker.url.rpartition(":")[2], receiver.port)
    configuration = document([f"127.0.0.1/32:{port}" for port in ports])
    configuration["environments"]["dev"]["webhook_url"] = f"{receiver.url}/events"
    return configuration


@pytest.fixture
async def event_gateway(settings: dict[str, Any], tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with integration `tracker` that sends its events to `receiver`."""
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    yield gateway
    await gateway.stop()


async def refresh_now(gateway: RunningGateway, connection_id: str = "c1") -> None:
    """Refresh the connection now, and ignore the outcome."""
    ref = ConnectionRef("dev", "tracker", connection_id)
    row = await gateway.runtime.store.connections.get(ref)
    assert row is not None
    with suppress(GatewayError):
        await gateway.runtime.refresher.refresh(row, force=True)


async def deliveries_of(gateway: RunningGateway, **what: Any) -> list[Delivery]:
    """Return deliveries, oldest first."""
    return (await gateway.runtime.store.event_log.list(EventFilter(environment="dev", **what)))[::-1]


async def wait_for_attempts(gateway: RunningGateway, attempts: int) -> Delivery:
    """Return the newest event as soon as that many attempts are recorded."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := await deliveries_of(gateway))[-1].attempts < attempts:
            await gateway.runtime.deliverer.wait_until_idle()
            await asyncio.sleep(0)
    return found[-1]


async def deliver_due_events(gateway: RunningGateway) -> None:
    """Send the deliveries that are due, and wait until they are finished."""
    await gateway.runtime.deliverer.run_once()
    await gateway.runtime.deliverer.wait_until_idle()
