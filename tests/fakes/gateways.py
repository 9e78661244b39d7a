"""A gateway for tests: the real application on the gateway's own runner, on a free port, in this process."""

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

import gateway
from gateway import config as configuration
from gateway.process.sockets import BACKLOG
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME, Runtime
from gateway.server.fast_path import FastPath
from gateway.server.runner import GatewayServer
from tests.fakes.migrated import create_database
from tests.fakes.patience import PATIENCE_S

SECRET_KEY = "sk-test-0123456789abcdef"
ENCRYPTION_KEY = "JiURJZyxq9u8wNGbojb4XRaHcZEAUy+EK5yLz55SrSM="


class RunningGateway:
    """A running gateway. `url` has no trailing slash. `headers` contain the secret key. `runtime` is the application's
    runtime. `drain_s`: how many seconds a stop waits for requests in flight, from the next start on.
    """

    def __init__(self, folder: Path, document: dict[str, Any], *, fast_path: bool = True) -> None:
        self.folder = folder
        self.document = document
        self.url = ""
        self.headers = {"Authorization": f"Bearer {SECRET_KEY}"}
        self.runner: web.BaseRunner | None = None
        self.on_fast_path = fast_path
        self.drain_s = 1.0
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        sock = free_socket()
        port = sock.getsockname()[1]
        self.document.setdefault("server", {})["port"] = port
        config = configuration.parse(self.document, base=self.folder, environ={})
        if config.store.url.startswith("sqlite:"):
            path = Path(config.store.url.removeprefix("sqlite:///"))
            usual = self.document["store"]["encryption_keys"] == [ENCRYPTION_KEY]
            create_database(path, *((ENCRYPTION_KEY, config.environments) if usual else ()))
        self.app = app = gateway.create_app(config)
        self.runner = gateway.runner(app, drain_s=self.drain_s, fast_path=self.on_fast_path)
        await self.runner.setup()
        await web.SockSite(self.runner, sock, backlog=BACKLOG).start()
        self.url = config.server.public_url
        self._session = aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self.runner is not None:
            await self.runner.cleanup()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @property
    def fast_path(self) -> FastPath:
        """The fast path of the running server."""
        server = self.runner.server if self.runner is not None else None
        assert isinstance(server, GatewayServer)
        assert server.fast_path is not None
        return server.fast_path

    @property
    def runtime(self) -> Runtime:
        """The application's runtime. A reload does not replace it."""
        return self.app[RUNTIME]

    def configure(self, **changes: Any) -> None:
        """Install a new configuration: these members change, all other members stay the same."""
        current = self.runtime.current
        config = replace(current.generation.config, **changes)
        current.replace(replace(current.generation, config=config))

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def json(self, method: str, path: str, *, expect: int | None = None, **options: Any) -> Any:
        """Call the gateway's API with the secret key and return the parsed body. `expect`: the status to assert."""
        async with self.http.request(method, self.url + path, headers=self.headers, **options) as response:
            body = await response.json()
            assert expect is None or response.status == expect, (response.status, body)
            return body

    def call_proxy(self, connection_id: str, path: str = "/x", method: str = "GET", **options: Any) -> Any:
        """Return the request context of a call to /proxy. `integration`: its integration ID, `tracker` by default."""
        names = {"Provider-Config-Key": options.pop("integration", "tracker"), "Connection-Id": connection_id}
        headers = {**self.headers, **names, **options.pop("headers", {})}
        return self.http.request(method, f"{self.url}/proxy{path}", headers=headers, **options)

    async def disconnect(self, call: "asyncio.Task[Any]") -> None:
        """Cancel the request `call`, and wait until the server has noticed that the client is gone."""
        server = self.runner.server if self.runner is not None else None
        assert isinstance(server, GatewayServer)
        before = len(server.connections)
        call.cancel()
        async with asyncio.timeout(PATIENCE_S):
            while len(server.connections) >= before:
                await asyncio.sleep(0.01)

    async def import_connection(self, grant: Mapping[str, Any], connection_id: str = "c1", **extra: Any) -> Any:
        """Import a connection of integration `tracker` with the tokens of this token endpoint response."""
        credentials = {"type": "OAUTH2", **{k: v for k, v in grant.items() if k != "token_type"}}
        body = {"provider_config_key": "tracker", "connection_id": connection_id, "credentials": credentials, **extra}
        return await self.json("POST", "/connections", json=body, expect=201)

    async def wait_until_changes_are_read(self, ref: ConnectionRef) -> None:
        """Wait until the gateway has read the change of this connection, and all earlier changes.

        For tests that set the clock forward or stop the database: a change that is not read within `trust_s` takes the
        connection out of memory.
        """
        feed = self.runtime.live.feed
        async with asyncio.timeout(PATIENCE_S):
            while feed.unread or feed.changed_at.get(ref, math.inf) > feed.synced_at:
                await asyncio.sleep(0.01)

    async def session_token(self, **body: Any) -> str:
        response = await self.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}, **body}, expect=201)
        token: str = response["data"]["token"]
        return token


@asynccontextmanager
async def in_front_of(url: str, folder: Path) -> AsyncIterator[RunningGateway]:
    """Yield a gateway with integration `tracker`. The provider is the `tests.fakes.tracker` at `url`."""
    write_entry(folder, "tracker", tracker_entry(url))
    gateway = RunningGateway(folder, document([f"127.0.0.1/32:{url.rpartition(':')[2]}"]))
    await gateway.start()
    yield gateway
    await gateway.stop()


def free_socket() -> Any:
    """Return a socket that is bound to a port chosen by the system and does not listen yet."""
    import socket

    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


def tracker_entry(url: str, **changes: Any) -> dict[str, Any]:
    """Return the catalog entry of a `tests.fakes.tracker` that listens on `url`."""
    return {
        "display_name": "Tracker",
        "categories": ["project-tracking"],
        "docs": "https://docs.example.com",
        "auth_mode": "OAUTH2",
        "authorization_url": f"{url}/authorize",
        "token_url": f"{url}/token",
        "connection_configuration": ["cloudId", "subdomain"],
        "post_connection_script": "jira_post_connection",
        "default_scopes": ["offline_access"],
        "proxy": {"base_url": url},
        **changes,
    }


def write_entry(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    (folder / "catalog").mkdir(exist_ok=True)
    file = folder / "catalog" / f"{name}.yaml"
    half = file.with_suffix(".half")
    half.write_text(yaml.dump(dict(entry), Dumper=yaml.CSafeDumper, sort_keys=False))
    half.replace(file)  # replaced atomically, because a gateway may read the folder at the same time


def document(allow: list[str], **integrations: Any) -> dict[str, Any]:
    """Return a gateway.yaml document with one environment `dev` and integration `tracker`."""
    tracker = {"provider": "tracker", "client_id": "client", "client_secret": secrets.token_urlsafe(16)}
    return {
        "server": {"port": 0, "host": "127.0.0.1"},
        "store": {"url": "sqlite:///gateway.db", "encryption_keys": [ENCRYPTION_KEY]},
        "catalog": ["catalog"],
        "environments": {"dev": {"secret_keys": [SECRET_KEY], "integrations": {"tracker": tracker, **integrations}}},
        "egress": {"allow": allow},
    }
