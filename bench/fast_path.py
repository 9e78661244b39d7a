"""``python -m bench.fast_path``: CPU cost of the fast path's own code, without sockets.

The benchmark calls the client protocol and the provider protocol many times with a request and its response, as the
event loop does. Their transports discard what is written. So only Python code is measured: no system call, no load
generator, no second process. Two versions can be compared even on a busy machine.

``--shape`` chooses the request and the response. ``--beside`` measures a second shape alternately with the first, and
prints the median of the ratios. ``--profile`` shows where the time is spent (cProfile, which itself costs much).
``--bytecodes`` counts the bytecodes of one request, which other work on the machine cannot change.
"""

import argparse
import asyncio
import base64
import cProfile
import gc
import json
import os
import pstats
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final

import aiohttp
import uvloop

import gateway
from bench.gateway_contender import HEADER, INTEGRATION
from bench.shapes import BODY, CALL
from bench.upstream import SMALL
from gateway.egress.provider_connection import ProviderConnection
from gateway.observe import logs
from gateway.runtime import RUNTIME, Runtime
from gateway.server.client_protocol import ClientProtocol
from gateway.server.fast_path import FastPath
from gateway.server.serving_worker import freeze_startup_objects

# The gateway never connects to this origin, because its pool already contains a connection with the benchmark's
# transport.
ORIGIN: Final = ("http", "127.0.0.1", 9)
RESPONSE: Final = (
    "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 22:00:00 GMT\r\n"
    "Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: keep-alive\r\n\r\n{body}"
)
EVENTS_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 22:00:00 GMT\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nCache-Control: no-store\r\n\r\n"
)
EVENT: Final = b"id: 10\ndata: 12345678901234\n\n"
CHUNK: Final = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
EVENTS: Final = 100
SHAPES: Final = (
    *("get", "turns", "trace", "post", "ids", "headers", "events", "bursts"),
    *("close", "agent", "agent-ids", "minted"),
)
MESSAGES: Final = ("agent", "agent-ids")  # the shapes that are messages to the MCP endpoint
AGENT_BODY: Final = json.dumps(BODY)  # body of the call that the shape `agent` sends
BURST: Final = 7  # events that arrive in one read
REQUESTS_PER_FIGURE: Final = 100
TOGETHER: Final = 1000
IN_TURN: Final = 5000  # number of connections that the shape `turns` calls one after the other


class DiscardingTransport(asyncio.Transport):
    """A transport that discards what is written. `written`: number of write calls."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, _data: Any) -> None:
        self.written += 1

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        pass

    close = pause_reading = resume_reading = abort


class Stage:
    """A gateway with one client. Connection `c0` has a provider that does not exist."""

    def __init__(
        self, fast_path: FastPath, runtime: Runtime, new_client: Callable[[], ClientProtocol], key: str, agent: str
    ) -> None:
        self.fast_path, self.runtime, self.new_client, self.client = fast_path, runtime, new_client, new_client()
        self.caller, self.provider = DiscardingTransport(), DiscardingTransport()
        self.names = f"Host: 127.0.0.1:3003\r\nAuthorization: Bearer {key}\r\nProvider-Config-Key: {INTEGRATION}\r\n"
        self.agent = f"Host: 127.0.0.1:3003\r\nAuthorization: Bearer {agent}\r\nAccept: application/json\r\n"
        self.agent_key = agent
        self.request_count = 0
        self.response = [RESPONSE.format(length=len(SMALL), body=SMALL).encode()]

    def requests(self, shape: str, count: int) -> list[bytes]:
        """Return the next `count` requests of this shape."""
        extra, body = "", ""
        if shape in MESSAGES:
            return [self.message(shape) for _ in range(count)]
        key = self.names
        # the POST that the gateway sends for a call of `agent`, here sent by HTTP with the same key
        if shape == "minted":
            extra, body = f"Content-Type: application/json\r\nContent-Length: {len(AGENT_BODY)}\r\n", AGENT_BODY
            key = f"{self.agent}Provider-Config-Key: {INTEGRATION}\r\n"
        elif shape == "headers":
            extra = "".join(f"X-Extra-{number}: {'h' * 244}\r\n" for number in range(28))
        elif shape == "close":
            extra = "Connection: close\r\n"
        elif shape not in ("get", "turns", "trace"):
            extra, body = "Content-Type: application/json\r\nContent-Length: 300\r\n", "x" * 300
        made = []
        for _ in range(count):
            self.request_count += 1
            if shape in ("trace", "ids"):
                extra = f"traceparent: 00-{self.request_count:032x}-{self.request_count:016x}-01\r\n"
            if shape == "ids":
                extra += (
                    f"tracestate: vendor=p:{self.request_count:016x}\r\nX-Request-Id: {self.request_count:032x}\r\n"
                )
                extra += f"Idempotency-Key: {self.request_count:032x}\r\n"
                extra += "Content-Type: application/json\r\nContent-Length: 300\r\n"
            method = "POST" if body else "GET"
            names = f"{key}Connection-Id: c{self.request_count % IN_TURN if shape == 'turns' else 0}\r\n"
            made.append(f"{method} /proxy/small HTTP/1.1\r\n{names}{extra}\r\n{body}".encode())
        return made

    def message(self, shape: str) -> bytes:
        """Return the next message to the MCP endpoint. `agent-ids`: with header values that no other message has."""
        extra = ""
        if shape == "agent-ids":
            self.request_count += 1
            number = self.request_count
            extra = (
                f"traceparent: 00-{number:032x}-{number:016x}-01\r\ntracestate: vendor=p:{number:016x}\r\n"
                f"baggage: session={number:032x}\r\nX-Request-Id: {number:032x}\r\n"
            )
        return f"POST /mcp HTTP/1.1\r\n{self.agent}{extra}Content-Length: {len(CALL)}\r\n\r\n{CALL}".encode()

    def set_response_shape(self, shape: str) -> None:
        """Set the provider's response.

        `events`: one event per read. `bursts`: several events per read, as from a provider that is faster than its
        readers.
        """
        at_once = {"events": 1, "bursts": BURST}.get(shape)
        if at_once is not None:
            full, rest = divmod(EVENTS, at_once)
            pieces = [CHUNK * at_once] * full + ([CHUNK * rest] if rest else [])
            self.response = [EVENTS_HEAD, *pieces, b"0\r\n\r\n"]

    async def open(self) -> None:
        self.client.connection_made(self.caller)
        await asyncio.sleep(0)  # in this iteration, aiohttp starts to wait for the first message
        pool = self.runtime.generation.egress._new_pool(*ORIGIN, None)
        self.runtime.generation.egress._pools[(*ORIGIN, None)] = pool
        self.connection = ProviderConnection("http://127.0.0.1:9", pool)
        self.connection.connection_made(self.provider)
        pool._open.add(self.connection)
        pool.release(self.connection, None)

    def close(self) -> None:
        """Report both connections as lost, as their transports would, because the closing code waits for this report."""
        self.client.connection_lost(None)
        self.connection.connection_lost(None)

    async def load(self) -> None:
        """Load the connection and the minted key into memory. The change feed can just have dropped them."""
        await self.runtime.live.open_connection("bench", INTEGRATION, "c0")
        await self.runtime.generation.keys.caller(self.agent_key)

    def run(self, requests: list[bytes]) -> None:
        came, responded = self.client.data_received, self.connection.data_received
        for request in requests:
            came(request)
            for piece in self.response:
                responded(piece)

    async def run_messages(self, requests: list[bytes]) -> None:
        """Make the requests as MCP messages. Each message is a task that waits for the provider's response."""
        came, responded = self.client.data_received, self.connection.data_received
        for request in requests:
            sent = self.provider.written
            came(request)
            while self.provider.written == sent:  # noqa: ASYNC110 (event loop iterations are what is measured)
                await asyncio.sleep(0)
            for piece in self.response:
                responded(piece)
            while not self.client.idle:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def run_connections(self, requests: list[bytes]) -> None:
        """Make each request on a connection of its own, which the gateway closes after the response."""
        responded = self.connection.data_received
        for request in requests:
            client = self.new_client()
            client.connection_made(self.caller)
            await asyncio.sleep(0)
            client.data_received(request)
            for piece in self.response:
                responded(piece)
            client.connection_lost(None)
            await asyncio.sleep(0)

    async def run_shape(self, shape: str, requests: list[bytes]) -> None:
        if shape in MESSAGES:
            await self.run_messages(requests)
        elif shape == "close":
            await self.run_connections(requests)
        else:
            self.run(requests)

    async def write_records(self) -> None:
        log = self.runtime.call_queue
        await log._write_lines()
        await log._write_rows()


async def running_stage(folder: Path, measure: argparse.Namespace) -> None:
    key = "sk-bench-" + secrets.token_hex(16)
    entry = {
        "display_name": "Bench",
        "categories": ["dev-tools"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {"base_url": "http://127.0.0.1:9", "headers": {HEADER: "${apiKey}"}},
    }
    (folder / "catalog").mkdir()
    (folder / "catalog" / f"{INTEGRATION}.yaml").write_text(json.dumps(entry))
    app = gateway.create_app(
        {
            "store": {
                "url": f"sqlite:///{folder}/gateway.db",
                "encryption_keys": [base64.b64encode(os.urandom(32)).decode()],
            },
            "catalog": [str(folder / "catalog")],
            "environments": {"bench": {"secret_keys": [key], "integrations": {INTEGRATION: {"provider": INTEGRATION}}}},
            "egress": {"allow": ["127.0.0.1/32:9"]},
        }
    )
    runner = gateway.runner(app)
    await runner.setup()
    for task in asyncio.all_tasks():
        if task.get_name() == "write_call_log":  # the benchmark writes the call records itself
            task.cancel()
    try:
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as client:
            for number in range(IN_TURN if measure.shape == "turns" else 1):
                body = {
                    "provider_config_key": INTEGRATION,
                    "connection_id": f"c{number}",
                    "credentials": {"type": "API_KEY", "apiKey": secrets.token_hex(20)},
                }
                async with client.post(f"http://127.0.0.1:{site.port}/connections", json=body) as response:
                    assert response.status == 201, await response.text()
            limits = {"connections": [f"{INTEGRATION}/c0"], "rules": ["POST /small as post"]}
            request_body = {"display_name": "agent", "limits": limits}
            async with client.post(f"http://127.0.0.1:{site.port}/environment/api-keys", json=request_body) as response:
                agent = (await response.json())["data"]["secret"]
            first = {"Authorization": f"Bearer {agent}"}  # this request makes the gateway load the key
            async with client.post(f"http://127.0.0.1:{site.port}/mcp", json={}, headers=first) as response:
                assert response.status == 400, await response.text()
        runtime = app[RUNTIME]
        for number in range(IN_TURN if measure.shape == "turns" else 1):
            await runtime.live.open_connection("bench", INTEGRATION, f"c{number}")
        server: Any = runner.server
        stage = Stage(server.fast_path, runtime, server, key, agent)
        await stage.open()
        freeze_startup_objects()
        await measure_stage(stage, measure)
        stage.close()
    finally:
        await asyncio.wait_for(runner.cleanup(), 3)


@dataclass(slots=True)
class Costs:
    """CPU time in µs per request of one shape: one figure per `REQUESTS_PER_FIGURE` requests, and one for the records of
    each batch.
    """

    fast_path: list[float] = field(default_factory=list)
    records: list[float] = field(default_factory=list)


async def measure_stage(stage: Stage, measure: argparse.Namespace) -> None:
    shapes = [measure.shape] if measure.beside is None else [measure.shape, measure.beside]
    costs = {shape: Costs() for shape in shapes}
    for shape in shapes:
        stage.set_response_shape(shape)
        await stage.load()
        await stage.run_shape(shape, stage.requests(shape, REQUESTS_PER_FIGURE))
    await stage.write_records()
    if measure.bytecodes:
        for shape in shapes:
            await print_bytecodes(stage, shape)
        return
    before, batches = stage.fast_path.taken, measure.requests // TOGETHER
    profile = cProfile.Profile(time.process_time) if measure.profile else None
    ratios = []
    for number in range(batches):
        found = {}
        for shape in shapes if number % 2 else shapes[::-1]:
            found[shape] = await one_batch(stage, shape, costs[shape], profile if shape == measure.shape else None)
        ratios.append(found[shapes[0]] / found[shapes[-1]])
    assert stage.fast_path.taken - before == len(shapes) * batches * TOGETHER, "not all took the fast path"
    assert stage.fast_path.write_batch.in_flight == 0, "requests without a response"
    for shape, cost in costs.items():
        sys.stdout.write(
            f"{shape}: fast path {min(cost.fast_path):.1f} µs ({median(cost.fast_path):.1f}), "
            f"records {min(cost.records):.1f} µs ({median(cost.records):.1f}): "
            f"the quickest (and the median) of {len(cost.fast_path)} rounds of {REQUESTS_PER_FIGURE}\n"
        )
    if measure.beside is not None:
        least = [min(costs[shape].fast_path) + min(costs[shape].records) for shape in shapes]
        sys.stdout.write(
            f"{shapes[0]} to {shapes[1]}: {median(ratios):.2f} (the median of {batches} batches), "
            f"{least[0] / least[1]:.2f} (the quickest rounds)\n"
        )
    if profile is not None:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(60)


async def print_bytecodes(stage: Stage, shape: str) -> None:
    """Print how many bytecodes one request of this shape executes, and the functions with the most bytecodes."""
    counts: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _arg: Any) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        name = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts[name] += event == "opcode"
        calls[name] += event == "call"
        return count

    stage.set_response_shape(shape)
    requests, before = stage.requests(shape, 1), stage.fast_path.taken
    await stage.load()
    sys.settrace(count)
    try:
        stage.run(requests)
    finally:
        sys.settrace(None)
    assert shape in MESSAGES or stage.fast_path.taken - before == 1, "the request did not take the fast path"
    sys.stdout.write(f"{shape}: {counts.total()} bytecodes in {calls.total()} calls of functions\n")
    sys.stdout.writelines(f"{number:6d} in {calls[name]} of {name}\n" for name, number in counts.most_common(40))


async def one_batch(stage: Stage, shape: str, cost: Costs, profile: cProfile.Profile | None) -> float:
    """Make `TOGETHER` requests and write their records, which is as many as a busy gateway writes in one batch.

    Return the CPU time of one request and of its records, in µs.
    """
    stage.set_response_shape(shape)
    figures = []
    for _ in range(TOGETHER // REQUESTS_PER_FIGURE):
        await stage.load()
        requests = stage.requests(shape, REQUESTS_PER_FIGURE)
        began = time.process_time()
        if profile is not None:
            profile.enable()
        await stage.run_shape(shape, requests)
        if profile is not None:
            profile.disable()
        figures.append((time.process_time() - began) / REQUESTS_PER_FIGURE * 1e6)
    began = time.process_time()
    await stage.write_records()
    cost.records.append((time.process_time() - began) / TOGETHER * 1e6)
    cost.fast_path += figures
    return median(figures) + cost.records[-1]


def main() -> int:
    """Print the figures. Return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.fast_path", description="The fast path without sockets.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--shape", choices=SHAPES, default="get")
    parser.add_argument("--beside", choices=SHAPES, help="a second shape, measured in turns with the first")
    parser.add_argument("--profile", action="store_true", help="print a cProfile report")
    parser.add_argument("--bytecodes", action="store_true", help="print the number of bytecodes of one request")
    options = parser.parse_args()
    logs.setup("info", terminal=False)
    gc.collect()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        uvloop.run(running_stage(Path(folder), options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
