"""Unchanged MCP clients with the MCP endpoint: they list, call, are refused, and get a link to connect."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent_gateway import CONNECT, agent_gateway
from tests.mcp_clients import environments

HERE = Path(__file__).parent
LIMIT_S = 120
# Client ▸ the package that contains it.
OF_PYTHON = {
    "auto": "fastmcp",
    "legacy": "fastmcp",
    "2026-07-28": "fastmcp",
    "fastmcp": "fastmcp",
    "openai-agents": "openai-agents",
    "langchain-mcp-adapters": "langchain-mcp-adapters",
    "pydantic-ai-slim": "pydantic-ai-slim",
}
OF_NODE = ("@ai-sdk/mcp", "@modelcontextprotocol/client")
OPENS_LINKS = ("auto", "2026-07-28")
RULES = "GET /base/v1/search as search_issues", "GET /base/v1/me as get_me"


async def run_program(*command: str | Path, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        env=environments.environ(),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, faults = await process.communicate()
    assert out, faults.decode()[-3000:]
    return out.decode()


async def run_client(client: str, url: str, key: str) -> dict[str, Any]:
    if client in OF_NODE:
        node, modules = await asyncio.to_thread(environments.node)
        out = await run_program(node, HERE / "agent_calls.mjs", client, f"{url}/mcp", key, folder=modules.parent)
    else:
        interpreter = await asyncio.to_thread(environments.python, OF_PYTHON[client])
        out = await run_program(interpreter, HERE / "agent_calls.py", client, f"{url}/mcp", key, folder=HERE)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.parametrize("client", [*OF_PYTHON, *OF_NODE])
async def test_a_published_client_lists_calls_and_is_refused(tmp_path: Path, client: str) -> None:
    environments.only_when_asked()
    async with agent_gateway(tmp_path) as gateway:
        scopes = ["environment:proxy", CONNECT]
        whole = await gateway.key(*RULES, scopes=scopes)
        found = await run_client(client, gateway.running.url, whole)
        assert found["tools"] == ["search_issues", "get_me"]
        search, refused, me = found["results"]
        assert (search["error"], me["error"]) == (False, False), found
        assert "/base/v1/search?q=x" in search["text"]
        assert refused["error"] is True
        assert "Rule: rules" in refused["text"] or '"rule":"rules"' in refused["text"]
        assert [path for _, path, _, _ in gateway.provider.calls] == ["/base/v1/search?q=x", "/base/v1/me"]
        lost = await gateway.key(*RULES, scopes=scopes, limits={"connections": ["acme/c9"]})
        found = await run_client(client, gateway.running.url, lost)
        last = found["results"][2]
        assert last["error"] is True
        assert f"{gateway.running.url}/connect" in (found["asked"][0] if found["asked"] else last["text"])
        assert bool(found["asked"]) is (client in OPENS_LINKS)


@pytest.mark.parametrize("client", ["auto", "legacy", "2026-07-28", "fastmcp"])
async def test_a_published_client_shows_why_its_key_is_refused(tmp_path: Path, client: str) -> None:
    environments.only_when_asked()
    interpreter = await asyncio.to_thread(environments.python, OF_PYTHON[client])
    async with agent_gateway(tmp_path) as gateway:
        script = (HERE / "agent_calls.py", client, f"{gateway.running.url}/mcp", "gw_sk_replaced", "--raised")
        found = json.loads((await run_program(interpreter, *script, folder=HERE)).splitlines()[-1])
    assert "This secret key is mistyped or incomplete" in found["raised"], found


async def test_the_examples_of_the_documentation_work_as_they_stand(tmp_path: Path) -> None:
    environments.only_when_asked()
    page = (HERE.parents[1] / "docs" / "agents.md").read_text()
    first_call, example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    interpreter = await asyncio.to_thread(environments.python, "fastmcp")  # fastmcp needs mcp, so it is there too
    async with agent_gateway(tmp_path) as gateway:
        key = await gateway.key(*RULES, scopes=["environment:proxy"])
        url = f"{gateway.running.url}/mcp"
        out = await run_program(interpreter, "-c", first_call, url, key, folder=tmp_path)
        assert out.splitlines()[0] == "['search_issues', 'get_me']"
        assert "/base/v1/search?maxResults=2" in out
        for shown, real in {"https://gateway.example.com/mcp": url, "gw_sk_…": key}.items():
            assert shown in example
            example = example.replace(shown, real)
        out = await run_program(interpreter, "-c", example, folder=tmp_path)
    assert out.splitlines()[0] == "['search_issues', 'get_me']"
    assert "/base/v1/search?jql=project" in out


async def test_the_inspector_lists_and_calls(tmp_path: Path) -> None:
    environments.only_when_asked()
    node, modules = await asyncio.to_thread(environments.node)
    inspector = modules / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    async with agent_gateway(tmp_path) as gateway:
        key = await gateway.key(*RULES)

        async def asked(*extra: str) -> Any:
            address = (
                "--cli",
                f"{gateway.running.url}/mcp",
                "--transport",
                "http",
                "--header",
                f"Authorization: Bearer {key}",
            )
            return json.loads(await run_program(node, inspector, *address, *extra, folder=tmp_path))

        listed = await asked("--method", "tools/list")
        assert [tool["name"] for tool in listed["tools"]] == ["search_issues", "get_me"]
        called = await asked("--method", "tools/call", "--tool-name", "get_me")
        assert called["structuredContent"]["path"] == "/base/v1/me"
        key = await gateway.key(*RULES, limits={"connections": ["acme/c9"]})
        refused = await asked("--method", "tools/call", "--tool-name", "get_me")
        assert "unknown_connection" in json.dumps(refused)
