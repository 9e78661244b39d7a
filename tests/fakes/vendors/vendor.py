"""Base of the fake vendor APIs: a real server that accepts only the right credential, and records every request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass(frozen=True)
class SeenRequest:
    """A request, as it was received."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def text(self) -> str:
        """The whole request as text, for tests that search for data that must not be sent."""
        lines = [f"{self.method} {self.target}", *(f"{name}: {value}" for name, value in self.headers)]
        return "\n".join([*lines, self.body.decode("latin-1")])

    def all(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header.lower() == name]


class Vendor:
    """A fake API. `name`: name of the shipped catalog entry. `base_path`: path of the entry's base URL.

    `slot`: the header field with the credential, as name and whole value. `presigned`: prefix of the paths that clients
    call directly, because such a URL contains its own credential.
    """

    name: ClassVar[str]
    base_path: ClassVar[str] = ""
    credentials: ClassVar[Mapping[str, Any]]
    slot: ClassVar[tuple[str, str]]
    presigned: ClassVar[str | None] = None

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.origin = ""
        self._server: TestServer | None = None

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def refusal(self) -> web.Response:
        """Return the response to a wrong credential."""
        return web.json_response({"error": {"message": "wrong credential", "type": "authentication_error"}}, status=401)

    @property
    def base_url(self) -> str:
        return self.origin + self.base_path

    async def start(self) -> None:
        app = web.Application(middlewares=[self._record_and_check], client_max_size=16 << 20)
        app.add_routes(self.routes())
        self._server = TestServer(app)
        await self._server.start_server()
        self.origin = f"http://127.0.0.1:{self._server.port}"

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()

    @web.middleware
    async def _record_and_check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        headers = tuple((name.decode(), value.decode("latin-1")) for name, value in request.raw_headers)
        self.seen.append(SeenRequest(request.method, request.raw_path, headers, await request.read()))
        proven = self.presigned is not None and request.path.startswith(self.presigned)
        if not proven and self.seen[-1].all(self.slot[0]) != [self.slot[1]]:
            return self.refusal()
        response: web.StreamResponse = await handler(request)
        return response


async def events(request: web.Request, lines: list[str]) -> web.StreamResponse:
    """Send server-sent events. Each event is a separate write."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for line in lines:
        await response.write(f"{line}\n\n".encode())
    return response
