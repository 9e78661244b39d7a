"""The first minute of a new user: `gateway demo` and the curl command that it prints."""

import asyncio
import json
import os
import shlex
import signal
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.fakes.commands import command_output
from tests.fakes.patience import PATIENCE_S

DEMO = (sys.executable, "-P", "-m", "gateway", "demo", "--port", "0", "--sandbox-port", "0", "--json")


@asynccontextmanager
async def demo(state: Path) -> AsyncIterator[tuple[Process, dict[str, Any]]]:
    """Run a demo. Yield it together with the line that it prints when it is ready."""
    process = await asyncio.create_subprocess_exec(*DEMO, "--state", str(state), stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        if not line:
            pytest.fail((await process.stderr.read()).decode())
        yield process, json.loads(line)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def run_curl(line: str) -> tuple[int, bytes]:
    """Run the curl command in a shell. Return its exit code and the body. `-sS` only hides the progress meter."""
    process = await asyncio.create_subprocess_shell(f"{line} -sS", stdout=PIPE)
    body, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, body


async def issues_found_by_curl(ready: dict[str, Any]) -> int:
    code, body = await run_curl(ready["curl"])
    assert code == 0
    return len(json.loads(body)["issues"])


async def issues_found_by_an_agent(ready: dict[str, Any]) -> int:
    """Start the MCP server of the printed command. Return how many issues its tool finds."""
    *words, url, _, header = shlex.split(ready["mcp_add"])
    assert words == ["claude", "mcp", "add", "--transport", "http", "sandbox"]
    name, _, key = header.partition(": ")
    call = {"name": "search_issues", "arguments": {"query": {"maxResults": 2}}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    async with aiohttp.ClientSession() as session, session.post(url, json=message, headers={name: key}) as response:
        result = (await response.json())["result"]
    return len(result["structuredContent"]["issues"])


async def exit_code_after(process: Process, ready: dict[str, Any], number: signal.Signals) -> int:
    """Send the signal. Check that the port is closed, and return the exit code."""
    process.send_signal(number)
    code = await asyncio.wait_for(process.wait(), PATIENCE_S)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", urlsplit(ready["url"]).port)
    return code


async def test_the_demo_works_on_the_first_start_on_later_ones_and_with_an_incomplete_state_folder(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    async with demo(state) as (process, first):
        assert first["curl"].startswith("curl ")
        assert shlex.split(first["curl"])[-1].startswith(f"{first['url']}/proxy/ex/sandbox/")
        assert await issues_found_by_curl(first) == 2
        assert await issues_found_by_an_agent(first) == 2
        await assert_health_ready_and_links_respond(first)
        assert_only_the_owner_can_read_keys_and_database(state)
        await assert_commands_find_both_ports(state, first)
        assert await exit_code_after(process, first, signal.SIGTERM) == 0
    async with demo(state) as (process, second):
        assert second["secret_key"] == first["secret_key"]
        assert second["connection_id"] == first["connection_id"]
        keys = [shlex.split(ready["mcp_add"])[-1] for ready in (first, second)]
        assert keys[0] == keys[1], "a key that was pasted into an agent's client must stay valid"
        assert await issues_found_by_curl(second) == 2
        assert await issues_found_by_an_agent(second) == 2
        assert await exit_code_after(process, second, signal.SIGINT) == 0
    (state / "sandbox.json").unlink()
    async with demo(state) as (process, third):
        assert await issues_found_by_curl(third) == 2, "a connection whose grant is missing is authorized again"
        assert third["connection_id"] == first["connection_id"]
        assert shlex.split(third["mcp_add"])[-1] == keys[0]
        assert await issues_found_by_an_agent(third) == 2
        await assert_demo_ends_with_its_gateway_and_says_why(process)
    (state / "encryption_key").write_text("A" * 43 + "=\n")
    await assert_wrong_encryption_key_is_reported(state)


async def assert_health_ready_and_links_respond(ready: dict[str, Any]) -> None:
    async with aiohttp.ClientSession() as session:
        links = (ready["connect_link"], ready["console_link"])
        for url in (f"{ready['url']}/health", f"{ready['url']}/ready", *links):
            async with session.get(url) as response:
                assert response.status == 200, url


async def assert_commands_find_both_ports(state: Path, ready: dict[str, Any]) -> None:
    output = await command_output("connections", "refresh", "-c", str(state / "gateway.yaml"), ready["connection_id"])
    assert output.code == 0, output
    key = ("keys", "create", "agent", "--capability", "--connection", f"sandbox/{ready['connection_id']}")
    output = await command_output(*key, "-c", str(state / "gateway.yaml"))
    assert f"{ready['url']}/c/gw_cap_" in output.out, output


def assert_only_the_owner_can_read_keys_and_database(state: Path) -> None:
    for name in ("gateway.yaml", "gateway.db", "encryption_key", "secret_key", "sandbox.json", "gateway.log"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


async def test_a_signal_during_the_start_leaves_no_process_behind(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(*DEMO, "--state", str(tmp_path), stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_S):
        while not (tmp_path / "sandbox.json").exists() and not (tmp_path / "gateway.log").exists():
            assert process.returncode is None
            await asyncio.sleep(0.01)
    children = _children(process.pid)
    process.terminate()
    assert await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0
    assert [child for child, _ in children if _is_running(child)] == []


async def assert_demo_ends_with_its_gateway_and_says_why(process: Process) -> None:
    os.kill(_child(process.pid, "serve"), signal.SIGKILL)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 1
    assert process.stderr is not None
    assert "the gateway ended (signal 9)" in (await process.stderr.read()).decode()


async def assert_wrong_encryption_key_is_reported(state: Path) -> None:
    process = await asyncio.create_subprocess_exec(*DEMO, "--state", str(state), stdout=PIPE, stderr=PIPE)
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert "the gateway ended (exit code" in err.decode()
    assert "key" in err.decode().splitlines()[-1]
    assert "Traceback" not in err.decode()


def _child(parent: int, word: str) -> int:
    """Return the child of `parent` whose command line contains `word`."""
    (child,) = [child for child, words in _children(parent) if word in words]
    return child


def _children(parent: int) -> list[tuple[int, list[str]]]:
    """Return process ID and command line of each child process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            words = (process / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append((int(process.name), words))
    return found


def _is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()
