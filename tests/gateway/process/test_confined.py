"""Under the shipped unit's system call filter the gateway starts and refreshes, and killing a worker loses no token."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.fakes import without_syscalls
from tests.fakes.gateways import document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT, ServingProcess
from tests.fakes.tracker import Tracker
from tests.selftest.crash import call, store_expired_connections, wait_for_token_request, write_config

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.mark.skipif(not without_syscalls.GROUPS["resources"], reason="needs Linux on x86-64 or ARM64")
async def test_killed_worker_loses_no_token_under_the_system_call_filter_of_the_unit(
    tracker: Tracker, tmp_path: Path
) -> None:
    """``SystemCallFilter=~@resources`` forbids nice(2), among others."""
    assert "~@privileged @resources" in (ROOT / "deploy" / "gateway.service").read_text()
    assert "setpriority" not in (ROOT / "deploy" / "gateway.service").read_text()
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
    await store_expired_connections(tmp_path, config, tracker)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.without_syscalls", "resources", "gateway"),
        *("serve", "-c", str(write_config(tmp_path, config))),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    serving = ServingProcess(process)
    try:
        await serving.ready()
        tracker.hold_response.clear()
        calling = asyncio.create_task(call(serving.port))
        await wait_for_token_request(tracker)
        async with asyncio.timeout(PATIENCE_S):
            while not tracker.grants[0].spent:
                await asyncio.sleep(0.005)
        for pid in serving.workers():
            os.kill(pid, signal.SIGKILL)
        tracker.hold_response.set()
        await asyncio.gather(calling, return_exceptions=True)
        await serving.logged("worker_died")
        assert await call(serving.port) == 200
        assert tracker.calls["refresh_token"] == 1
        serving.signal(signal.SIGTERM)
        assert await serving.ended() == 0
    finally:
        serving.kill_all()
        await process.wait()
