"""The process that holds a refresh's lease stands still until the lease has run out, and wakes when another has renewed."""

import asyncio
import os
import signal
from pathlib import Path

from tests.fakes.gateways import document, tracker_entry, write_entry
from tests.selftest.crash import LIMIT_S, Forgiving, call, expired, process, written
from tests.selftest.points import USUAL
from tests.selftest.seen import Seen


async def stalled_holder(folder: Path, *, parent: bool = False) -> Seen:
    """The provider answers the first while it stands still. Its parent journals the reply, and the second one finds it.

    `parent`: that stands still too, so nobody has the reply; the second one waits, and does not send the token again.
    """
    tracker = Forgiving()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    try:
        await expired(folder, config, tracker)
        file = written(folder, config)
        async with process(USUAL, file) as sleeper, process(USUAL, file) as second:
            tracker.hold.clear()
            waiting = asyncio.create_task(call(sleeper.port))
            async with asyncio.timeout(LIMIT_S):
                while not tracker.calls["refresh_token"]:
                    await asyncio.sleep(0.005)
            stilled = [*sleeper.workers(), *([sleeper.process.pid] if parent else [])]
            for pid in stilled:
                os.kill(pid, signal.SIGSTOP)
            tracker.hold.set()
            other = await call(second.port)
            asked = tracker.calls["refresh_token"]
            for pid in stilled:
                os.kill(pid, signal.SIGCONT)
            late = await waiting
            after = [await call(node.port) for node in (sleeper, second, sleeper, second)]
    finally:
        await server.close()
    wanted = 503 if parent else 200
    fine = (other, late, asked, after) == (wanted, 200, 1, [200] * 4) and tracker.calls["refresh_token"] == 1
    answer = (
        f"{asked} token requests; the second one got {other}, the late one overwrote nothing ({late}); then {after}"
    )
    who = "lease holder and its parent" if parent else "lease holder"
    return Seen(f"{who} stalled past its lease", answer, 0 if fine else 1, fine)
