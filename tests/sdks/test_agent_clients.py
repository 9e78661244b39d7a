"""Published MCP clients, unchanged, at the agent door: they list, call, are refused, and get the link of a missing connection."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agents import CONNECT, agents
from tests.sdks import environments

CALLS = Path(__file__).parent / "agent_calls.py"
LIMIT_S = 120


async def answered(client: str, url: str, key: str) -> dict[str, Any]:
    interpreter = await asyncio.to_thread(environments.python, ("fastmcp",))
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(str(interpreter), str(CALLS), client, f"{url}/mcp", key),
        env={**environ, "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, faults = await process.communicate()
    assert process.returncode == 0, faults.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("client", ["auto", "legacy", "2026-07-28", "fastmcp"])
async def test_a_published_client_lists_calls_and_is_refused(tmp_path: Path, client: str) -> None:
    if os.environ.get("GATEWAY_SDKS") != "all":
        pytest.skip("too slow for every run; `make sdks` runs it")
    async with agents(tmp_path) as door:
        rules = "GET /base/v1/search as search_issues", "GET /base/v1/me as get_me"
        scopes = ["environment:proxy", CONNECT]
        whole = await door.key(*rules, scopes=scopes)
        found = await answered(client, door.running.url, whole)
        assert found["tools"] == ["search_issues", "get_me"]
        search, refused, me = found["results"]
        assert (search["error"], me["error"]) == (False, False)
        assert search["structured"]["path"] == "/base/v1/search?q=x"
        assert refused["error"] is True
        assert "Rule: rules" in refused["text"]
        lost = await door.key(*rules, scopes=scopes, limits={"connections": ["lane/c9"]})
        found = await answered(client, door.running.url, lost)
        last = found["results"][2]
        assert last["error"] is True
        assert f"{door.running.url}/connect" in (found["asked"][0] if found["asked"] else last["text"])
        assert bool(found["asked"]) is (client in ("auto", "2026-07-28"))
