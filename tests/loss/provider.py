"""A strict provider: one-time refresh tokens, slow answers, and a record of which node sent each request."""

import asyncio
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway import clock
from tests.fakes.tracker import Grant, Tracker

SLOWEST_S: Final = 1.5
ON_THE_WAY_S: Final = 1.0  # an answer sent within this time may not have been read


@dataclass
class StrictProvider(Tracker):
    """Revokes a grant when it receives a refresh token twice. It rotates immediately, and answers later with a dated
    access token.
    """

    dice: random.Random = field(default_factory=random.Random)
    _by_token: dict[str, Grant] = field(default_factory=dict)
    _under_way: dict[str, tuple[str, float | None]] = field(default_factory=dict)  # token ▸ node, time of the answer

    async def _token(self, request: web.Request) -> web.Response:
        token = str((await request.post()).get("refresh_token", ""))
        self.calls["refresh_token"] += 1
        node = request.remote or ""
        self._under_way[token] = (node, None)
        response = self.refreshed(token)
        await asyncio.sleep(self.dice.uniform(0.05, SLOWEST_S))
        if response.status == 200:
            assert isinstance(response.body, bytes)
            lasting = json.loads(response.body)
            self._ends[lasting["access_token"]] = math.floor(clock.now().timestamp() + lasting["expires_in"])
        self._under_way[token] = (node, time.monotonic())
        return response

    def refreshed(self, token: str) -> web.Response:
        grant = self._by_token.get(token) or next((one for one in self.grants if one.refresh_token == token), None)
        if grant is None:
            return web.json_response({"error": "invalid_grant", "error_description": "Unknown token"}, status=400)
        self._by_token[token] = grant
        if token in grant.spent:
            grant.revoked = True
        if grant.revoked:
            return web.json_response({"error": "invalid_grant", "error_description": "Spent token"}, status=400)
        grant.spent.add(token)
        grant.refresh_token = f"refresh-{next(self._numbers)}"
        return web.json_response(self._issued(grant))

    def in_flight(self, node: str, *, since: float | None = None) -> list[Grant]:
        """Return the grants whose refresh that node has requested without, possibly, having read the answer.

        `since`: also count the answers sent after that time.
        """
        late = time.monotonic() - ON_THE_WAY_S
        if since is not None:
            late = min(late, since)
        tokens = [token for token, (by, at) in self._under_way.items() if by == node and (at is None or at > late)]
        return [self._by_token[token] for token in tokens if token in self._by_token]
