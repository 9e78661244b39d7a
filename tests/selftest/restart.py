"""PostgreSQL is restarted during calls to two nodes."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Final

import aiohttp

from tests.fakes.nodes import Nodes, nodes
from tests.fakes.postgres import PostgresServer
from tests.fakes.tracker import Tracker
from tests.selftest.trial_result import TrialResult

CALLERS: Final = 8
RECOVERED_S: Final = 20.0
MAX_FAILED_SHARE: Final = 0.001
LIMIT_S: Final = 30.0


async def postgres_restart(folder: Path, server: PostgresServer, *, seconds: float) -> TrialResult:
    """Make calls for `seconds` before the restart and for as long afterwards."""
    tracker = Tracker()
    provider = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{provider.port}"
    url = await server.make_database()
    statuses: Counter[int] = Counter()
    try:
        async with nodes(folder, tracker.url, url, count=2) as running:
            for n in range(CALLERS):
                await running.import_connection(tracker.grant(), f"c{n}")
                for node in range(2):
                    assert (await running.call(node, f"c{n}"))[0] == 200
            stop = asyncio.Event()
            callers = [asyncio.create_task(_calls(running, n, stop, statuses)) for n in range(CALLERS)]
            await asyncio.sleep(seconds)
            await asyncio.to_thread(server.stop)
            status_while_away = await _write(running, tracker)
            server.launch()  # called here and not in a thread, because the server ends with the thread that starts it
            await server.responses()
            began, recovered = time.monotonic(), 0
            while recovered != 201 and time.monotonic() - began < LIMIT_S:
                recovered = await _write(running, tracker)
            recovered_s = time.monotonic() - began
            await asyncio.sleep(seconds)
            stop.set()
            await asyncio.gather(*callers)
    finally:
        await provider.close()
    failed, total = statuses.total() - statuses[200], statuses.total()
    result = f"{failed} of {total} calls failed; writes {status_while_away} meanwhile; recovered in {recovered_s:.1f} s"
    fine = (
        failed <= total * MAX_FAILED_SHARE
        and recovered == 201
        and recovered_s < RECOVERED_S
        and status_while_away == 503
    )
    return TrialResult("PostgreSQL restarted", result, failed, fine)


async def _calls(running: Nodes, number: int, end: asyncio.Event, statuses: Counter[int]) -> None:
    turn = number
    while not end.is_set():
        turn += 1
        try:
            status, _ = await running.call(turn, f"c{number}")
        except aiohttp.ClientError:
            status = 0
        statuses[status] += 1
        await asyncio.sleep(0.02)


async def _write(running: Nodes, tracker: Tracker) -> int:
    tokens = {name: text for name, text in tracker.grant().items() if name.endswith("token")}
    body = {
        "provider_config_key": "tracker",
        "connection_id": "new",
        "credentials": {"type": "OAUTH2", **tokens, "expires_at": "2099-01-01T00:00:00Z"},
    }
    async with running.http.post(f"{running.urls[0]}/connections", json=body) as response:
        return 201 if response.status in (200, 201) else response.status
