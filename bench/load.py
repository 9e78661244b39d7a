"""Closed-loop load on one server: a fixed number of keep-alive connections, each with one request at a time.

The load generator is wrk if it is installed, otherwise the built-in one.
"""

import asyncio
import json
import math
import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import Final

from bench import proc
from bench.server import HOST, CannotRun, Server, Target
from bench.upstream import PEERS, binary

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Load:
    """The result of one run. `cpu_us`: CPU time per request of all processes of the server, in µs."""

    requests: int
    seconds: float
    failed: int
    p50_us: float
    p99_us: float
    cpu_us: float = 0.0
    round: int = 0

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def generator() -> str:
    """Return the name of the load generator that is used on this machine."""
    return "wrk" if binary("wrk") else "the built-in load generator"


def measure_load(server: Server, *, connections: int, seconds: float, turns: int = 0, built_in: bool = False) -> Load:
    """Send load for `seconds` and measure the server's CPU time. Raises CannotRun if a response was wrong.

    `turns`: number of gateway connections that the requests use one after the other.
    """
    pids = server.pids()
    before = proc.cpu_s(pids)
    wrk = None if built_in else binary("wrk")
    if wrk is None:
        found = asyncio.run(_built_in(server.target, connections, seconds, turns))
    else:
        found = _wrk(wrk, server.target, connections, seconds, turns)
    used_us = (proc.cpu_s(pids) - before) * 1e6
    if found.failed or not found.requests:
        raise CannotRun(
            f"{server.name}: {found.failed} of {found.requests} requests failed at {connections} connections"
        )
    return Load(found.requests, found.seconds, 0, found.p50_us, found.p99_us, used_us / found.requests)


def _wrk(wrk: str, target: Target, connections: int, seconds: float, turns: int) -> Load:
    header_options = [word for name, value in target.headers.items() for word in ("-H", f"{name}: {value}")]
    command = [
        wrk,
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}",
        "--timeout",
        "10",
        "-s",
        str(PEERS / "report.lua"),
    ]
    url = f"http://{HOST}:{target.port}{target.path}/small"
    environ = {**os.environ, "BENCH_CONNECTIONS": str(turns)}
    output = subprocess.run(
        [*command, *header_options, url], capture_output=True, text=True, check=False, env=environ
    ).stdout
    found = re.search(r"^BENCH (.*)$", output, re.MULTILINE)
    if found is None:
        raise CannotRun(f"wrk printed no summary: {output[-300:]}")
    return Load(**json.loads(found[1]))


async def _built_in(target: Target, connections: int, seconds: float, turns: int) -> Load:
    """Run one protocol per connection. Each protocol sends its next request after it has received the whole response."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    heads = [_request(target, f"c{number}") for number in range(turns)] or [_request(target, None)]
    callers = [_Caller(heads, loop.create_future(), began + seconds) for _ in range(connections)]
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, HOST, target.port)  # type: ignore[misc]
    await asyncio.gather(*(caller.done for caller in callers))
    took = sorted(time_us for caller in callers for time_us in caller.took_us) or [0.0]
    failed = sum(caller.failed for caller in callers)
    middle, late = took[len(took) // 2], took[min(len(took) - 1, len(took) * 99 // 100)]
    return Load(len(took), loop.time() - began, failed, middle, late)


def once_each(target: Target, connections_of_ours: int, at_once: int) -> None:
    """Send one request for each gateway connection `c0`, `c1` …, `at_once` requests at a time. Raises CannotRun."""
    asyncio.run(_once_each(target, connections_of_ours, at_once))


async def _once_each(target: Target, connections_of_ours: int, at_once: int) -> None:
    loop = asyncio.get_running_loop()
    heads = [_request(target, f"c{number}") for number in range(connections_of_ours)]
    callers = [_Caller(heads[at::at_once], loop.create_future(), math.inf, once=True) for at in range(at_once)]
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, HOST, target.port)  # type: ignore[misc]
    await asyncio.gather(*(caller.done for caller in callers))
    if sum(len(caller.took_us) for caller in callers) != connections_of_ours:
        raise CannotRun(f"{sum(caller.failed for caller in callers)} of {connections_of_ours} requests failed")


class _Caller(asyncio.Protocol):
    """A client. `took_us`: the time of each complete response with status 200. `once`: send each head only once."""

    def __init__(self, heads: list[bytes], done: "asyncio.Future[None]", until: float, *, once: bool = False) -> None:
        self._heads = heads
        self._max_requests = len(heads) if once else math.inf
        self._until = until
        self._held = bytearray()
        self._sent_at = 0.0
        self.done = done
        self.took_us: list[float] = []
        self.failed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(_END)
        if end < 0:
            return
        length = _LENGTH.search(self._held, 0, end + 2)
        if length is not None and len(self._held) < end + len(_END) + int(length[1]):
            return
        now = time.monotonic()
        if length is None or not self._held.startswith(b"HTTP/1.1 200"):
            self.failed += 1
        else:
            self.took_us.append((now - self._sent_at) * 1e6)
        self._held.clear()
        if now < self._until and not self.failed and len(self.took_us) < self._max_requests:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, _fault: Exception | None) -> None:
        if self._held or not (self.took_us or self.failed):
            self.failed += 1
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        self._transport.write(self._heads[len(self.took_us) % len(self._heads)])


def _request(target: Target, connection_id: str | None) -> bytes:
    headers = {"Host": f"{HOST}:{target.port}", **target.headers}
    if connection_id is not None:
        headers["Connection-Id"] = connection_id
    lines = [f"GET {target.path}/small HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
