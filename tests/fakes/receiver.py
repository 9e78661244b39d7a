"""The webhook receiver of a customer: a real server that keeps the requests it received, and fails on demand."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDictProxy

from tests.fakes.patience import PATIENCE_S


@dataclass(frozen=True)
class ReceivedWebhook:
    """A received request, and the status of its response."""

    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    status: int

    @property
    def event(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """A webhook receiver. `response`: returns the response to a path and a body. While `hold` is unset, responses wait."""

    url: str = ""
    response: Callable[[str, Any], web.Response] = lambda _path, _body: web.Response(status=204)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[ReceivedWebhook] = field(default_factory=list)
    held: int = 0  # number of requests that have no response yet
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self) -> TestServer:
        self.hold.set()
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", self._receive)
        server = TestServer(app)
        await server.start_server()
        self.url = f"http://127.0.0.1:{server.port}"
        return server

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    @property
    def taken(self) -> list[ReceivedWebhook]:
        """Return the requests that got a 2xx response, in order."""
        return [webhook for webhook in self.got if 200 <= webhook.status < 300]

    def events(self) -> list[tuple[str, str]]:
        """Return connection and event of the accepted requests, in order. An event that was sent several times is
        listed once.
        """
        once = {webhook.headers.get("webhook-id", str(n)): webhook.event for n, webhook in enumerate(self.taken)}
        return [(event["connectionId"], event["event"]) for event in once.values()]

    async def wait_until(self, enough: Callable[[], Any], within_s: float = PATIENCE_S) -> None:
        """Wait until `enough()` is true."""
        async with asyncio.timeout(within_s):
            while not enough():
                self._changed.clear()
                await self._changed.wait()

    async def wait_until_taken(self, number: int) -> list[ReceivedWebhook]:
        await self.wait_until(lambda: len(self.taken) >= number)
        return self.taken

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.held += 1
        self._changed.set()
        await self.hold.wait()
        self.held -= 1
        response = self.response(request.path, body)
        self.got.append(ReceivedWebhook(request.path, request.headers, body, response.status))
        self._changed.set()
        return response
