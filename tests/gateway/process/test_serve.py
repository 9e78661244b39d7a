"""`gateway serve` as an operator sees it: output lines, signals, exit codes."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.gateways import SECRET_KEY, document
from tests.fakes.migrated import create_database
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import dial, exchange, parsed

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

PYTHON = [sys.executable, "-m", "gateway"]


class Process:
    """A running `gateway serve`. Its output line contains the `port`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0

    async def ready(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await self.process.stdout.readline()).decode().rstrip("\n")
        found = re.fullmatch(r"gateway ready on http://127\.0\.0\.1:(\d+)", line)
        assert found, line
        self.port = int(found[1])
        return line

    async def wait_for_end(self) -> tuple[int, str, str]:
        async with asyncio.timeout(PATIENCE_S):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()

    async def ask(self, path: str) -> int:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        return parsed(await exchange(self.port, head.encode())).status

    def workers(self) -> set[int]:
        pid = self.process.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@asynccontextmanager
async def serve(folder: Path, **server: Any) -> AsyncIterator[Process]:
    config_text = document([])
    config_text["environments"]["dev"]["integrations"] = {}
    config_text["catalog"] = []
    config_text["server"].update(server)
    (folder / "gateway.yaml").write_text(yaml.safe_dump(config_text))
    create_database(folder / "gateway.db")
    process = await asyncio.create_subprocess_exec(
        *PYTHON,
        *("serve", "-c", str(folder / "gateway.yaml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        yield Process(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_sigint_stops_an_idle_gateway_immediately(tmp_path: Path) -> None:
    async with serve(tmp_path, admin_port=0, drain_s=10 * PATIENCE_S) as gateway:
        await gateway.ready()
        assert await gateway.ask("/ready") == 200
        assert await gateway.ask("/health") == 200
        limits = Path(f"/proc/{gateway.process.pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0\s", limits)
        gateway.process.send_signal(signal.SIGINT)
        code, out, err = await gateway.wait_for_end()
    assert code == 0
    assert out == ""  # nothing except the one line
    assert "Traceback" not in err


async def test_after_the_signal_it_is_not_ready_and_still_serves_for_notice_s(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path, notice_s=2, drain_s=10 * PATIENCE_S) as gateway:
        await gateway.ready()
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        statuses = []
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(OSError, AssertionError):  # until it refuses connections
                while True:
                    statuses.append(await gateway.ask("/ready"))
                    await asyncio.sleep(0.02)
        assert time.monotonic() - began >= 2
        assert statuses
        assert set(statuses[1:]) == {503}
        assert (await gateway.wait_for_end())[0] == 0


async def test_request_in_flight_is_cut_after_drain_s(tmp_path: Path) -> None:
    """Without `drain_s`, the request would get 30 s, and its body would get the response 400 after `body_idle_s`."""
    async with serve(tmp_path, notice_s=0, drain_s=0.1, limits={"body_idle_s": 15}) as gateway:
        await gateway.ready()
        async with dial(gateway.port) as client:
            fields = f"Host: gw\r\nAuthorization: Bearer {SECRET_KEY}\r\nContent-Length: 9\r\nExpect: 100-continue"
            client.send(f"POST /connections HTTP/1.1\r\n{fields}\r\n\r\n".encode())
            await client.until(b"HTTP/1.1 100 Continue\r\n\r\n")
            gateway.process.send_signal(signal.SIGTERM)
            assert await client.until_closed() == b""
        assert (await gateway.wait_for_end())[0] == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_accepted_connection_is_reset_when_it_stops(tmp_path: Path, workers: int) -> None:
    """A load balancer does not repeat a POST whose connection was reset."""
    outcomes: list[bytes] = []

    async def post_until_refused() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            except OSError:
                return
            try:
                writer.write(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
                outcomes.append(await reader.read(12))
            except OSError as fault:
                outcomes.append(repr(fault).encode())
            finally:
                writer.transport.abort()

    async with serve(tmp_path, workers=workers, notice_s=0.3) as gateway:
        await gateway.ready()
        tasks = [asyncio.create_task(post_until_refused()) for _ in range(40)]
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*tasks)
        assert (await gateway.wait_for_end())[0] == 0
    assert outcomes
    assert set(outcomes) == {b"HTTP/1.1 401"}


async def test_second_signal_kills_the_process(tmp_path: Path) -> None:
    async with serve(tmp_path) as gateway:
        await gateway.ready()
        gateway.process.send_signal(signal.SIGTERM)
        while await gateway.ask("/ready") != 503:  # until the first signal has been handled
            pass
        gateway.process.send_signal(signal.SIGINT)
        assert (await gateway.wait_for_end())[0] == -signal.SIGINT


async def test_a_busy_port_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with serve(tmp_path, port=port) as gateway:
            code, out, err = await gateway.wait_for_end()
    assert (code, out) == (1, "")
    fix = "Change server.port or server.host in gateway.yaml, and update server.public_url if it contains the port."
    assert err.splitlines() == [f"gateway: 127.0.0.1:{port} is in use. {fix}"]


async def test_second_start_of_a_running_gateway_says_that_it_runs(tmp_path: Path) -> None:
    async with serve(tmp_path) as first:
        await first.ready()
        async with serve(tmp_path, port=first.port) as second:
            code, out, err = await second.wait_for_end()
    assert (code, out) == (1, "")
    refusal = f"127.0.0.1:{first.port} is in use: this gateway already runs there. Stop it first."
    assert err.splitlines() == [f"gateway: {refusal}"]


async def test_several_workers_share_the_port_and_replace_the_dead(tmp_path: Path) -> None:
    async with serve(tmp_path, workers=2, drain_s=10 * PATIENCE_S) as gateway:
        await gateway.ready()
        first = gateway.workers()
        assert len(first) == 2
        os.kill(min(first), signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while len(gateway.workers() - {min(first)}) < 2:
                await asyncio.sleep(0.01)
        assert await gateway.ask("/ready") == 200
        gateway.process.send_signal(signal.SIGTERM)
        code, _, err = await gateway.wait_for_end()
    assert code == 0
    assert "worker_died" in err


async def test_worker_that_cannot_start_ends_the_gateway_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"this is no database at all" * 100)
    async with serve(tmp_path, workers=3) as gateway:
        code, out, err = await gateway.wait_for_end()
    assert (code, out) == (1, "")
    assert len([line for line in err.splitlines() if line.startswith("gateway: ")]) == 1
    assert "Traceback" not in err
