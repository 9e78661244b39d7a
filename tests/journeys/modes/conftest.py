"""Fixtures for the journeys of the auth modes: a gateway, and a provider on a real server that a test defines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from gateway import clock
from tests.fakes.gateways import RunningGateway, document, write_entry

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class FakeProvider:
    """A provider that a test defines. `seen`: the received requests as (method, raw path, headers, body)."""

    url: str = ""
    seen: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)
    _handlers: dict[str, Handler] = field(default_factory=dict)

    def on(self, path: str, handler: Handler) -> None:
        """Use `handler` for requests with a path that begins with `path`. If several match, the longest `path` is used."""
        self._handlers[path] = handler

    async def response(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append((request.method, request.raw_path, request.headers, body))
        fitting = [path for path in self._handlers if request.path.startswith(path)]
        if not fitting:
            return web.json_response({"message": "no such path"}, status=404)
        return await self._handlers[max(fitting, key=len)](request)

    def paths(self) -> list[str]:
        return [path.partition("?")[0] for _, path, _, _ in self.seen]


@pytest.fixture
async def fake_provider(aiohttp_server: AiohttpServer) -> FakeProvider:
    """Yield a provider at `fake_provider.url`. The test adds the paths."""
    made = FakeProvider()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", made.response)
    server = await aiohttp_server(app)
    made.url = f"http://127.0.0.1:{server.port}"
    return made


Start = Callable[..., Awaitable[RunningGateway]]


@pytest.fixture
async def start(fake_provider: FakeProvider, tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a gateway with integration `tracker`. Its provider is `fake_provider`.

    Arguments: fields of the catalog entry; `integration`: configuration keys of the integration.
    """
    async with AsyncExitStack() as stack:

        async def started(integration: Mapping[str, Any] | None = None, **entry: Any) -> RunningGateway:
            proxy = {"base_url": f"{fake_provider.url}/api", **entry.pop("proxy", {})}
            common = {"display_name": "Far", "categories": ["other"], "docs": "https://docs.example.com"}
            write_entry(tmp_path, "tracker", {**common, **entry, "proxy": proxy})
            configuration = document([f"127.0.0.1/32:{fake_provider.url.rpartition(':')[2]}"])
            configuration["environments"]["dev"]["integrations"]["tracker"] = {
                "provider": "tracker",
                **(integration or {}),
            }
            gateway = RunningGateway(tmp_path, configuration)
            await gateway.start()
            stack.push_async_callback(gateway.stop)
            return gateway

        yield started


async def import_connection(gateway: RunningGateway, *, expect: int = 201, **body: Any) -> Any:
    """Import connection ``c1``. `body`: the credentials and other fields of the request."""
    whole = {"provider_config_key": "tracker", "connection_id": "c1", **body}
    return await gateway.json("POST", "/connections", json=whole, expect=expect)


async def read(gateway: RunningGateway, **query: str) -> Any:
    """Return connection ``c1`` as the API shows it."""
    more = "".join(f"&{name}={text}" for name, text in query.items())
    return await gateway.json("GET", f"/connections/c1?provider_config_key=tracker{more}", expect=200)


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the wall clock and the monotonic clock forward."""
    passed = 0.0
    now, monotonic = clock.now, clock.monotonic

    def wait(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=passed))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + passed)
    return wait


def epoch(moment: datetime | None = None) -> int:
    return int((moment or datetime.now(UTC)).timestamp())


async def connect(gateway: RunningGateway, query: str = "", **session: Any) -> tuple[int, str]:
    """Walk through an authorization as a browser does. Return status and text of the last page."""
    token = await gateway.session_token(**session)
    url = f"{gateway.url}/oauth/connect/tracker?connect_session_token={token}{query}"
    async with gateway.http.get(url) as response:
        return response.status, await response.text()


async def only_id(gateway: RunningGateway) -> str:
    """Return the id of the only connection."""
    (connection,) = (await gateway.json("GET", "/connections"))["connections"]
    return str(connection["connection_id"])
