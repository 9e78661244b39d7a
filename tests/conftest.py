"""Fixtures that many tests share: a steerable provider, and a gateway in front of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.clock import Clock
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.tracker import Tracker


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The gateway's monotonic clock."""
    clock = Clock()
    monkeypatch.setattr("gateway.clock.monotonic", clock.monotonic)
    return clock


@pytest.fixture
async def tracker() -> AsyncIterator["Tracker"]:
    """A provider at `tracker.url`."""
    fake = Tracker()
    server = await fake.serve()
    fake.url = f"http://127.0.0.1:{server.port}"
    yield fake
    await server.close()


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with integration `tracker`, whose provider is the fixture of that name."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]))
    await gateway.start()
    yield gateway
    await gateway.stop()
