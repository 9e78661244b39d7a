"""A gateway for agents, in front of a provider that records its calls. Integration `acme` has connections `c1` and
`c2`.
"""

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gateway.mcp import mcp_messages as mcp
from tests.fakes.gateways import RunningGateway, document, write_entry

ENTRY = {"display_name": "Acme", "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
HEADERS = {"authorization": "Bearer ${apiKey}"}
BASE = "/base/v1"
CONNECT = "environment:connect_sessions:write"
Responding = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class RecordedProvider:
    """A provider that returns the response of `responding`. If `responding` is None, it returns the request as JSON.

    `calls`: one tuple (method, raw path, Authorization header, body) for each request, in order.
    """

    port: int = 0
    calls: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    responding: Responding | None = None

    async def response(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.calls.append((request.method, request.raw_path, request.headers.get("Authorization", ""), body))
        if self.responding is not None:
            return await self.responding(request)
        seen = {"method": request.method, "path": request.raw_path, "body": body.decode("utf-8", "replace")}
        return web.json_response(seen)


@dataclass
class AgentGateway:
    """A gateway for agents. `request_result` sends one MCP message, with a key or to a capability URL."""

    running: RunningGateway
    provider: RecordedProvider

    async def key(self, *rules: str, **fields: Any) -> str:
        """Mint a key with these access rules and return it. The key may use connection `c1`, or the connections in
        `limits`.
        """
        limits = {"connections": ["acme/c1"], **fields.pop("limits", {})}
        limits = {name: value for name, value in limits.items() if value is not None}
        body = {"display_name": f"agent {secrets.token_hex(4)}", "limits": {**limits, "rules": list(rules)}, **fields}
        minted = await self.running.json("POST", "/environment/api-keys", json=body, expect=200)
        text: str = minted["data"]["secret"]
        return text

    async def request_result(
        self,
        key: str,
        method: str,
        *,
        path: str = "/mcp",
        revision: str = mcp.MODERN,
        capabilities: Any = None,
        **params: Any,
    ) -> Any:
        """Send one MCP message. Return `result` or `error` from the response."""
        _, body = await self.send_message(
            key, method, path=path, revision=revision, capabilities=capabilities, **params
        )
        return body.get("result", body.get("error"))

    async def send_message(
        self,
        key: str,
        method: str,
        *,
        path: str = "/mcp",
        revision: str = mcp.MODERN,
        capabilities: Any = None,
        **params: Any,
    ) -> tuple[int, Any]:
        """Send one MCP message. Return the HTTP status and the parsed body of the response."""
        headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": revision, "Accept": "application/json"}
        if revision == mcp.MODERN:
            params["_meta"] = {mcp.META_VERSION: revision, mcp.META_CAPABILITIES: capabilities or {}}
            headers["Mcp-Method"] = method
            if method in mcp.NAME_PARAMETERS:
                headers["Mcp-Name"] = params[mcp.NAME_PARAMETERS[method]]
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.post_message(json.dumps(message).encode(), headers, path)

    async def post_message(self, body: bytes, headers: dict[str, str], path: str = "/mcp") -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **headers}
        async with self.running.http.post(self.running.url + path, data=body, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def tools(self, key: str, **options: Any) -> dict[str, Any]:
        return {tool["name"]: tool for tool in (await self.request_result(key, "tools/list", **options))["tools"]}

    async def call(self, key: str, name: str, arguments: Any = None, **options: Any) -> Any:
        return await self.request_result(key, "tools/call", name=name, arguments=arguments or {}, **options)

    async def connect(self, connection_id: str, **extra: Any) -> None:
        credentials = {"type": "API_KEY", "apiKey": f"key-of-{connection_id}"}
        body = {"provider_config_key": "acme", "connection_id": connection_id, "credentials": credentials, **extra}
        await self.running.json("POST", "/connections", json=body, expect=201)


@asynccontextmanager
async def agent_gateway(
    folder: Path, *, base: str = BASE, auth_mode: str = "API_KEY", fast_path: bool = True, **proxy: Any
) -> AsyncIterator[AgentGateway]:
    """Yield a gateway with an idle connection to the provider, so that calls take the fast path unless `fast_path` is
    off.
    """
    provider = RecordedProvider()
    runner = web.ServerRunner(web.Server(provider.response))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.port = runner.addresses[0][1]
    entry = {
        **ENTRY,
        "auth_mode": auth_mode,
        "proxy": {"base_url": f"http://127.0.0.1:{provider.port}{base}", "headers": HEADERS, **proxy},
    }
    write_entry(folder, "acme", entry)
    configuration = document([f"127.0.0.1/32:{provider.port}"], acme={"provider": "acme"})
    del configuration["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(folder, configuration, fast_path=fast_path)
    await running.start()
    made = AgentGateway(running, provider)
    try:
        for connection_id, team in (("c1", "red"), ("c2", "blue")):
            await made.connect(connection_id, tags={"team": team})
        # the first request never takes the fast path: it goes through the middleware chain
        while fast_path and not running.fast_path.taken:
            async with running.call_proxy("c1", "/warm", integration="acme") as response:
                await response.read()
        provider.calls.clear()
        yield made
    finally:
        await running.stop()
        await runner.cleanup()


def text_of(result: Any) -> str:
    """Return the text of all text blocks in a tool's result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
