"""The process that holds the lease of a refresh is blocked until the lease expires. It continues after another process."""

import asyncio
import os
import signal
from pathlib import Path

from gateway.journal.journal_folder import journal_beside
from gateway.journal.reader import open_records
from tests.fakes.gateways import document, tracker_entry, write_entry
from tests.selftest.crash import LIMIT_S, GraceTimeTracker, call, process, store_expired_connections, write_config
from tests.selftest.points import USUAL
from tests.selftest.trial_result import TrialResult


async def stalled_holder(folder: Path, *, parent: bool = False) -> TrialResult:
    """Block the first process, then let the provider respond. Its parent journals the reply, and the second process
    finds it.

    `parent`: block the parent too, so that no process has the reply. Then the second process waits, and does not send
    the token again.
    """
    tracker = GraceTimeTracker()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    try:
        await store_expired_connections(folder, config, tracker)
        file = write_config(folder, config)
        async with process(USUAL, file) as sleeper, process(USUAL, file) as second:
            tracker.hold.clear()
            waiting = asyncio.create_task(call(sleeper.port))
            async with asyncio.timeout(LIMIT_S):
                while not tracker.calls["refresh_token"]:
                    await asyncio.sleep(0.005)
            stopped = [*sleeper.workers(), *([sleeper.process.pid] if parent else [])]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            tracker.hold.set()
            if not parent:  # a starved parent may be later than the end of the lease; then 503 is right
                await _wait_until_journaled(journal_beside(folder / "gateway.db"))
            other = await call(second.port)
            requests = tracker.calls["refresh_token"]
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            late = await waiting
            after = [await call(node.port) for node in (sleeper, second, sleeper, second)]
    finally:
        await server.close()
    wanted = 503 if parent else 200
    fine = (other, late, requests, after) == (wanted, 200, 1, [200] * 4) and tracker.calls["refresh_token"] == 1
    text = (
        f"{requests} token requests; the second one got {other}, the late one overwrote nothing ({late}); then {after}"
    )
    stalled = "lease holder and its parent" if parent else "lease holder"
    return TrialResult(f"{stalled} stalled past its lease", text, 0 if fine else 1, fine)


async def _wait_until_journaled(journal: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not any(record.sealed for record in open_records(journal)):
            await asyncio.sleep(0.005)
