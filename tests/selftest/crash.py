"""One crash: a gateway is killed at a named point of a refresh, another takes its place, and what was lost is seen."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.processes import ROOT, Serving
from tests.fakes.tracker import Tracker
from tests.selftest.points import POINTS

REF: Final = ConnectionRef("dev", "tracker", "c1")
AT_PROVIDER: Final = "at the provider, before it rotates"
ROTATING: Final = "at the provider, after it rotated"
PARENT: Final = "there too, the parent alone"
ALONE: Final = "there too, the parent with its worker"
HELD: Final = (AT_PROVIDER, ROTATING, PARENT, ALONE)
ALL: Final = (*(point for point in POINTS if point != "never"), *HELD)
LIMIT_S: Final = 30.0
DISTANCE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """`killed`: the process did die there. `requests`: token requests in all, `status`: of a call afterwards, `reason`: of
    the connection's state, `entries`: its history. `sound`: whether SQLite finds its file in order.
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
        """Lost without being told so: what must never be."""
        return self.lost and self.reason != "rotation_lost"


class Distant(Tracker):
    """Works a refresh off at once; its answer takes a while to get here."""

    async def _token(self, request: web.Request) -> web.Response:
        answer = await super()._token(request)
        await asyncio.sleep(DISTANCE_S)
        return answer


class Forgiving(Distant):
    """Takes the refresh token before the last one again, as providers with a grace time do."""

    def _refreshed(self, token: str) -> web.Response:
        for grant in self.grants:
            if token in grant.spent:
                return web.json_response(self._issued(grant))
        return super()._refreshed(token)


async def crash(point: str, folder: Path, *, forgiving: bool = False, url: str | None = None) -> Outcome:
    """Kill a worker at `point`; at some points its parent. `url`: of another store."""
    tracker = Forgiving() if forgiving else Distant()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    config["store"]["url"] = url or config["store"]["url"]
    try:
        await expired(folder, config, tracker)
        killed = await _killed(point, folder, config, tracker)
        return await _seen(folder, config, tracker, killed)
    finally:
        await server.close()


async def expired(folder: Path, config: dict[str, Any], tracker: Tracker) -> None:
    """Leave a connection in the database whose token has ended, so that the next call refreshes it."""
    before = RunningGateway(folder, config)
    await before.start()
    try:
        ended = {name: value for name, value in tracker.grant().items() if name != "expires_in"}
        await before.imported({**ended, "expires_at": "2020-01-01T00:00:00Z"})
    finally:
        await before.stop()


async def _killed(point: str, folder: Path, config: dict[str, Any], tracker: Tracker) -> bool:
    """Whether it died there. A worker is replaced and serves on; a parent is gone, and its workers end too."""
    file = written(folder, config)
    async with process("never" if point in HELD else point, file) as serving:
        if point in HELD:
            (tracker.hold if point == AT_PROVIDER else tracker.hold_answer).clear()
        calling = asyncio.create_task(call(serving.port))
        if point in HELD:
            await asked(tracker)
        if point == ALONE:
            serving.kill_all()
        elif point == PARENT:
            serving.signal(signal.SIGKILL)
        elif point in HELD:
            for pid in serving.workers():
                os.kill(pid, signal.SIGKILL)
        if point in (PARENT, ALONE):
            code = await serving.ended()  # before the reply could come
        if point == AT_PROVIDER:
            tracker.answer = web.Response(status=503)
        tracker.hold.set()
        tracker.hold_answer.set()
        if point in HELD:
            await asyncio.sleep(0.1)
        tracker.answer = None
        await asyncio.gather(calling, return_exceptions=True)
        if point in (PARENT, ALONE):
            return code == -signal.SIGKILL
        died = await serving.logged("worker_died")
        await _served(serving)
        serving.signal(signal.SIGTERM)
        await serving.ended()
        return bool(died[0]["exit"] == -signal.SIGKILL)


async def _served(serving: Serving) -> None:
    """By the worker that replaced the dead one: it takes the refresh up, and a call waits for it."""
    async with asyncio.timeout(LIMIT_S):
        await call(serving.port)


async def asked(tracker: Tracker) -> None:
    """Wait until the token endpoint has a request."""
    async with asyncio.timeout(LIMIT_S):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0.001)


def written(folder: Path, config: dict[str, Any]) -> Path:
    """`config` for processes, each on a port of its own."""
    file = folder / "killed.yaml"
    file.write_text(json.dumps({**config, "server": {**config["server"], "port": 0}}))
    return file


@asynccontextmanager
async def process(point: str, file: Path) -> AsyncIterator[Serving]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.selftest.points", point, "serve", "-c", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(file.parent)},
    )
    serving = Serving(started)
    try:
        await serving.ready()
        yield serving
    finally:
        serving.kill_all()
        await started.wait()


async def call(port: int) -> int:
    gateway = RunningGateway(Path(), {})
    headers = {**gateway.headers, "Provider-Config-Key": "tracker", "Connection-Id": "c1"}
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/proxy/x", headers=headers) as answer:
        return answer.status


async def _seen(folder: Path, config: dict[str, Any], tracker: Tracker, killed: bool) -> Outcome:
    sound = _is_sound(folder / "gateway.db")
    after = RunningGateway(folder, config)
    await after.start()
    try:
        status = await _status(after)
        if (
            status == 503
        ):  # a worker noted that its parent had gone, before it ended too: the next attempt is to come later
            await after.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true")
            status = await _status(after)
        async with after.proxied("c1") as answer:
            assert answer.status == status
        row = await after.runtime.store.connections.get(REF)
        assert row is not None
        history = await after.runtime.store.history.of(row.id)
        entries = tuple(f"{change.state.value}: {change.reason}" for change in history)
        return Outcome(
            killed, tracker.calls["refresh_token"], status, row.state.value, row.state_reason, entries, sound
        )
    finally:
        await after.stop()


async def _status(gateway: RunningGateway) -> int:
    async with gateway.proxied("c1") as answer:
        return answer.status


def _is_sound(database: Path) -> bool:
    """True also where the store is not SQLite's."""
    if not database.exists():
        return True
    with closing(sqlite3.connect(database)) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))
