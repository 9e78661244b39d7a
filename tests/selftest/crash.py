"""A gateway is killed at a named point of a refresh, another gateway replaces it, and the losses are counted."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.processes import ROOT, ServingProcess
from tests.fakes.tracker import Tracker
from tests.selftest.points import OFTEN, POINTS, order

REF: Final = ConnectionRef("dev", "tracker", "c1")
AT_PROVIDER: Final = "at the provider, before it rotates"
AFTER_ROTATION: Final = "at the provider, after it rotated"
PARENT_ALONE: Final = "at the provider, after it rotated, the parent alone"
PARENT_AND_WORKER: Final = "at the provider, after it rotated, the parent with its worker"
HELD_AT_PROVIDER: Final = (AT_PROVIDER, AFTER_ROTATION, PARENT_ALONE, PARENT_AND_WORKER)
ALL: Final = (*POINTS, *HELD_AT_PROVIDER)
LIMIT_S: Final = 30.0
RESPONSE_DELAY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a crash at one point.

    `killed`: whether the process died at this point. `requests`: total number of token requests. `status`: of a call
    after the next start. `reason`: of the connection's state. `entries`: the connection's history. `sound`: whether
    SQLite's integrity check passes.
    """

    killed: bool
    requests: int
    status: int
    state: str
    reason: str | None
    entries: tuple[str, ...]
    sound: bool

    @property
    def lost(self) -> bool:
        return self.status != 200

    @property
    def silent(self) -> bool:
        """Whether the token was lost without a report, which must never happen."""
        return self.lost and self.reason != "rotation_lost"


class SlowTracker(Tracker):
    """Processes a refresh immediately, and sends its response `RESPONSE_DELAY_S` later."""

    async def _token(self, request: web.Request) -> web.Response:
        response = await super()._token(request)
        await asyncio.sleep(RESPONSE_DELAY_S)
        return response


class GraceTimeTracker(SlowTracker):
    """Accepts the previous refresh token again, as providers with a grace period do."""

    def refreshed(self, token: str) -> web.Response:
        for grant in self.grants:
            if token in grant.spent:
                return web.json_response(self._issued(grant))
        return super().refreshed(token)


async def crash(point: str, folder: Path, *, forgiving: bool = False, url: str | None = None) -> Outcome:
    """Kill a worker at `point`, or its parent if `point` says so. `url`: the URL of a store that is not SQLite; None:
    SQLite.
    """
    return (await crash_at_each([point], folder, forgiving=forgiving, url=url))[point]


async def crash_at_each(
    points: Sequence[str], folder: Path, *, forgiving: bool = False, url: str | None = None
) -> dict[str, Outcome]:
    """Crash a gateway at each of `points`, one after the other. Each point has its own connection.

    All crashes are in one gateway, which replaces its workers. A point at which the parent is killed must be the last
    point.
    """
    tracker = GraceTimeTracker() if forgiving else SlowTracker()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    config["store"]["url"] = url or config["store"]["url"]
    names = {point: f"c{number}" for number, point in enumerate(points, 1)}
    try:
        await store_expired_connections(folder, config, tracker, names.values())
        killed, requests = dict[str, bool](), dict[str, int]()
        async with process(OFTEN, write_config(folder, config)) as serving:
            for deaths, (point, name) in enumerate(names.items(), 1):
                before = tracker.calls["refresh_token"]
                if point in (PARENT_ALONE, PARENT_AND_WORKER):
                    killed[point] = await _kill_parent(point, name, serving, tracker)
                else:
                    killed[point] = await _kill_worker(point, name, folder, serving, tracker, deaths)
                requests[point] = tracker.calls["refresh_token"] - before
            if serving.process.returncode is None:
                serving.signal(signal.SIGTERM)
                await serving.ended()
        return await _outcomes(folder, config, tracker, names, killed, requests)
    finally:
        await server.close()


async def store_expired_connections(
    folder: Path, config: dict[str, Any], tracker: Tracker, names: Iterable[str] = ("c1",)
) -> None:
    """Leave connections with expired tokens in the database, so that the next call refreshes them."""
    before = RunningGateway(folder, config)
    await before.start()
    try:
        for name in names:
            ended = {part: value for part, value in tracker.grant().items() if part != "expires_in"}
            await before.import_connection({**ended, "expires_at": "2020-01-01T00:00:00Z"}, name)
    finally:
        await before.stop()


async def _kill_worker(
    point: str, name: str, folder: Path, serving: ServingProcess, tracker: Tracker, deaths: int
) -> bool:
    """Return whether the worker died at the point. The parent replaces the worker, and the gateway continues."""
    if point in HELD_AT_PROVIDER:
        (tracker.hold if point == AT_PROVIDER else tracker.hold_response).clear()
        before = tracker.calls["refresh_token"]
        calling = asyncio.create_task(call(serving.port, name))
        await wait_for_token_request(tracker, before)
        for pid in serving.workers():
            os.kill(pid, signal.SIGKILL)
        if point == AT_PROVIDER:
            tracker.response = web.Response(status=503)
        await _release_provider(tracker)
    else:
        order(point, folder)
        calling = asyncio.create_task(call(serving.port, name))
    await asyncio.gather(calling, return_exceptions=True)
    died = await serving.logged("worker_died", deaths)
    await _wait_until_served(serving, name)
    return bool(died[deaths - 1]["exit"] == -signal.SIGKILL)


async def _kill_parent(point: str, name: str, serving: ServingProcess, tracker: Tracker) -> bool:
    """Return whether the parent died at the point. Its workers end too."""
    tracker.hold_response.clear()
    before = tracker.calls["refresh_token"]
    calling = asyncio.create_task(call(serving.port, name))
    await wait_for_token_request(tracker, before)
    if point == PARENT_AND_WORKER:
        serving.kill_all()
    else:
        serving.signal(signal.SIGKILL)
    code = await serving.ended()  # the process ends before the reply arrives
    await _release_provider(tracker)
    await asyncio.gather(calling, return_exceptions=True)
    return code == -signal.SIGKILL


async def _release_provider(tracker: Tracker) -> None:
    tracker.hold.set()
    tracker.hold_response.set()
    await asyncio.sleep(0.1)
    tracker.response = None


async def _wait_until_served(serving: ServingProcess, name: str) -> None:
    """Call until the status is not 503. A call waits for the refresh, and a call is repeated if the token endpoint
    failed.
    """
    async with asyncio.timeout(LIMIT_S):
        while await call(serving.port, name) == 503:
            await asyncio.sleep(0.05)


async def wait_for_token_request(tracker: Tracker, before: int = 0) -> None:
    """Wait until the token endpoint has received more requests than `before`."""
    async with asyncio.timeout(LIMIT_S):
        while tracker.calls["refresh_token"] <= before:
            await asyncio.sleep(0.001)


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    """Write `config` for processes that choose their own port, and return the file."""
    file = folder / "killed.yaml"
    file.write_text(json.dumps({**config, "server": {**config["server"], "port": 0}}))
    return file


@asynccontextmanager
async def process(how: str, file: Path) -> AsyncIterator[ServingProcess]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.selftest.points", how, "serve", "-c", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(file.parent)},
    )
    serving = ServingProcess(started)
    try:
        await serving.ready()
        yield serving
    finally:
        serving.kill_all()
        await started.wait()


async def call(port: int, name: str = "c1") -> int:
    gateway = RunningGateway(Path(), {})
    headers = {**gateway.headers, "Provider-Config-Key": "tracker", "Connection-Id": name}
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/proxy/x", headers=headers) as response,
    ):
        return response.status


async def _outcomes(
    folder: Path,
    config: dict[str, Any],
    tracker: Tracker,
    names: Mapping[str, str],
    killed: Mapping[str, bool],
    requests: Mapping[str, int],
) -> dict[str, Outcome]:
    """Start the gateway again. Return the outcome of each point. `requests`: number of token requests so far."""
    sound = _is_sound(folder / "gateway.db")
    after = RunningGateway(folder, config)
    await after.start()
    try:
        return {
            point: await _outcome(after, tracker, name, killed[point], requests[point], sound)
            for point, name in names.items()
        }
    finally:
        await after.stop()


async def _outcome(
    after: RunningGateway, tracker: Tracker, name: str, killed: bool, requests: int, sound: bool
) -> Outcome:
    before = tracker.calls["refresh_token"]
    status = await _status(after, name)
    if status == 503:  # before a worker ended with its parent, it recorded a failure, so the next attempt comes later
        await after.json("GET", f"/connections/{name}?provider_config_key=tracker&force_refresh=true")
        status = await _status(after, name)
    assert await _status(after, name) == status
    row = await after.runtime.store.connections.get(REF._replace(connection_id=name))
    assert row is not None
    history = await after.runtime.store.history.changes_of(row.id)
    entries = tuple(f"{change.state.value}: {change.reason}" for change in history)
    requests += tracker.calls["refresh_token"] - before
    return Outcome(killed, requests, status, row.state.value, row.state_reason, entries, sound)


async def _status(gateway: RunningGateway, name: str) -> int:
    async with gateway.call_proxy(name) as response:
        status: int = response.status
        return status


def _is_sound(database: Path) -> bool:
    """Return whether SQLite's integrity check passes; True for other stores."""
    if not database.exists():
        return True
    with closing(sqlite3.connect(database)) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))
