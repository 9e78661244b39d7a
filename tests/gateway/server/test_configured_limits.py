"""`server.limits` in gateway.yaml limits the connections of clients. A runner's own arguments replace these limits."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.app.compose import CHECKED_CONFIGURATION
from gateway.config import ClientLimitsConfig, parse
from tests.fakes.gateways import ENCRYPTION_KEY
from tests.fakes.raw import dial, exchange
from tests.gateway.server.conftest import RecordingApplication, Served, served
from tests.gateway.server.test_crowded import all_of, client_that_does_not_read, wait_for_one_connection, with_large
from tests.gateway.server.test_refusals import get

Serve = Callable[..., Awaitable[Served]]
# Without the configuration, no limit would end anything during a test.
PATIENT = ClientLimitsConfig(head_s=600, keep_alive_s=600, answer_idle_s=600)


@pytest.fixture
async def configured(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Start a server whose gateway.yaml has these `server.limits`."""
    monkeypatch.setattr(import_module("gateway.server.runner"), "DEFAULT_LIMITS", PATIENT)
    async with AsyncExitStack() as around:

        async def start(recording_app: RecordingApplication, **limits: float) -> Served:
            document = {"store": {"encryption_keys": [ENCRYPTION_KEY]}, "server": {"limits": limits}}
            checked: Any = SimpleNamespace(config=parse(document, base=Path.cwd(), environ={}))
            recording_app.app[CHECKED_CONFIGURATION] = checked
            server = await served(recording_app)
            around.push_async_callback(server.runner.cleanup)
            return server

        yield start


async def test_connections_limits_the_clients(configured: Serve, recording_app: RecordingApplication) -> None:
    server = await configured(recording_app, connections=1)
    async with dial(server.port) as first:
        first.send(get(b"/one"))
        assert (await first.response()).status == 200
        async with dial(server.port) as second:
            assert (await second.response()).error["code"] == "busy"


async def test_head_s_limits_the_time_for_a_head(configured: Serve, recording_app: RecordingApplication) -> None:
    server = await configured(recording_app, head_s=0.05)
    assert await exchange(server.port, b"GET / HTTP/1.1\r\nHost: gw") == b""


async def test_keep_alive_s_limits_the_time_between_requests(
    configured: Serve, recording_app: RecordingApplication
) -> None:
    server = await configured(recording_app, keep_alive_s=0.05)
    async with dial(server.port) as client:
        client.send(get(b"/one"))
        assert (await client.response()).status == 200
        assert await client.until_closed() == b""


async def test_answer_idle_s_limits_the_time_in_which_a_client_reads_nothing(configured: Serve) -> None:
    server = await configured(with_large(), answer_idle_s=0.2, head_s=0.4)
    sock = await client_that_does_not_read(server.port)
    try:
        await wait_for_one_connection(server)
        with pytest.raises(ConnectionResetError):
            await all_of(sock)
    finally:
        sock.close()
