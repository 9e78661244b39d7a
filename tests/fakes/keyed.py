"""A gateway with two connections of an API-key integration to a raw provider, for tests about the limits of keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.gateways import RunningGateway, document, write_entry
from tests.fakes.raw_provider import RawProvider, raw_provider
from tests.wire.bench import Caller, Response

ENTRY = {"display_name": "Acme", "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
HEADERS = {"authorization": "Bearer ${apiKey}"}
OTHER_KEY = "sk-other-0123456789abcdef"


class TwoConnectionGateway:
    """A gateway. `running` has integration `acme` with connections `c1` and `c2` in `dev`, and with `c1` in `other`."""

    def __init__(self, running: RunningGateway, provider: RawProvider) -> None:
        self.running = running
        self.provider = provider

    @property
    def port(self) -> int:
        return int(self.running.url.rpartition(":")[2])

    async def key(self, name: str = "agent", *, key: str | None = None, **fields: Any) -> dict[str, Any]:
        """Mint a key and return `data` of the response. `key`: the key that authorizes the request; the gateway's own
        by default.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else self.running.headers
        body = {"display_name": name, **fields}
        url = f"{self.running.url}/environment/api-keys"
        async with self.running.http.post(url, json=body, headers=headers) as response:
            reply = await response.json()
            assert response.status == 200, reply
            data: dict[str, Any] = reply["data"]
            return data

    async def call_api(self, method: str, path: str, key: str, **options: Any) -> tuple[int, Any, Any]:
        """Call the gateway's API with this key. Return status, headers and parsed JSON."""
        headers = {"Authorization": f"Bearer {key}", **options.pop("headers", {})}
        async with self.running.http.request(method, self.running.url + path, headers=headers, **options) as response:
            return response.status, response.headers, await response.json(content_type=None)

    async def raw(self, message: bytes) -> Response:
        """Send these bytes on a new connection and return the response."""
        async with dial(self.port) as client:
            await client.send(message)
            return await client.response(message.partition(b" ")[0])

    async def warm(self) -> None:
        """Open idle connections to the provider, so that later plain requests take the fast path."""
        for connection_id in ("c1", "c2"):
            async with self.running.call_proxy(
                connection_id, "/warm", integration="acme", headers={"X-W": "1"}
            ) as response:
                assert response.status == 200
                await response.read()


@asynccontextmanager
async def dial(port: int) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def two_connection_gateway(
    folder: Path, *, fast_path: bool = True, responded: Any = None, **proxy: Any
) -> AsyncIterator[TwoConnectionGateway]:
    async with raw_provider(responded) if responded else raw_provider() as provider:
        base = proxy.pop("base_url", provider.origin)
        entry = {**ENTRY, "proxy": {"base_url": base.replace("ORIGIN", provider.origin), "headers": HEADERS, **proxy}}
        write_entry(folder, "acme", entry)
        config_text = document([f"127.0.0.1/32:{provider.port}"], acme={"provider": "acme"})
        environments = config_text["environments"]
        del environments["dev"]["integrations"]["tracker"]
        environments["other"] = {"secret_keys": [OTHER_KEY], "integrations": {"acme": {"provider": "acme"}}}
        running = RunningGateway(folder, config_text, fast_path=fast_path)
        await running.start()
        try:
            for environment_key, connection_id, tags in (
                (None, "c1", {"team": "red"}),
                (None, "c2", {"team": "blue"}),
                (OTHER_KEY, "c1", {}),
            ):
                headers = {"Authorization": f"Bearer {environment_key}"} if environment_key else running.headers
                body = {
                    "provider_config_key": "acme",
                    "connection_id": connection_id,
                    "credentials": {"type": "API_KEY", "apiKey": f"key-of-{connection_id}"},
                    "tags": tags,
                }
                async with running.http.post(f"{running.url}/connections", json=body, headers=headers) as response:
                    assert response.status == 201, await response.text()
            yield TwoConnectionGateway(running, provider)
        finally:
            await running.stop()
