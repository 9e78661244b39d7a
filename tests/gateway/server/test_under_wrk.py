"""Signals during a load of wrk with keep-alive connections: the long form of `test_under_load`, for `make drill`."""

import asyncio
import json
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gateways import SECRET_KEY
from tests.fakes.load import SHORT, Upstream
from tests.fakes.processes import CONNECTION, Files, ServingProcess, serving

WRK = shutil.which("wrk")
SECONDS = 20
TURNS = 10
CLIENTS = 32

pytestmark = [
    pytest.mark.asyncio(loop_factories=["asyncio"]),
    pytest.mark.skipif(WRK is None or "GATEWAY_DRILL" not in os.environ, reason="make drill runs it, where wrk is"),
]

# wrk counts incomplete responses. This script also counts wrong responses.
SCRIPT = """
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() wrong = 0 end
function response(status, headers, body)
  if status ~= 200 or body ~= BODY then wrong = wrong + 1 end
end
function done(summary, latency)
  local wrong = 0
  for _, thread in ipairs(threads) do wrong = wrong + thread:get("wrong") end
  local failed = summary.errors
  io.write(string.format(
    '\\n{"requests": %d, "wrong": %d, "connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d, "p99_ms": %.1f}\\n',
    summary.requests, wrong, failed.connect, failed.read, failed.write, failed.status, failed.timeout,
    latency:percentile(99) / 1000))
end
"""


class Run:
    """A running wrk."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def counts(self) -> dict[str, Any]:
        out, err = await self._process.communicate()
        assert self._process.returncode == 0, err.decode()
        counted: dict[str, Any] = json.loads(out.decode().strip().splitlines()[-1])
        return counted

    @property
    def over(self) -> bool:
        return self._process.returncode is not None


@asynccontextmanager
async def wrk(folder: Path, port: int) -> AsyncIterator[Run]:
    script = folder / "wrk.lua"
    script.write_text(f'BODY = "{SHORT.decode()}"\n{SCRIPT}')
    headers = {"Authorization": f"Bearer {SECRET_KEY}", **CONNECTION}
    lines = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    assert WRK is not None
    process = await asyncio.create_subprocess_exec(
        *(WRK, "-t2", f"-c{CLIENTS}", f"-d{SECONDS}s", "--timeout", "10s", "-s", str(script), *lines),
        f"http://127.0.0.1:{port}/proxy/short",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Run(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def report(name: str, workers: int, counted: dict[str, Any], **more: Any) -> None:
    print(f"\n{name}, {workers} worker(s): {counted | more}")


def none_failed(counted: dict[str, Any]) -> bool:
    failed = {name: counted[name] for name in ("wrong", "connect", "read", "write", "status", "timeout")}
    assert failed == dict.fromkeys(failed, 0)
    return bool(counted["requests"] > 0)


@pytest.mark.parametrize("workers", [1, 2])
async def test_wrk_counts_no_failed_request_during_reloads(tmp_path: Path, workers: int) -> None:
    upstream = Upstream()
    async with upstream.serving():
        files = Files(tmp_path, upstream.port, workers=workers)
        async with serving(files) as gateway:
            await gateway.connect()
            async with wrk(tmp_path, gateway.port) as load:
                reloads = refusals = 0
                good = files.document["egress"]
                while not load.over and reloads < TURNS:
                    # the change makes the gateway create a new egress
                    files.document["egress"] = {**good, "timeouts": {"connect_s": 1 + reloads % 7}}
                    files.write()
                    reloads += 1
                    gateway.signal(signal.SIGHUP)
                    await gateway.logged("reloaded", reloads * workers)
                    files.path.write_text("server: {port: nonsense}\n")
                    refusals += 1
                    gateway.signal(signal.SIGHUP)
                    await gateway.logged("reload_refused", refusals)
                counted = await load.counts()
    report("SIGHUP", workers, counted, reloads=reloads, refusals=refusals)
    assert none_failed(counted)


@pytest.mark.parametrize("workers", [1, 2])
async def test_wrk_counts_no_failed_request_during_stops(tmp_path: Path, workers: int) -> None:
    upstream = Upstream()
    async with upstream.serving():
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            files = Files(tmp_path, upstream.port, workers=workers)
            async with serving(files, listener) as first:
                await first.connect()
                async with wrk(tmp_path, first.port) as load:
                    stops = await run_successors(files, listener, first, load)
                    counted = await load.counts()
    report("SIGTERM", workers, counted, stops=stops)
    assert none_failed(counted)


async def run_successors(files: Files, listener: socket.socket, serves: ServingProcess, load: Run) -> int:
    """Start several gateways one after the other on the same socket. Stop each gateway as soon as its successor is
    ready.

    Return the number of handovers.
    """
    if load.over:
        return 0
    async with serving(files, listener) as successor:
        serves.signal(signal.SIGTERM)
        assert await serves.ended() == 0
        return 1 + await run_successors(files, listener, successor, load)
