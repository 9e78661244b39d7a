"""`mcp-generic` with a server built with the MCP Python SDK: discovery, registration, consent, call, refresh,
revocation.

`make sdks` runs it: the SDK is installed outside the repository.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.gateways import RunningGateway, document
from tests.fakes.ports import free_port
from tests.sdks import environments

SERVER = Path(__file__).parent / "mcp_server.py"
LIMIT_S = 60


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """The URL of an MCP server in its own process."""
    if os.environ.get("GATEWAY_SDKS") != "all":
        pytest.skip("too slow for every run; `make sdks` runs it")
    interpreter = await asyncio.to_thread(environments.python, ("fastmcp",))
    port = free_port()
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        str(interpreter), str(SERVER), str(port), env={**environ, "NO_PROXY": "*"}, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            output = b""
            while b"Uvicorn running" not in output:
                line = await process.stderr.readline()
                assert line, output.decode()
                output += line
        drained = asyncio.create_task(process.stderr.read())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await drained


async def test_a_server_of_the_python_sdk_is_connected_called_and_refreshed(server: str, tmp_path: Path) -> None:
    configuration = document(["127.0.0.0/8"])
    configuration["catalog"] = []
    configuration["environments"]["dev"]["integrations"] = {"mcp-generic": {"provider": "mcp-generic"}}
    gateway = RunningGateway(tmp_path, configuration)
    await gateway.start()
    try:
        session = await gateway.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}}, expect=201)
        begin = f"{gateway.url}/oauth/connect/mcp-generic?connect_session_token={session['data']['token']}"
        async with gateway.http.get(f"{begin}&params[server_url]={server}") as response:
            text = await response.text()
            assert response.status == 200, re.sub(r"<[^>]*>", " ", text)
        (connection,) = (await gateway.json("GET", "/connections"))["connections"]
        name = connection["connection_id"]
        assert await tools(gateway, name) == ["add"]
        path = f"/connections/{name}?provider_config_key=mcp-generic"
        before = await gateway.json("GET", path, expect=200)
        after = await gateway.json("GET", f"{path}&force_refresh=true", expect=200)
        assert after["credentials"]["access_token"] != before["credentials"]["access_token"]
        assert await tools(gateway, name) == ["add"]
        body = await gateway.json("DELETE", path, expect=200)
        assert [item["outcome"] for item in body["revocation"]] in (["revoked"] * 2, ["revoked", "already_invalid"])
        async with aiohttp.ClientSession() as direct:
            bearer = {"Authorization": f"Bearer {after['credentials']['access_token']}"}
            async with direct.post(server, headers=bearer, json={}) as response:
                assert response.status == 401
    finally:
        await gateway.stop()


async def tools(gateway: RunningGateway, connection_id: str) -> list[str]:
    """Return the names of the server's tools, requested as an MCP client does (revision of June 2025)."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    headers: dict[str, str] = {}
    found: dict[str, object] = {}
    for method, params, number in (
        ("initialize", hello, 1),
        ("notifications/initialized", None, None),
        ("tools/list", {}, 2),
    ):
        body = {"jsonrpc": "2.0", "method": method}
        body |= {"id": number} if number else {}
        body |= {"params": params} if params is not None else {}
        call = gateway.call_proxy(connection_id, "", "POST", integration="mcp-generic", json=body, headers=headers)
        async with call as response:
            text = await response.text()
            assert response.status in {200, 202}, (method, response.status, text)
            if session := response.headers.get("Mcp-Session-Id"):
                headers["Mcp-Session-Id"] = session
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        found = json.loads(lines[-1])["result"] if lines else found
    listed = found["tools"]
    assert isinstance(listed, list)
    return [tool["name"] for tool in listed]
