"""A gateway as an operator runs it: `gateway serve` in its own process, configured by files, and called only over HTTP."""

import base64
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from yarl import URL

from gateway.cli.demo.child import start_child
from tests.fakes.django_idp import DjangoIdp, serving
from tests.fakes.migrated import create_database
from tests.fakes.ports import free_port

SECRET_KEY = "journey-secret-key-0123456789"


@dataclass
class GatewayServer:
    """A gateway process. `folder` contains gateway.yaml, catalog and database. Its log is in gateway.log and
    gateway.log.1.
    """

    folder: Path
    port: int
    session: aiohttp.ClientSession
    secret_key: str = SECRET_KEY
    _running: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def callback(self) -> str:
        return f"{self.url}/oauth/callback"

    def configure(self, *, providers: Mapping[str, Any], integrations: Mapping[str, Any], allow: list[str]) -> None:
        """Write gateway.yaml and one catalog file per provider. The files contain JSON, which is valid YAML."""
        (self.folder / "catalog").mkdir()
        for name, entry in providers.items():
            (self.folder / "catalog" / f"{name}.yaml").write_text(yaml.safe_dump(entry))
        document = {
            "server": {"port": self.port},
            "store": {
                "url": "sqlite:///gateway.db",
                "encryption_keys": [base64.b64encode(secrets.token_bytes(32)).decode()],
            },
            "catalog": ["catalog"],
            "environments": {"dev": {"secret_keys": [self.secret_key], "integrations": dict(integrations)}},
            "egress": {"allow": allow},
        }
        (self.folder / "gateway.yaml").write_text(json.dumps(document))
        create_database(self.folder / "gateway.db")

    async def start(self) -> None:
        """Start the gateway and wait until it serves."""
        arguments = ("serve", "-c", str(self.folder / "gateway.yaml"))
        log = self.folder / "gateway.log"
        # the log then contains as much as possible, which makes a search for secrets meaningful
        environ = {"GATEWAY_LOG_LEVEL": "debug"}
        child = await self._running.enter_async_context(
            start_child("gateway", "gateway", *arguments, log=log, environ=environ)
        )
        assert await child.wait_until_ready() == self.url

    async def stop(self) -> None:
        await self._running.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def call(
        self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Call with the secret key. Return the status and the parsed JSON. `path` is sent byte for byte."""
        sent = {"Authorization": f"Bearer {self.secret_key}", **(headers or {})}
        url = URL(self.url + path, encoded=True)
        async with self.session.request(method, url, json=body, headers=sent) as response:
            return response.status, await response.json()

    async def connect_url(self, integration: str, end_user: str = "ada") -> str:
        """Create a connect session and return the URL that starts an authorization in the end user's browser."""
        session = {"end_user": {"id": end_user}, "allowed_integrations": [integration]}
        status, created = await self.call("POST", "/connect/sessions", body=session)
        assert status == 201, created
        return f"{self.url}/oauth/connect/{integration}?connect_session_token={created['data']['token']}"


@asynccontextmanager
async def new_gateway_server(parent: Path) -> AsyncIterator[GatewayServer]:
    """Yield a gateway that is neither configured nor started: call `configure`, then `start`."""
    folder = parent / "gateway"
    folder.mkdir()
    async with aiohttp.ClientSession() as session:
        server = GatewayServer(folder, free_port(), session)
        try:
            yield server
        finally:
            await server.stop()


@pytest.fixture
async def gateway_server(tmp_path: Path) -> AsyncIterator[GatewayServer]:
    async with new_gateway_server(tmp_path) as server:
        yield server


@pytest.fixture
async def django_idp(tmp_path: Path, gateway_server: GatewayServer) -> AsyncIterator[DjangoIdp]:
    """Yield the Django OAuth server, with the gateway's callback URL registered."""
    folder = tmp_path / "idp"
    folder.mkdir()
    async with serving(folder, gateway_server.callback) as idp:
        yield idp
