"""A child process is started, monitored and stopped, and never left running."""

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from gateway.cli.demo import DemoFailed
from gateway.cli.demo.child import start_child
from gateway.cli.demo.demo_run import reserve_port
from tests.fakes.patience import PATIENCE_S


def _sandbox_arguments(folder: Path, *extra: str) -> list[str]:
    (folder / "secret").write_text("a-client-secret\n")
    callback = "http://127.0.0.1:9/oauth/callback"
    return ["--client-secret-file", str(folder / "secret"), "--redirect-uri", callback, *extra]


async def test_child_reports_its_url_and_ends_with_the_block(tmp_path: Path) -> None:
    log = tmp_path / "sandbox.log"
    async with start_child(
        "sandbox", "gateway.sandbox", *_sandbox_arguments(tmp_path, "--port", "0"), log=log
    ) as child:
        url = await child.wait_until_ready()
        async with aiohttp.ClientSession() as session, session.get(url + "/") as response:
            assert response.status == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as session, session.get(url + "/"):
            pass
    assert "sandbox ready on" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


async def test_error_quotes_the_log_of_a_child_that_cannot_start(tmp_path: Path) -> None:
    state = tmp_path / "sandbox.json"
    state.write_text("{")
    arguments = _sandbox_arguments(tmp_path, "--port", "0", "--state", str(state))
    async with start_child("sandbox", "gateway.sandbox", *arguments, log=tmp_path / "sandbox.log") as child:
        with pytest.raises(DemoFailed, match=r"sandbox ended \(exit code 1\)") as failed:
            await child.wait_until_ready()
    assert "cannot be read as a sandbox state file" in str(failed.value)
    assert "Traceback" not in str(failed.value)


async def test_busy_port_of_the_sandbox_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        arguments = _sandbox_arguments(tmp_path, "--port", str(busy.getsockname()[1]))
        async with start_child("sandbox", "gateway.sandbox", *arguments, log=tmp_path / "sandbox.log") as child:
            with pytest.raises(DemoFailed):
                await child.wait_until_ready()
    assert len((tmp_path / "sandbox.log").read_text().splitlines()) == 1


def test_error_for_a_busy_port_names_the_option() -> None:
    with (
        reserve_port(0, "--port") as port,
        pytest.raises(DemoFailed, match=rf"port {port} is in use; .* --sandbox-port"),
        reserve_port(port, "--sandbox-port"),
    ):
        raise AssertionError("the same port was reserved twice")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
async def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    arguments, log = _sandbox_arguments(tmp_path, "--port", "0"), str(tmp_path / "log")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from gateway.cli.demo.child import start_child\n"
        "async def main():\n"
        f"    async with start_child('sandbox', 'gateway.sandbox', *{arguments!r}, log=Path({log!r})) as it:\n"
        "        await it.wait_until_ready()\n"
        "        print(it.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    deadline = time.monotonic() + 10
    async with asyncio.timeout(PATIENCE_S):
        while _lives(child):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


def _lives(pid: int) -> bool:
    """Return whether the process runs. A zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
