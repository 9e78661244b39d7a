"""An orderly shutdown waits for the current token exchange and stores it. No process and no file is left."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker
from tests.selftest.crash import REF, call, process, store_expired_connections, write_config
from tests.selftest.points import USUAL

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.mark.parametrize("group", [False, True])
async def test_a_stop_waits_for_a_refresh_in_flight(tracker: Tracker, tmp_path: Path, group: bool) -> None:
    """`group`: a service manager signals all processes."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
    await store_expired_connections(tmp_path, config, tracker)
    async with process(USUAL, write_config(tmp_path, config)) as serving:
        tracker.hold_response.clear()
        calling = asyncio.create_task(call(serving.port))
        async with asyncio.timeout(PATIENCE_S):
            while not tracker.grants[0].spent:
                await asyncio.sleep(0.005)
        (worker,) = serving.workers()
        for pid in (worker, serving.process.pid) if group else (serving.process.pid,):
            os.kill(pid, signal.SIGTERM)
        await serving.logged("stopping")
        tracker.hold_response.set()
        assert await calling == 200
        assert await serving.ended() == 0
    assert not Path(f"/proc/{worker}").exists()
    assert list((tmp_path / "gateway.db-refresh-journal").iterdir()) == []
    after = RunningGateway(tmp_path, config)
    await after.start()
    row = await after.runtime.store.connections.get(REF)
    assert row is not None
    assert (row.state.value, row.version, row.intent) == ("active", 2, None)
    await after.stop()
