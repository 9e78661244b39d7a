"""The API behind the gateway, and a proxy for the token endpoint, both in the test's process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web

from tests.oauth_servers.server import OAuthServer

PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request that the gateway sent to the token endpoint, and the server's response."""

    form: Mapping[str, str]
    status: int
    response: bytes


@dataclass
class Api:
    """``GET /whoami`` at `url` returns the user of the bearer token, looked up at the OAuth server each time, or 401.

    `token_url` forwards requests to the server's token endpoint while `open` is set, and records them in
    `token_requests`.
    """

    server: OAuthServer
    http: aiohttp.ClientSession
    url: str = ""
    token_requests: list[TokenRequest] = field(default_factory=list)
    arrived: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def refreshes(self) -> int:
        """Return how many token requests with a refresh token the server has responded to."""
        return sum(request.form.get("grant_type") == "refresh_token" for request in self.token_requests)

    async def whoami(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        user = await self.server.user_of(self.http, token) if scheme == "Bearer" else None
        if user is None:
            return web.json_response({"error": "invalid_token"}, status=401, headers={"WWW-Authenticate": "Bearer"})
        return web.json_response({"user": user})

    async def token(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.arrived += 1
        await self.open.wait()
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        async with self.http.post(self.server.token_url, data=body, headers=headers) as response:
            read = await response.read()
            self.token_requests.append(TokenRequest(dict(parse_qsl(body.decode())), response.status, read))
            kept = {name: value for name, value in response.headers.items() if name in ("Content-Type", "Retry-After")}
            return web.Response(status=response.status, body=read, headers=kept)


@asynccontextmanager
async def serving(server: OAuthServer) -> AsyncIterator[Api]:
    """Run the API and the token endpoint on a free loopback port."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=20)) as http:
        api = Api(server, http)
        api.open.set()
        app = web.Application()
        app.router.add_get("/whoami", api.whoami)
        app.router.add_post("/token", api.token)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
            await site.start()
            api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield api
        finally:
            await runner.cleanup()
