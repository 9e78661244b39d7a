"""Settings of gateway.yaml that limit or protect something, from the file to their effect.

Other settings of this kind are tested beside the code that uses them, or in `tests/journeys/`.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from gateway.app.generations import check_configuration, read
from gateway.app.lifetime import open_runtime
from gateway.cli.run_command import run_on_opened_store
from gateway.config import Config
from gateway.errors import Unavailable
from gateway.records.audit import AuditFilter
from gateway.store import Store
from tests.fakes.gateways import RunningGateway, document, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import RawProvider, raw_provider
from tests.fakes.tracker import Tracker
from tests.gateway.app.test_reload import reload_gateway, status
from tests.gateway.connections.conftest import advance_clock
from tests.gateway.events.conftest import refresh_now

__all__ = ["advance_clock"]


# ── live: the limits of the connection cache.


@pytest.mark.parametrize(
    ("limits", "added", "cached"), [({"max_connections": 3}, 5, 3), ({"max_bytes": 1 << 20}, 20, 15)]
)
async def test_connection_cache_stays_within_its_limits(
    running: RunningGateway, tracker: Tracker, limits: dict[str, int], added: int, cached: int
) -> None:
    """A connection takes a little more memory than its metadata of 65,000 bytes, so 15 connections fit into 1 MiB."""
    running.document["live"] = limits
    await running.restart()
    for number in range(added):
        await running.import_connection(tracker.grant(), f"c{number}", metadata={"text": "x" * 65_000})
        assert await status(running, f"c{number}") == 200
    assert running.runtime.live.entry_count == cached


async def test_connection_stays_in_memory_for_ttl_s_also_after_a_reload(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    async with asyncio.timeout(PATIENCE_S):
        # a changed connection that the change feed cannot read for `trust_s` is dropped
        while running.runtime.live.feed.unread:
            await asyncio.sleep(0.01)
    advance_clock(200)
    running.runtime.live.sweep()
    assert running.runtime.live.entry_count == 1
    running.document["live"] = {"ttl_s": 100}
    assert await reload_gateway(running)
    running.runtime.live.sweep()
    assert running.runtime.live.entry_count == 0


# ── store.pool.


@pytest.fixture
def pool_config(database: str, tmp_path: Path) -> Path:
    """A gateway.yaml with a pool of one reader, on PostgreSQL."""
    settings = document([]) | {"catalog": [], "environments": {"dev": {}}}
    settings["store"] |= {"url": database, "pool": {"readers": 1, "wait_s": 0.05, "statement_s": 7}}
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "gateway.yaml"


async def assert_pool_is_as_configured(store: Store, _config: Config | None = None) -> int:
    async with store.transactions.read() as db:
        assert (await db.execute(text("SHOW statement_timeout"))).scalar_one() == "7s"
        with pytest.raises(Unavailable):
            async with store.transactions.read():  # the only reader is in use
                pass
    return 0


async def test_pool_of_the_gateway_is_as_configured(pool_config: Path) -> None:
    async with open_runtime(check_configuration(read(pool_config))) as runtime:
        await assert_pool_is_as_configured(runtime.store)


async def test_pool_of_a_command_is_as_configured(pool_config: Path) -> None:
    async with open_runtime(check_configuration(read(pool_config))):
        pass  # creates the data that a command requires
    assert await run_on_opened_store(pool_config, assert_pool_is_as_configured) == 0


# ── egress.


@pytest.fixture
async def outbound() -> AsyncIterator[RawProvider]:
    """An outbound proxy that records each request and refuses it."""
    async with raw_provider(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", close=True) as proxy:
        yield proxy


async def connect_keyed(running: RunningGateway, base_url: str, port: int) -> None:
    """Restart the gateway with an integration `keyed`, which has an API key, and connection `c1` to `base_url`."""
    entry = {"display_name": "Keyed", "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
    write_entry(running.folder, "keyed", {**entry, "proxy": {"base_url": base_url, "headers": {"x-key": "${apiKey}"}}})
    running.document["environments"]["dev"]["integrations"]["keyed"] = {}
    running.document["egress"]["allow"] = [f"127.0.0.1:{port}"]
    await running.restart()
    credentials = {"type": "API_KEY", "apiKey": "k" * 20}
    body = {"provider_config_key": "keyed", "connection_id": "c1", "credentials": credentials}
    await running.json("POST", "/connections", json=body, expect=201)


async def test_calls_go_through_the_outbound_proxy(
    running: RunningGateway, unused_tcp_port: int, outbound: RawProvider
) -> None:
    running.document["egress"]["proxy"] = f"http://127.0.0.1:{outbound.port}"
    await connect_keyed(running, f"https://127.0.0.1:{unused_tcp_port}", unused_tcp_port)
    assert await status(running, integration="keyed") == 502
    assert outbound.request_line() == f"CONNECT 127.0.0.1:{unused_tcp_port} HTTP/1.1"


# ── audit.


async def test_audit_refreshes_decides_whether_each_refresh_is_recorded(
    running: RunningGateway, tracker: Tracker
) -> None:
    async def recorded_refreshes() -> int:
        await running.runtime.audit_keeper.run_once()
        return len(await running.runtime.store.audit.find(AuditFilter(action="connection.refreshed")))

    running.document["audit"] = {"refreshes": "all"}
    await running.restart()
    await running.import_connection(tracker.grant())
    await refresh_now(running)
    assert await recorded_refreshes() == 1
    running.document["audit"] = {"refreshes": "changes"}
    assert await reload_gateway(running)
    await refresh_now(running)
    assert await recorded_refreshes() == 1
    running.document["audit"] = {"refreshes": "all"}
    assert await reload_gateway(running)
    await refresh_now(running)
    assert await recorded_refreshes() == 2
