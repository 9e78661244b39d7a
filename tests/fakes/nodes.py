"""Several `gateway serve` processes on one store, with integration `tracker`. The provider runs in the test's process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.fakes.gateways import SECRET_KEY, document, tracker_entry, write_entry
from tests.fakes.processes import NodeFile, ServingProcess, serving

LONG_AGO = "2020-01-01T00:00:00Z"


class Nodes:
    """Running nodes. `urls`: the URL of each node. `http`: sends the secret key and opens an unlimited number of
    connections.
    """

    def __init__(self, running: Sequence[ServingProcess], http: aiohttp.ClientSession) -> None:
        self.running = running
        self.urls = [f"http://127.0.0.1:{node.port}" for node in running]
        self.http = http

    async def import_connection(self, grant: dict[str, Any], connection_id: str) -> None:
        """Import a connection with the tokens of this token endpoint response. Its access token has expired long ago."""
        tokens = {name: text for name, text in grant.items() if name in ("access_token", "refresh_token")}
        body = {
            "provider_config_key": "tracker",
            "connection_id": connection_id,
            "credentials": {"type": "OAUTH2", **tokens, "expires_at": LONG_AGO},
        }
        async with self.http.post(f"{self.urls[0]}/connections", json=body) as response:
            assert response.status == 201, await response.text()

    async def expires_at(self, connection_id: str) -> datetime:
        """Return the time at which the connection's access token expires, as shown by the API."""
        url = f"{self.urls[0]}/connections/{connection_id}?provider_config_key=tracker"
        async with self.http.get(url) as response:
            return datetime.fromisoformat((await response.json())["credentials"]["expires_at"])

    async def call(self, node: int, connection_id: str) -> tuple[int, dict[str, Any]]:
        """Make one proxied call through node `node` modulo the number of nodes. Return status and body."""
        names = {"Provider-Config-Key": "tracker", "Connection-Id": connection_id}
        url = f"{self.urls[node % len(self.urls)]}/proxy/x"
        async with self.http.get(url, headers=names) as response:
            return response.status, await response.json()


@asynccontextmanager
async def nodes(
    folder: Path,
    provider_url: str,
    store_url: str,
    *,
    count: int = 1,
    workers: int = 1,
    token_url: str | None = None,
    skews_s: Sequence[float] = (),
) -> AsyncIterator[Nodes]:
    """Run `count` processes with this many workers each. At the end, stop the processes, and kill those that do not
    stop.

    `skews_s`: starts one process per value instead of `count`, each on a simulated machine whose clock is ahead by this
    many seconds. `token_url`: the origin of the token endpoint, if it differs from the provider's.
    """
    token_url = token_url or provider_url
    write_entry(folder, "tracker", tracker_entry(provider_url, token_url=f"{token_url}/token"))
    config = document([f"127.0.0.1/32:{url.rpartition(':')[2]}" for url in sorted({provider_url, token_url})])
    config["store"]["url"] = store_url
    config["server"]["workers"] = workers
    path = folder / "gateway.yaml"
    path.write_text(yaml.safe_dump(config))
    async with contextlib.AsyncExitStack() as stack:
        serve = [serving(NodeFile(path)) for _ in range(0 if skews_s else count)]
        for n, skew_s in enumerate(skews_s):
            machine = folder / f"machine-{n}"
            machine.mkdir()
            serve.append(serving(NodeFile(path), skew_s=skew_s, folder=machine))
        started = await asyncio.gather(*map(stack.enter_async_context, serve))
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {SECRET_KEY}"}, connector=aiohttp.TCPConnector(limit=0)
            )
        )
        yield Nodes(started, http)
