"""A gateway that can produce every error code: providers with a behavior per path, and helpers for calls."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway import config as configuration
from gateway.app import reload as reloading
from tests.fakes.certificate import tls_contexts
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.ports import closed_port
from tests.fakes.raw import parsed
from tests.fakes.raw_provider import raw_provider, read_message
from tests.fakes.tracker import Tracker

ENTRY = {"display_name": "P", "docs": "https://d.example", "categories": ["other"], "auth_mode": "API_KEY"}
SIGNATURE = {"scheme": "hmac-sha256", "header": "x-hub-signature", "prefix": "sha256=", "signed_payload": "raw body"}
HOOK_SECRET = "a-webhook-secret"
JSON_PAGES = {"/object": {"a": 1}, "/list": {"items": [{"n": 1}], "others": [{"m": 1}]}}


async def _faulty_provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A provider that does what the path says."""
    while True:
        head, _ = await read_message(reader)
        path = head.split(b" ")[1].decode().partition("?")[0]
        if path == "/slow":
            await asyncio.sleep(30)
        if path == "/garbage":
            writer.write(b"this is no HTTP\r\n\r\n")
        elif path == "/hangs-up":
            return
        else:
            body = json.dumps(JSON_PAGES.get(path, {"ok": True})).encode()
            kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            writer.write(kind + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


class Stage:
    """`refused` and `call_successfully` call the gateway; `seen` collects the error codes."""

    def __init__(self, gateway: RunningGateway, tracker: Tracker) -> None:
        self.gateway = gateway
        self.tracker = tracker
        self.seen: set[str] = set()

    async def refused(self, code: str, status: int, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Make a call that must fail with `code` and return its error; for a page, an empty one."""
        response, text = await self._request(method, path, options)
        sent = response.headers.get("Gateway-Error")
        assert (response.status, sent) == (status, code), text
        self.seen.add(code)
        if "json" not in response.headers["Content-Type"]:
            assert code in text
            return {}
        error: Any = json.loads(text).get("error", {})
        if isinstance(error, str):  # the format for providers of webhooks
            return {}
        assert not error or (error["code"] == code and _is_sentence(error["message"]))
        return error

    async def call_successfully(self, method: str, path: str, **options: Any) -> Any:
        """Make a call that must succeed."""
        response, text = await self._request(method, path, options)
        assert response.status < 400, text
        assert "Gateway-Error" not in response.headers, text
        return json.loads(text) if response.headers.get("Content-Type", "").startswith("application/json") else text

    async def _request(self, method: str, path: str, options: dict[str, Any]) -> tuple[aiohttp.ClientResponse, str]:
        headers = options.pop("headers", self.gateway.headers)
        url = path if path.startswith("http") else self.gateway.url + path
        async with self.gateway.http.request(method, url, headers=headers, **options) as response:
            return response, await response.text()

    def on_behalf(self, integration: str, connection_id: str = "c1", **extra: str) -> dict[str, Any]:
        """Return the options of a proxied call."""
        headers = {"Provider-Config-Key": integration, "Connection-Id": connection_id, **extra}
        return {"headers": {**self.gateway.headers, **headers}}

    async def raw(self, head: str, code: str | None = None, status: int = 200) -> None:
        """Send bytes that no client library would send."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.gateway.url.rpartition(":")[2]))
        writer.write(f"{head}\r\nHost: gw\r\nConnection: close\r\n\r\n".encode())
        response = parsed(await reader.read())
        writer.close()
        assert (response.status, response.headers.get("gateway-error")) == (status, code)
        if code is not None:
            assert response.error["code"] == code
            self.seen.add(code)

    async def key(self, integration: str, connection_id: str = "c1", **extra: Any) -> None:
        """Create a connection with an API key."""
        credential = {"type": "API_KEY", "apiKey": "k"}
        body = {"provider_config_key": integration, "connection_id": connection_id, "credentials": credential, **extra}
        await self.call_successfully("POST", "/connections", json=body)

    async def reload(self, **changes: Any) -> None:
        """Reload another configuration."""
        parsed = configuration.parse({**self.gateway.document, **changes}, base=self.gateway.folder, environ={})
        assert await reloading.reload(self.gateway.app, parsed)


def _is_sentence(message: str) -> bool:
    return message.endswith((".", "?")) or message.startswith("Insufficient scope. ")  # as published clients know it


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    tracker = Tracker()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    shown, _ = tls_contexts("elsewhere.example", folder)
    secure = TestServer(web.Application(), scheme="https")
    await secure.start_server(ssl=shown)
    async with raw_provider(_faulty_provider) as odd, raw_provider() as closed, AsyncExitStack() as stack:
        free = stack.enter_context(closed_port())
        for name, base in {
            "keyed": odd.origin,
            "barred": closed.origin,
            "secure": f"https://127.0.0.1:{secure.port}",
            "absent": f"http://127.0.0.1:{free}",
        }.items():
            write_entry(folder, name, {**ENTRY, "proxy": {"base_url": base}})
        setting = {"region": {"title": "Region", "optional": True}}
        regional = {"base_url": odd.origin + "/${connectionConfig.region}"}
        hooks = {"webhook_routing_script": "jira_webhook_routing", "webhook_signature": SIGNATURE}
        write_entry(folder, "hooked", {**ENTRY, **hooks, "proxy": {"base_url": odd.origin}})
        write_entry(folder, "regional", {**ENTRY, "connection_config": setting, "proxy": regional})
        machine = {**ENTRY, "auth_mode": "OAUTH2_CC", "token_url": f"{tracker.url}/token"}
        write_entry(folder, "machine", {**machine, "proxy": {"base_url": odd.origin}})
        allow = [f"127.0.0.1/32:{port}" for port in (server.port, odd.port, secure.port, free)]
        names = ("keyed", "barred", "secure", "absent", "regional", "machine")
        declared: dict[str, Any] = {name: {"provider": name} for name in names}
        declared["hooked"] = {"provider": "hooked", "webhook_secret": HOOK_SECRET}
        gateway = RunningGateway(folder, document(allow, **declared))
        gateway.document["x-closed"] = f"127.0.0.1/32:{closed.port}"
        await gateway.start()
        try:
            stage = Stage(gateway, tracker)
            for name in ("keyed", "barred", "secure", "absent"):
                await stage.key(name)
            yield stage
        finally:
            await gateway.stop()
            await secure.close()
            await server.close()


Play = Callable[[Stage], Awaitable[None]]
