"""Load at a fixed rate: each request is sent when it is due, even if earlier requests have no response yet.

If the server stalls, the requests that are due during the stall are late, and the delay of each counts. (wrk would not
send these requests, because it waits for earlier responses.) A request waits if no connection is idle. Its latency
counts from the time when the request was due.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

import uvloop

from bench.load import _END, _LENGTH, _request
from bench.server import HOST, CannotRun, Target

CONNECTIONS: Final = 64
PATIENCE_S: Final = 20.0  # how long to wait for the last responses, in seconds


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency percentiles of `requests` requests, in ms."""

    requests: int
    p50: float
    p99: float
    p999: float


def at_rate(target: Target, rate: float, seconds: float) -> Latency:
    """Measure the latency at `rate` requests per second. Raises CannotRun if a response was wrong."""
    took = sorted(uvloop.run(_run(target, rate, seconds)))
    return Latency(len(took), *(took[min(len(took) - 1, int(len(took) * part))] * 1000 for part in (0.5, 0.99, 0.999)))


async def _run(target: Target, rate: float, seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    took, due, idle = list[float](), deque[float](), list[_Caller]()
    request, total = _request(target, None), int(rate * seconds)
    all_came = loop.create_future()

    def record_latency(latency_s: float) -> None:
        took.append(latency_s)
        if len(took) == total:
            all_came.set_result(None)

    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: _Caller(request, record_latency, due, idle), HOST, target.port)
    began, sent = time.monotonic(), 0
    while sent < total:
        now = time.monotonic()
        ready = min(total, int((now - began) * rate))
        for _ in range(ready - sent):
            if idle:
                idle.pop().send(now)
            else:
                due.append(now)
        sent = ready
        await asyncio.sleep(0.0005)
    with suppress(TimeoutError):
        await asyncio.wait_for(all_came, PATIENCE_S)
    if len(took) < total:
        raise CannotRun(f"{total - len(took)} of {total} requests at {rate:.0f}/s failed or got no response")
    return took


class _Caller(asyncio.Protocol):
    def __init__(
        self, request: bytes, responded: Callable[[float], None], due: deque[float], idle: "list[_Caller]"
    ) -> None:
        self._request, self._responded, self._due, self._idle = request, responded, due, idle
        self._held = b""
        self._due_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport class does not inherit from asyncio's
        self._idle.append(self)

    def send(self, due_at: float) -> None:
        self._due_at = due_at
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(_END)
        if end < 0:
            return
        length = _LENGTH.search(self._held, 0, end + 2)
        if length is None or len(self._held) < end + len(_END) + int(length[1]):
            return
        if self._held.startswith(b"HTTP/1.1 200"):
            self._responded(time.monotonic() - self._due_at)
        self._held = b""
        if self._due:
            self.send(self._due.popleft())
        else:
            self._idle.append(self)
