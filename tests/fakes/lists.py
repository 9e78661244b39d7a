"""A provider with one list, and a gateway in front of it. A test defines the pages of the list."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.fakes.gateways import RunningGateway, document, write_entry

KEY = "the-api-key"
CURSOR = {
    "type": "cursor",
    "cursor_path_in_response": "next",
    "cursor_name_in_request": "after",
    "limit_name_in_request": "limit",
    "response_path": "items",
}
OFFSET = {"type": "offset", "offset_name_in_request": "start", "response_path": "items"}
HEADER = {"type": "link", "link_rel_in_response_header": "next"}
BODY = {"type": "link", "link_path_in_response_body": "next", "response_path": "items"}

Page = Callable[[web.Request], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass
class Lists:
    """A list provider. `page`: returns the response to every request.

    `seen`: the request targets. `headers`: the header fields of each request.
    """

    page: Page
    url: str = ""
    seen: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def response(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.raw_path)
        self.headers.append(request.headers)
        response = self.page(request)
        return response if isinstance(response, web.StreamResponse) else await response


def pages_of(count: int, size: int = 2) -> Page:
    """Return a page function: `count` pages with records ``{"n": 1}`` … under ``items``. The cursor ``after`` links the
    pages.
    """

    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        items = [{"n": number * size + index} for index in range(1, size + 1)]
        return web.json_response({"items": items, "next": str(number + 1) if number + 1 < count else None})

    return page


@asynccontextmanager
async def serving(page: Page) -> AsyncIterator[Lists]:
    lists = Lists(page)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", lists.response)
    server = TestServer(app)
    await server.start_server()
    lists.url = f"http://127.0.0.1:{server.port}"
    try:
        yield lists
    finally:
        await server.close()


@asynccontextmanager
async def paged(folder: Path, page: Page, paginate: Any = CURSOR, **proxy: Any) -> AsyncIterator["PagedGateway"]:
    """Yield a gateway whose connections ``c1`` and ``c2`` belong to a provider with these pages.

    `proxy`: more fields for the catalog entry's `proxy`.
    """
    async with serving(page) as lists:
        entry = {
            "display_name": "Lists",
            "categories": ["other"],
            "docs": "https://docs.example.com",
            "auth_mode": "API_KEY",
            "proxy": {
                "base_url": f"{lists.url}/v1",
                "headers": {"x-api-key": "${apiKey}"},
                **({} if paginate is None else {"paginate": dict(paginate)}),
                **proxy,
            },
        }
        write_entry(folder, "tracker", entry)
        gateway = RunningGateway(folder, document(["127.0.0.0/8"]))
        await gateway.start()
        try:
            for connection_id in ("c1", "c2"):
                await import_connection(gateway, connection_id)
            yield PagedGateway(gateway, lists)
        finally:
            await gateway.stop()


async def import_connection(gateway: RunningGateway, connection_id: str) -> None:
    credentials = {"type": "API_KEY", "apiKey": KEY}
    body = {"provider_config_key": "tracker", "connection_id": connection_id, "credentials": credentials}
    await gateway.json("POST", "/connections", json=body, expect=201)


@dataclass(frozen=True)
class PagedReply:
    """The response to a paged call. `lines`: all of its lines. `records`: the lines of the provider, without the
    gateway's own.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def lines(self) -> list[bytes]:
        assert self.body.endswith(b"\n")
        return self.body[:-1].split(b"\n")

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines if not line.startswith(b'{"gateway_')]

    @property
    def numbers(self) -> list[int]:
        return [record["n"] for record in self.records]

    @property
    def marks(self) -> list[dict[str, Any]]:
        return [json.loads(line)["gateway_page"] for line in self.lines if line.startswith(b'{"gateway_page":')]

    @property
    def trailer(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.lines[-1])["gateway_trailer"]
        return body

    @property
    def error(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.body)["error"]
        return body


@dataclass(frozen=True)
class PagedGateway:
    gateway: RunningGateway
    lists: Lists

    async def call(
        self,
        paginate_header: str | None = "all",
        path: str = "/list",
        *,
        connection_id: str = "c1",
        method: str = "GET",
        **extra: Any,
    ) -> PagedReply:
        """Make one call with ``Gateway-Paginate: wish``. `since`: the value of the header Gateway-Paginate-From."""
        headers = {} if paginate_header is None else {"Gateway-Paginate": paginate_header}
        since = extra.pop("since", None)
        headers |= {} if since is None else {"Gateway-Paginate-From": since}
        headers |= extra.pop("headers", {})
        async with self.gateway.call_proxy(connection_id, path, method, headers=headers, **extra) as response:
            return PagedReply(response.status, response.headers, await response.read())

    async def raw(self, head: str) -> bytes:
        """Send a request that begins with `head` and has the three gateway headers. Return all received bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.gateway.url.rpartition(":")[2]))
        ours = {**self.gateway.headers, "Provider-Config-Key": "tracker", "Connection-Id": "c1"}
        lines = [head, *(f"{name}: {value}" for name, value in ours.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        try:
            return await reader.read()
        finally:
            writer.close()
