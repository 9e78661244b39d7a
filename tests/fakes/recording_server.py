"""A server that records all received requests, and issues tokens to every client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass
class RecordingServer:
    """A server.

    `received`: request lines, header fields and bodies, in order. `refuse`: if true, token requests are rejected.

    `location`: redirect target of all other requests. `fields`: header fields of the responses to all other requests.
    Empty: the server responds as an authorization server.
    """

    url: str = ""
    received: list[str] = field(default_factory=list)
    refuse: bool = False
    location: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    rotated: int = 0

    @property
    def everything(self) -> str:
        return "\n".join(self.received)

    async def response(self, request: web.Request) -> web.Response:
        body = (await request.read()).decode("utf-8", "replace")
        fields = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
        self.received.append(f"{request.method} {request.raw_path}\n{fields}\n\n{body}")
        if self.location or self.fields:
            location = {"Location": self.location} if self.location else {}
            return web.Response(status=302, headers={**location, **self.fields})
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            return web.json_response({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
        if request.path.startswith("/.well-known/"):
            result = {"issuer": self.url, "code_challenge_methods_supported": ["S256"]}
            for name, path in (("authorization", "authorize"), ("token", "token"), ("revocation", "revoke")):
                result[f"{name}_endpoint"] = f"{self.url}/{path}"
            return web.json_response(result)
        if request.path == "/mcp" and "Authorization" not in request.headers:
            return web.Response(status=401)
        if request.path == "/authorize":
            query = request.query
            raise web.HTTPFound(f"{query['redirect_uri']}?code=c0de&state={query['state']}")
        if self.refuse:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.rotated += 1
        result = {
            "access_token": f"access-{self.rotated}",
            "refresh_token": f"refresh-{self.rotated}",
            "expires_in": 3600,
        }
        return web.json_response(result)


@asynccontextmanager
async def listening() -> AsyncIterator[RecordingServer]:
    recorder = RecordingServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", recorder.response)
    async with TestServer(app) as server:
        recorder.url = f"http://127.0.0.1:{server.port}"
        yield recorder
