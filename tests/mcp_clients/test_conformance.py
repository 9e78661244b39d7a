"""The protocol's conformance suite (npm `@modelcontextprotocol/conformance`).

An application on the gateway's MCP layer runs all server scenarios that a revision requires. The gateway's MCP endpoint
runs those that need none of the suite's own tools.
"""

import asyncio
import re
from pathlib import Path

import pytest

from tests.fakes.agent_gateway import agent_gateway
from tests.mcp_clients import environments
from tests.mcp_clients.conformance_application import conformance_application

LIMIT_S = 300
REVISIONS = ("2025-11-25", "2026-07-28")
AT_THE_DOOR = {
    "2025-11-25": ("server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "server-sse-multiple-streams",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
    ),
}
_COUNTED = re.compile(r"^[✓✗] ([a-z0-9-]+): (\d+) passed, (\d+) failed", re.MULTILINE)


async def suite(folder: Path, url: str, *options: str) -> tuple[int, str]:
    """Run the suite and return its exit status and output."""
    node, modules = await asyncio.to_thread(environments.node)
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(program), "server", "--url", url, *options),
        env=environments.environ(),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_all_scenarios_that_a_revision_requires_pass(tmp_path: Path, revision: str) -> None:
    environments.only_when_asked()
    async with conformance_application() as url:
        status, out = await suite(tmp_path, url, "--requirements", revision)
    assert status == 0, out[-6000:]
    counted = {name: int(passed) for name, passed, _ in _COUNTED.findall(out)}
    assert len(counted) > 30, out[-6000:]


@pytest.mark.parametrize(("revision", "scenario"), [(item, name) for item in REVISIONS for name in AT_THE_DOOR[item]])
async def test_scenarios_without_their_own_tools_pass_at_the_mcp_endpoint(
    tmp_path: Path, revision: str, scenario: str
) -> None:
    environments.only_when_asked()
    async with agent_gateway(tmp_path) as gateway:
        rules = ["GET /base/v1/search as search_issues"]
        body = {"kind": "capability", "display_name": "suite", "limits": {"connections": ["acme/c1"], "rules": rules}}
        minted = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=200)
        url = f"{gateway.running.url}/c/{minted['data']['secret']}/mcp"
        status, out = await suite(tmp_path, url, "--scenario", scenario, "--spec-version", revision, "--force")
    assert status == 0, out[-6000:]
