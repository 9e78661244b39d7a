"""A strict provider: one-time refresh tokens, slow responses, and a record of which node sent each request."""

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
UNREAD_S: Final = 1.0  # the node may not yet have read a response that is younger than this


@dataclass
class StrictProvider(Tracker):
    """Revokes a grant when it receives a refresh token twice.

    The provider rotates the token immediately and sends its response later. The lifetime of the access token begins
    with the response.
    """

    dice: random.Random = field(default_factory=random.Random)
    _by_token: dict[str, Grant] = field(default_factory=dict)
    # refresh token ▸ (node that sent the token, monotonic time of the response)
    _requests: dict[str, tuple[str, float | None]] = field(default_factory=dict)

    async def _token(self, request: web.Request) -> web.Response:
        token = str((await request.post()).get("refresh_token", ""))
        self.calls["refresh_token"] += 1
        node = request.remote or ""
        self._requests[token] = (node, None)
        response = self.refreshed(token)
        await asyncio.sleep(self.dice.uniform(0.05, SLOWEST_S))
        if response.status == 200:
            assert isinstance(response.body, bytes)
            tokens = json.loads(response.body)
            self._ends[tokens["access_token"]] = math.floor(clock.now().timestamp() + tokens["expires_in"])
        self._requests[token] = (node, time.monotonic())
        return response

    def refreshed(self, token: str) -> web.Response:
        grant = self._by_token.get(token) or next(
            (known for known in self.grants if known.refresh_token == token), None
        )
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
        """Return the grants with a refresh that this node requested, if the node may not have read the response.

        `since`: a monotonic time; responses sent after it count too.
        """
        unread_after = time.monotonic() - UNREAD_S
        if since is not None:
            unread_after = min(unread_after, since)
        tokens = [
            token
            for token, (sender, responded_at) in self._requests.items()
            if sender == node and (responded_at is None or responded_at > unread_after)
        ]
        return [self._by_token[token] for token in tokens if token in self._by_token]
