"""`gateway serve` when its worker or parent dies: what happens to requests in flight, and what runs afterwards."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway import clock
from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import Files, NodeFile, ServingProcess, head, serving
from tests.fakes.raw import exchange, parsed
from tests.fakes.tracker import Tracker

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

CONNECTIONS = 20
OTHER_KEY = "sk-other-0123456789abcdef"


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def status_of(gateway: ServingProcess, request: bytes) -> int:
    return parsed(await exchange(gateway.port, request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).status


async def ask(port: int, path: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.json()


class ExpiredConnections:
    """A gateway's folder with connections of one provider whose tokens have expired."""

    def __init__(self, folder: Path, tracker: Tracker) -> None:
        self.folder, self.tracker = folder, tracker
        write_entry(folder, "tracker", tracker_entry(tracker.url))
        self.document = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
        self.file = folder / "node.yaml"
        self.file.write_text(json.dumps(self.document))

    async def make(self) -> None:
        before = RunningGateway(self.folder, self.document)
        await before.start()
        for number in range(CONNECTIONS):
            ended = {name: value for name, value in self.tracker.grant().items() if name != "expires_in"}
            await before.import_connection({**ended, "expires_at": "2020-01-01T00:00:00Z"}, f"c{number}")
        await before.stop()

    @asynccontextmanager
    async def in_flight(self) -> AsyncIterator[tuple[ServingProcess, "asyncio.Future[list[Any]]"]]:
        """Yield a gateway while it refreshes every connection, with the provider's replies held back, and the waiting
        calls.
        """
        await self.make()
        async with serving(NodeFile(self.file)) as gateway:
            self.tracker.hold_response.clear()
            calls = asyncio.gather(
                *(self.call(gateway.port, number) for number in range(CONNECTIONS)), return_exceptions=True
            )
            await wait_until(lambda: sum(bool(grant.spent) for grant in self.tracker.grants) == CONNECTIONS)
            yield gateway, calls
            self.tracker.hold_response.set()

    async def call(self, port: int, number: int) -> int:
        headers = {
            **RunningGateway(Path(), {}).headers,
            "Provider-Config-Key": "tracker",
            "Connection-Id": f"c{number}",
        }
        url = f"http://127.0.0.1:{port}/proxy/x"
        async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as response:
            return response.status

    async def states(self) -> list[tuple[int, str, str | None]]:
        """Start another gateway and return for each connection: status of a forced refresh, state and its reason."""
        after = RunningGateway(self.folder, self.document)
        await after.start()
        found = []
        for number in range(CONNECTIONS):
            path = f"/connections/c{number}?provider_config_key=tracker&refresh_token=true"
            async with after.http.get(after.url + path, headers=after.headers) as response:
                status = response.status
            row = await after.runtime.store.connections.get(ConnectionRef("dev", "tracker", f"c{number}"))
            assert row is not None
            found.append((status, row.state.value, row.state_reason))
        await after.stop()
        return found


async def test_a_killed_worker_loses_no_refresh_in_flight(tmp_path: Path, tracker: Tracker) -> None:
    expired = ExpiredConnections(tmp_path, tracker)
    async with expired.in_flight() as (gateway, calls):
        (worker,) = gateway.workers()
        os.kill(worker, signal.SIGKILL)
        tracker.hold_response.set()
        await calls
        await gateway.logged("worker_died")
        statuses = await asyncio.gather(*(expired.call(gateway.port, number) for number in range(CONNECTIONS)))
        assert statuses == [200] * CONNECTIONS
        gateway.signal(signal.SIGTERM)
        assert await gateway.ended() == 0
    assert tracker.calls["refresh_token"] == CONNECTIONS
    assert {state[:2] for state in await expired.states()} == {(200, "active")}
    assert list((tmp_path / "gateway.db-refresh-journal").glob("*.journal")) == []


async def test_killed_parent_loses_requests_in_flight_and_reports_each(
    tmp_path: Path, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = ExpiredConnections(tmp_path, tracker)
    async with expired.in_flight() as (gateway, calls):
        gateway.process.kill()
        assert set(await calls) == {503}, "the worker responds to open calls and ends"
        assert await gateway.ended() == -signal.SIGKILL
        assert gateway.entries("parent_lost")
        assert gateway.entries("stopped")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", gateway.port)
    real = clock.now
    monkeypatch.setattr("gateway.clock.now", lambda: real() + timedelta(seconds=60))
    # Its worker has recorded an outage, after which the provider is not called for a while.
    assert set(await expired.states()) == {(424, "needs_reauth", "rotation_lost")}
    assert tracker.calls["refresh_token"] == 2 * CONNECTIONS


async def test_replacement_uses_the_last_accepted_configuration_if_the_file_is_broken(tmp_path: Path) -> None:
    files = Files(tmp_path, 9)
    async with serving(files) as gateway:
        await gateway.connect()
        files.document["environments"]["more"] = {"secret_keys": [OTHER_KEY]}
        files.write()
        gateway.signal(signal.SIGHUP)
        await gateway.logged("reloaded")
        files.path.write_text("server: {port: nonsense}\n")
        (tmp_path / "catalog" / "up.yaml").write_text("nonsense: [")
        gateway.signal(signal.SIGHUP)
        await gateway.logged("reload_refused")  # logged after the parent knows of the first reload
        (worker,) = gateway.workers()
        os.kill(worker, signal.SIGKILL)
        await gateway.logged("worker_died")
        await wait_until(lambda: gateway.workers() not in ([], [worker]))
        assert await status_of(gateway, head("/short", OTHER_KEY)) == 404, (
            "the key is known, but has no such connection"
        )
        assert await status_of(gateway, head("/short", "sk-unknown-0123456789abc")) == 401
        gateway.signal(signal.SIGTERM)
        assert await gateway.ended() == 0


async def test_unwritable_journal_is_reported_until_it_is_writable(tmp_path: Path) -> None:
    (tmp_path / "gateway.db-refresh-journal").touch()  # a file in place of its folder
    async with serving(Files(tmp_path, 9, admin_port=0)) as gateway:
        (entry, *_) = await gateway.logged("refresh_journal_unwritable")
        assert entry["level"] == "error"
        admin = int(gateway.metrics_url.rpartition(":")[2].partition("/")[0])
        for port in (gateway.port, admin):
            async with asyncio.timeout(PATIENCE_S):
                while await ask(port, "/ready") != (200, {"result": "ok", "journal": "unwritable"}):
                    await asyncio.sleep(0.05)
        assert "gateway_refresh_journal_unwritable 1" in await gateway.metrics()
        (tmp_path / "gateway.db-refresh-journal").unlink()
        await gateway.logged("refresh_journal_writable")
        for port in (gateway.port, admin):
            async with asyncio.timeout(PATIENCE_S):
                while await ask(port, "/ready") != (200, {"result": "ok"}):
                    await asyncio.sleep(0.05)


async def test_the_parent_responds_to_probes_while_a_worker_does_not(tmp_path: Path) -> None:
    async with serving(Files(tmp_path, 9, admin_port=0)) as gateway:
        admin = int(gateway.metrics_url.rpartition(":")[2].partition("/")[0])
        async with asyncio.timeout(PATIENCE_S):
            while (await ask(admin, "/ready"))[0] != 200:
                await asyncio.sleep(0.05)
        (worker,) = gateway.workers()
        os.kill(worker, signal.SIGSTOP)
        assert await ask(admin, "/health") == (200, {"result": "ok"})
        assert await ask(admin, "/ready") == (200, {"result": "ok"})
        os.kill(worker, signal.SIGCONT)
        gateway.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            while await ask(admin, "/ready") != (503, {"result": "not ready"}):
                pass
        assert await gateway.ended() == 0
