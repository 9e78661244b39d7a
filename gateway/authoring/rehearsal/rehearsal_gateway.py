"""Starts the gateway of a rehearsal, which is the real application with its own socket and a temporary store."""

import base64
import json
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout, CookieJar, web

from gateway import config as configuration
from gateway.app.compose import create_app

INTEGRATION: Final = "entry"
ENVIRONMENT: Final = "rehearsal"
TIMEOUT_S: Final = 30.0


class RehearsalRefused(Exception):
    """A step cannot continue after the gateway's response. The text has the status and the error."""


class Gateway:
    """A client of the API of the gateway under test."""

    def __init__(self, http: ClientSession, url: str, key: str) -> None:
        self.http = http
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"}

    async def json(self, method: str, path: str, expect: int = 200, **options: Any) -> Any:
        """Send a request and return the parsed response. Raises RehearsalRefused if the status is not `expect`."""
        async with self.http.request(method, self.url + path, headers=self._headers, **options) as response:
            text = await response.text()
        if response.status != expect:
            raise RehearsalRefused(f"{method} {path.partition('?')[0]} returned {response.status}: {_error_text(text)}")
        return json.loads(text) if text else {}

    async def call_provider(
        self, connection_id: str, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, str]:
        """Call the provider through ``/proxy``. Return the status and the body of the response."""
        names = {"Provider-Config-Key": INTEGRATION, "Connection-Id": connection_id}
        fields = {**self._headers, **names, **headers}
        async with self.http.request(method, f"{self.url}/proxy{path}", headers=fields) as response:
            return response.status, await response.text()

    async def connection(self, connection_id: str, *, force_refresh: bool = False) -> dict[str, Any]:
        """Return a connection with its credential. Raises RehearsalRefused."""
        force = "&force_refresh=true" if force_refresh else ""
        path = f"/connections/{quote(connection_id, safe='')}?provider_config_key={INTEGRATION}{force}"
        connection_json: dict[str, Any] = await self.json("GET", path)
        return connection_json

    async def only_id(self) -> str:
        """Return the id of the only connection. Raises RehearsalRefused if there is no connection, or several."""
        connections = (await self.json("GET", "/connections"))["connections"]
        if len(connections) != 1:
            raise RehearsalRefused(f"there are {len(connections)} connections instead of one")
        return str(connections[0]["connection_id"])


def _error_text(text: str) -> str:
    """Return the code and the message of a gateway error. Return any other text unchanged, up to 300 characters."""
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text[:300]
    issues = "; ".join(str(issue.get("message")) for issue in error.get("errors", ()))
    return f"{error['code']}: {error['message']}" + (f" ({issues})" if issues else "")


@asynccontextmanager
async def run_gateway(folder: Path, entry: Mapping[str, Any], integration: Mapping[str, Any]) -> AsyncIterator[Gateway]:
    """Run a gateway with one integration, which uses `entry`. Raises config.Faults if the entry is invalid."""
    (folder / "catalog").mkdir()
    # The file is JSON, because every JSON document is valid YAML.
    (folder / "catalog" / f"{INTEGRATION}.yaml").write_text(json.dumps(entry), encoding="utf-8")
    key = f"gw_{secrets.token_urlsafe(24)}"
    listener = socket.create_server(("127.0.0.1", 0))
    document = {
        "server": {"host": "127.0.0.1", "port": listener.getsockname()[1]},
        "store": {"encryption_keys": [base64.b64encode(secrets.token_bytes(32)).decode()]},
        "catalog": ["catalog"],
        "environments": {
            ENVIRONMENT: {"secret_keys": [key], "integrations": {INTEGRATION: {"provider": INTEGRATION, **integration}}}
        },
        "egress": {"allow": ["127.0.0.1/32"]},
    }
    config = configuration.parse(document, base=folder, environ={})
    runner = web.AppRunner(create_app(config), access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        timeout = ClientTimeout(total=TIMEOUT_S)
        async with ClientSession(
            cookie_jar=CookieJar(unsafe=True), timeout=timeout, skip_auto_headers=["Accept", "User-Agent"]
        ) as http:
            yield Gateway(http, config.server.public_url, key)
    finally:
        await runner.cleanup()
