"""``python -m bench.fast_path``: CPU cost of the fast path's own code, without sockets.

The benchmark calls the two protocols many times with a request and its response, as the event loop would, over
transports that discard what is written. This leaves only Python code: no system call, no load generator, no second
process. So two versions can be compared on a busy machine. ``--shape`` chooses the request and the response.
``--profile`` shows where the time goes (cProfile, which itself costs much).
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
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import uvloop

import gateway
from bench.ours import HEADER, INTEGRATION
from bench.shapes import CALL
from bench.upstream import SMALL
from gateway.egress.provider_connection import ProviderConnection
from gateway.observe import logs
from gateway.runtime import RUNTIME, Runtime
from gateway.server.client_protocol import ClientProtocol
from gateway.server.fast_path import FastPath
from gateway.server.serving_worker import freeze_startup_objects

# The gateway never connects to this origin: its pool already holds a connection with the benchmark's transport.
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
SHAPES: Final = ("get", "turns", "trace", "post", "headers", "events", "bursts", "agent")
BURST: Final = 7  # events that arrive in one read
AT_ONCE: Final = 100
TOGETHER: Final = 1000
IN_TURN: Final = 5000  # connections that the shape `turns` calls one after the other


class DiscardingTransport(asyncio.Transport):
    """A transport that discards what is written. `written` counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, _data: Any) -> None:
        self.written += 1

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    close = pause_reading = resume_reading = abort


class Stage:
    """A gateway with one client. The provider of its connection `c0` does not exist."""

    def __init__(self, fast_path: FastPath, runtime: Runtime, client: ClientProtocol, key: str, agent: str) -> None:
        self.fast_path, self.runtime, self.client = fast_path, runtime, client
        self.caller, self.provider = DiscardingTransport(), DiscardingTransport()
        self.names = f"Host: 127.0.0.1:3003\r\nAuthorization: Bearer {key}\r\nProvider-Config-Key: {INTEGRATION}\r\n"
        self.agent = f"Host: 127.0.0.1:3003\r\nAuthorization: Bearer {agent}\r\nAccept: application/json\r\n"
        self.request_count = 0
        self.response = [RESPONSE.format(length=len(SMALL), body=SMALL).encode()]

    def requests(self, shape: str, count: int) -> list[bytes]:
        """Return the next `count` requests of that shape."""
        extra, body = "", ""
        if shape == "agent":
            head = f"POST /mcp HTTP/1.1\r\n{self.agent}Content-Length: {len(CALL)}\r\n\r\n"
            return [head.encode() + CALL.encode()] * count
        if shape == "headers":
            extra = "".join(f"X-Extra-{number}: {'h' * 244}\r\n" for number in range(28))
        elif shape not in ("get", "turns", "trace"):
            extra, body = "Content-Type: application/json\r\nContent-Length: 300\r\n", "x" * 300
        made = []
        for _ in range(count):
            self.request_count += 1
            if shape == "trace":
                extra = f"traceparent: 00-{self.request_count:032x}-{self.request_count:016x}-01\r\n"
            method = "POST" if body else "GET"
            names = f"{self.names}Connection-Id: c{self.request_count % IN_TURN if shape == 'turns' else 0}\r\n"
            made.append(f"{method} /proxy/small HTTP/1.1\r\n{names}{extra}\r\n{body}".encode())
        return made

    def response_with(self, shape: str) -> None:
        """Set the provider's response. `events`: one event per read; `bursts`: several per read, as from a provider
        faster than its readers.
        """
        at_once = {"events": 1, "bursts": BURST}.get(shape)
        if at_once is not None:
            full, rest = divmod(EVENTS, at_once)
            pieces = [CHUNK * at_once] * full + ([CHUNK * rest] if rest else [])
            self.response = [EVENTS_HEAD, *pieces, b"0\r\n\r\n"]

    async def open(self) -> None:
        self.client.connection_made(self.caller)
        await asyncio.sleep(0)  # aiohttp starts to wait for the first message
        pool = self.runtime.generation.egress._new_pool(*ORIGIN, None)
        self.runtime.generation.egress._pools[(*ORIGIN, None)] = pool
        self.connection = ProviderConnection("http://127.0.0.1:9", pool)
        self.connection.connection_made(self.provider)
        pool._open.add(self.connection)
        pool.release(self.connection, None)

    def close(self) -> None:
        """Report both connections as lost, as the transports would; the closing code waits for that."""
        self.client.connection_lost(None)
        self.connection.connection_lost(None)

    def run(self, requests: list[bytes]) -> None:
        came, responded = self.client.data_received, self.connection.data_received
        for request in requests:
            came(request)
            for piece in self.response:
                responded(piece)

    async def run_messages(self, requests: list[bytes]) -> None:
        """Do the same as `run` for MCP messages: each is a task, which waits for the provider's response."""
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

    async def write_records(self) -> None:
        log = self.runtime.call_queue
        await log._write_lines()
        await log._write_rows()


async def staged(folder: Path, measure: argparse.Namespace) -> None:
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
        if task.get_name() == "write_call_log":  # the benchmark writes the records itself
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
            wish = {"display_name": "agent", "limits": limits}
            async with client.post(f"http://127.0.0.1:{site.port}/environment/api-keys", json=wish) as response:
                agent = (await response.json())["data"]["secret"]
            first = {"Authorization": f"Bearer {agent}"}  # makes the gateway load the key
            async with client.post(f"http://127.0.0.1:{site.port}/mcp", json={}, headers=first) as response:
                assert response.status == 400, await response.text()
        runtime = app[RUNTIME]
        for number in range(IN_TURN if measure.shape == "turns" else 1):
            await runtime.live.opened("bench", INTEGRATION, f"c{number}")
        server: Any = runner.server
        stage = Stage(server.fast_path, runtime, server(), key, agent)
        await stage.open()
        freeze_startup_objects()
        await measured(stage, measure)
        stage.close()
    finally:
        await asyncio.wait_for(runner.cleanup(), 3)


async def measured(stage: Stage, measure: argparse.Namespace) -> None:
    stage.response_with(measure.shape)
    if measure.shape == "agent":
        await stage.run_messages(stage.requests(measure.shape, AT_ONCE))
    else:
        stage.run(stage.requests(measure.shape, AT_ONCE))
    await stage.write_records()
    before, rounds = stage.fast_path.taken, measure.requests // AT_ONCE
    profile = cProfile.Profile() if measure.profile else None
    fast_path, records, waiting = list[float](), list[float](), 0
    for _ in range(rounds):
        await stage.runtime.live.opened("bench", INTEGRATION, "c0")
        requests = stage.requests(measure.shape, AT_ONCE)
        began = time.process_time()
        if profile is not None:
            profile.enable()
        if measure.shape == "agent":
            await stage.run_messages(requests)
        else:
            stage.run(requests)
        if profile is not None:
            profile.disable()
        at = time.process_time()
        fast_path.append((at - began) / AT_ONCE * 1e6)
        waiting += AT_ONCE
        if waiting == TOGETHER:  # as many as a busy gateway writes in one batch
            await stage.write_records()
            records.append((time.process_time() - at) / TOGETHER * 1e6)
            waiting = 0
    assert stage.fast_path.taken - before == rounds * AT_ONCE, "not all took the fast path"
    assert stage.fast_path.write_batch.in_flight == 0, "requests without a response"
    sys.stdout.write(
        f"{measure.shape}: fast path {min(fast_path):.1f} µs ({median(fast_path):.1f}), "
        f"records {min(records):.1f} µs ({median(records):.1f}): the quickest (and the median) of {rounds} rounds of {AT_ONCE}\n"
    )
    if profile is not None:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(40)


def main() -> int:
    """Print the figures. Return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.fast_path", description="The fast path without sockets.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--shape", choices=SHAPES, default="get")
    parser.add_argument("--profile", action="store_true", help="print a cProfile report")
    asked = parser.parse_args()
    logs.setup("info", terminal=False)
    gc.collect()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        uvloop.run(staged(Path(folder), asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
