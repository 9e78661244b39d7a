"""The gateway under test: the whole application on the gateway's runner, with one integration for each way of
injection.

    wire      Authorization: Bearer <credential>
    slotted   X-Api-Key and the query's `key` contain the credential; Accept and Content-Type have defaults
    based     as `wire`, with a base URL with the path /v1, and with the provider's cookies
    decoding  as `wire`, and decodes content codings
    nowhere   as `wire`, with a base URL on which nothing listens
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.gateways import RunningGateway, document, write_entry
from tests.wire.bench import CREDENTIAL, Bench
from tests.wire.recorder import Recorder

BEARER = {"headers": {"authorization": "Bearer ${apiKey}"}}
SLOTS = {
    "headers": {"x-api-key": "${apiKey}", "accept": "application/vnd.wire+json", "content-type": "application/wire"},
    "query": {"key": "${apiKey}"},
}


def proxy_settings(origin: str, nowhere: str) -> dict[str, dict[str, Any]]:
    return {
        "wire": {"base_url": origin, **BEARER},
        "slotted": {"base_url": origin, **SLOTS},
        "based": {"base_url": f"{origin}/v1", **BEARER},
        "decoding": {"base_url": origin, "decompress": True, **BEARER},
        "nowhere": {"base_url": nowhere, **BEARER},
    }


@asynccontextmanager
async def gateway_with_recorder(recorder: Recorder, folder: Path, *, fast_path: bool = True) -> AsyncIterator[Bench]:
    """Yield a gateway with connection `c1` in each integration. All integrations send to `recorder`.

    `fast_path`: plain requests take the fast path. If false, all requests go through the middleware chain.
    """
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # the port is bound but never listens, so no other process gets it
        port: int = closed.getsockname()[1]
        entries = proxy_settings(f"http://127.0.0.1:{recorder.port}", f"http://127.0.0.1:{port}")
        for name, proxy in entries.items():
            entry = {"display_name": name, "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
            write_entry(folder, name, {**entry, "proxy": proxy})
        config_text = document(
            [f"127.0.0.1/32:{recorder.port}", f"127.0.0.1/32:{port}"],
            **{name: {"provider": name, "forward_set_cookie": name == "based"} for name in entries},
        )
        del config_text["environments"]["dev"]["integrations"]["tracker"]
        running = RunningGateway(folder, config_text, fast_path=fast_path)
        await running.start()
        try:
            for name in entries:
                await connect(running, name)
            write_batch = running.fast_path.write_batch if fast_path else None
            yield Bench(int(running.url.rpartition(":")[2]), running.url, recorder, write_batch)
        finally:
            await running.stop()


async def connect(running: RunningGateway, integration: str, connection: str = "c1", key: str = "") -> None:
    """Create a connection with the credential `key`."""
    credentials = {"type": "API_KEY", "apiKey": key or CREDENTIAL.decode()}
    body = {"provider_config_key": integration, "connection_id": connection, "credentials": credentials}
    await running.json("POST", "/connections", json=body, expect=201)
