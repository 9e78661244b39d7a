"""AgentDojo's injection tasks with the MCP endpoint: injected calls are refused if the key does not allow them.

Each call of a task's ground truth is mapped to the closest operation of the sandbox. Functions without a similar
operation are in `UNMAPPED`, and are tried as the request that such an API would need.
"""

import asyncio
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.journeys.test_demo import demo
from tests.mcp_clients import environments
from tests.mcp_clients.test_agent_clients import run_program

SEARCH, ISSUE, NEW, ME = ("GET", "/search"), ("GET", "/issue/ACME-1"), ("POST", "/issue"), ("GET", "/myself")
MAPPED: Final = {
    "add_user_to_channel": NEW,
    "create_calendar_event": NEW,
    "get_all_hotels_in_city": SEARCH,
    "get_channels": SEARCH,
    "get_hotels_prices": SEARCH,
    "get_scheduled_transactions": SEARCH,
    "get_user_information": ME,
    "invite_user_to_slack": NEW,
    "post_webpage": NEW,
    "read_channel_messages": ISSUE,
    "reserve_hotel": NEW,
    "search_emails": SEARCH,
    "send_direct_message": NEW,
    "send_email": NEW,
    "send_money": NEW,
}
UNMAPPED: Final = {
    "delete_email": ("DELETE", "/issue/ACME-1"),
    "delete_file": ("DELETE", "/issue/ACME-1/attachment/13"),
    "get_webpage": ("GET", "//www.true-informations.com"),
    "remove_user_from_slack": ("DELETE", "/user"),
    "update_password": ("PUT", "/myself/password"),
    "update_scheduled_transaction": ("PUT", "/issue/ACME-1"),
}
ALLOWED: Final = {SEARCH, ISSUE}


async def test_no_injected_call_outside_the_rules_succeeds(tmp_path: Path) -> None:
    environments.only_when_asked()
    interpreter = await asyncio.to_thread(environments.python, "agentdojo")
    tasks = json.loads(
        (await run_program(interpreter, Path(__file__).with_name("injection_tasks.py"), folder=tmp_path)).splitlines()[
            -1
        ]
    )
    wanted = [(task, name, arguments) for task in tasks for name, arguments in task["calls"]]
    assert len(tasks) >= 30
    assert {name for _, name, _ in wanted} <= MAPPED.keys() | UNMAPPED.keys()
    outcomes: Counter[str] = Counter()
    async with demo(tmp_path / "state") as (_, ready), aiohttp.ClientSession() as session:
        key, site = await reading_key(session, ready)
        sandbox = await sandbox_of(session, ready)
        for task, name, arguments in wanted:
            method, path = place = MAPPED.get(name) or UNMAPPED[name]
            before = await received_requests(session, sandbox)
            for tool, tool_arguments in calls_for(site, method, path, arguments):
                result = await call_result(session, ready, key, tool, tool_arguments)
                worked = result.get("isError") is False
                assert worked is (place in ALLOWED and tool != "create_issue"), (
                    task["suite"],
                    task["task"],
                    name,
                    tool,
                    result,
                )
                outcomes["allowed" if worked else "refused"] += 1
            if place not in ALLOWED:
                assert await received_requests(session, sandbox) == before, (task["suite"], task["task"], name)
    print(f"{len(tasks)} tasks, {len(wanted)} calls, {outcomes.total()} tries: {dict(outcomes)}")
    print(f"not mapped: {', '.join(sorted(UNMAPPED))}")


async def reading_key(session: aiohttp.ClientSession, ready: dict[str, Any]) -> tuple[str, str]:
    """Return a key that only searches and reads issues, and the path of the site."""
    found = re.search(r"(/ex/sandbox/[^/]+/rest/api/3)/", ready["curl"])
    assert found is not None
    rules = [f"GET {found[1]}/search as search_issues", f"GET {found[1]}/issue/{{key}} as get_issue"]
    limits = {"connections": [f"{ready['provider_config_key']}/{ready['connection_id']}"], "rules": rules}
    headers = {"Authorization": f"Bearer {ready['secret_key']}"}
    body = {"display_name": "reader", "limits": limits}
    async with session.post(f"{ready['url']}/environment/api-keys", json=body, headers=headers) as response:
        return (await response.json())["data"]["secret"], found[1]


def calls_for(site: str, method: str, path: str, arguments: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the ways to make a call: by the raw API, by a made-up tool, and by the tool for it, if there is one."""
    body = {"body": {"fields": arguments}} if method in ("POST", "PUT") else {}
    calls = [("call_api", {"method": method, "path": site + path, **body})]
    if (method, path) == NEW:
        calls += [("create_issue", body), ("call_tool", {"name": "call_api", "arguments": calls[0][1]})]
    return calls


async def call_result(
    session: aiohttp.ClientSession, ready: dict[str, Any], key: str, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the result; an error is returned as a failed result."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Authorization": f"Bearer {key}"}
    async with session.post(f"{ready['url']}/mcp", json=message, headers=headers) as response:
        body = await response.json()
    result: dict[str, Any] = body.get("result") or {"isError": True, "error": body["error"]}
    return result


async def received_requests(session: aiohttp.ClientSession, sandbox: str) -> int:
    """Return how many requests the sandbox's API has received."""
    async with session.get(f"{sandbox}/sandbox/stats") as response:
        return int((await response.json())["api_requests"])


async def sandbox_of(session: aiohttp.ClientSession, ready: dict[str, Any]) -> str:
    """Return the sandbox's URL, as a dry run shows it."""
    *_, url = shlex.split(ready["curl"])
    header_fields = {"Provider-Config-Key": ready["provider_config_key"], "Connection-Id": ready["connection_id"]}
    headers = {"Authorization": f"Bearer {ready['secret_key']}", "Gateway-Dry-Run": "true", **header_fields}
    async with session.get(url, headers=headers) as response:
        found = re.search(r"http://127\.0\.0\.1:[0-9]+(?=/ex/)", await response.text())
    assert found is not None
    return found[0]
