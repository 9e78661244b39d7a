"""The network to the provider is cut during a refresh: before the token endpoint acts, after it acts, or in its
response.
"""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from aiohttp import web

from tests.fakes.gateways import document, tracker_entry, write_entry
from tests.fakes.tracker import Tracker
from tests.selftest.crash import LIMIT_S, call, process, store_expired_connections, write_config
from tests.selftest.points import USUAL
from tests.selftest.trial_result import TrialResult

BEFORE, AFTER, INSIDE = (
    "before the provider acts",
    "after it rotated, before the response",
    "in the middle of the response",
)
CUTS: Final = (BEFORE, AFTER, INSIDE)


class CuttingTracker(Tracker):
    """Cuts the connection of the first token request at `place`. `forgiving`: accepts the previous refresh token again."""

    place: str = BEFORE
    forgiving: bool = False

    async def _token(self, request: web.Request) -> web.Response:
        if self.calls["refresh_token"]:
            return await super()._token(request)
        if self.place == BEFORE:
            await request.post()
            self.calls["refresh_token"] += 1
        else:
            response_with_tokens = await super()._token(request)
            if self.place == INSIDE:
                response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "400"})
                await response.prepare(request)
                assert isinstance(response_with_tokens.body, bytes)
                await response.write(response_with_tokens.body[:20])
        assert request.transport is not None
        request.transport.abort()
        raise asyncio.CancelledError

    def refreshed(self, token: str) -> web.Response:
        for grant in self.grants:
            if self.forgiving and token in grant.spent:
                return web.json_response(self._issued(grant))
        return super().refreshed(token)


async def refresh_and_cut(place: str, folder: Path, *, forgiving: bool) -> TrialResult:
    """Run one refresh and cut its connection at `place`. Call until the status is not 503."""
    tracker = CuttingTracker()
    tracker.place, tracker.forgiving = place, forgiving
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    try:
        await store_expired_connections(folder, config, tracker)
        async with process(USUAL, write_config(folder, config)) as serving:
            status, end = 503, time.monotonic() + LIMIT_S
            while status == 503 and time.monotonic() < end:
                status = await call(serving.port)
                await asyncio.sleep(0.1)
        with closing(sqlite3.connect(folder / "gateway.db")) as db:
            reason = db.execute("SELECT state_reason FROM connections").fetchone()[0]
    finally:
        await server.close()
    lost = status != 200
    may_be_lost = place != BEFORE and not forgiving
    result = f"reported as {reason}" if lost else "nothing lost"
    fine = (lost and reason == "rotation_lost") if may_be_lost else not lost
    requests = tracker.calls["refresh_token"]
    grace = "has a grace period" if forgiving else "revokes on reuse"
    outcome = f"{result}; {requests} token requests"
    return TrialResult(f"network cut {place} ({grace})", outcome, int(lost), fine and requests == 2)
