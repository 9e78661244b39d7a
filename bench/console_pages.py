"""``python -m bench.console_pages FOLDER [connections] [calls]``: server time of each console page with a large store.

The first run builds the store in FOLDER with bulk inserts. Later runs use this store again.
"""

import asyncio
import json
import random
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

import aiohttp
from aiohttp.test_utils import TestServer

import gateway
from gateway import config as configuration
from gateway.records.operation import Operation
from gateway.runtime import RUNTIME
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.sqlite_call_log import SqliteCallLog
from gateway.store.console_sessions import new_link

KEY = "sk-bench-0123456789abcdef"
ENCRYPTION_KEY = "JiURJZyxq9u8wNGbojb4XRaHcZEAUy+EK5yLz55SrSM="
SPAN = timedelta(days=1)
INTEGRATIONS = 40
ROUNDS = 200
BATCH = 2000
PAGE_BYTES = 40_000
PAGES = {
    "now": "",
    "connections": "/connections",
    "connections in trouble": "/connections?trouble=1",
    "connections of an integration": "/connections?integration=i7",
    "connection": "/connection?integration=i1&id=first-1",
    "calls": "/calls",
    "calls: failed": "/calls?failed=1&since=24h",
    "calls: a code": "/calls?code=upstream_timeout&since=24h",
    "calls of a connection": "/calls?integration=i1&connection=user-1",
    "call": "/call?id={call}",
    "providers": "/providers",
    "integrations": "/integrations",
    "integration": "/integration?key=i7",
    "keys": "/keys",
    "key": "/key?id=1",
    "events": "/events",
    "audit": "/audit",
    "incident": "/incident?integration=i7&since=6h",
    "incident of a key": "/incident?key=7&since=24h",
}


def write_line(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(text)
    stream.flush()


def document() -> dict[str, Any]:
    return {
        "server": {"public_url": "http://127.0.0.1:1"},
        "store": {"url": "sqlite:///gateway.db", "encryption_keys": [ENCRYPTION_KEY]},
        "call_log": {"keep_days": 30, "max_bytes": 64 << 30},
        "console": {"enabled": True},
        "environments": {
            "dev": {
                "secret_keys": [KEY],
                "integrations": {f"i{n}": {"provider": "ably"} for n in range(INTEGRATIONS)},
            }
        },
    }


async def running_gateway(folder: Path) -> TestServer:
    config = configuration.parse(document(), base=folder, environ={})
    server = TestServer(gateway.create_app(config))
    await server.start_server()
    return server


async def first_rows(server: TestServer) -> None:
    """Create one connection of each integration, and keys, through the API."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for n in range(INTEGRATIONS):
            body = {
                "provider_config_key": f"i{n}",
                "connection_id": f"first-{n}",
                "credentials": {"type": "BASIC", "username": "u", "password": "p"},
                "end_user": {"id": f"u{n}", "display_name": f"User {n}"},
            }
            async with http.post(server.make_url("/connections"), json=body) as response:
                assert response.status == 201, await response.text()
        for n in range(60):
            body = {"display_name": f"agent {n}", "limits": {"rules": ["GET /v1/*"], "budget": 1000}}
            async with http.post(server.make_url("/environment/api-keys"), json=body) as response:
                assert response.status == 200, await response.text()


def more_connections(folder: Path, rows: int) -> None:
    """Copy the rows of `first_rows`. The sealed values of a copy cannot be opened, but lists do not open them."""
    db = sqlite3.connect(folder / "gateway.db")
    names = [row[1] for row in db.execute("PRAGMA table_info(connections)")]
    own = {
        "id": "NULL",
        "uid": "lower(hex(randomblob(16)))",
        "connection_id": "'user-' || n.n",
        "search_text": "'user-' || n.n || ' user' || n.n || '@example.com'",
        "end_user_id": "'e' || (n.n / 3)",
        "state": "CASE WHEN n.n % 500 = 0 THEN 'needs_reauth' ELSE 'active' END",
        "created_at": "datetime(c.created_at, '-' || n.n || ' seconds')",
    }
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(own.get(name, f'c."{name}"') for name in names)
    db.execute(
        f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
        f" INSERT INTO connections ({columns}) SELECT {values} FROM n JOIN connections AS c"
        f" ON c.connection_id = 'first-' || (n.n % {INTEGRATIONS})",
        (rows,),
    )
    db.commit()
    db.execute("ANALYZE")
    db.close()


async def more_calls(folder: Path, rows: int) -> None:
    log = SqliteCallLog(folder / "gateway.calls.db", CallLogBounds(keep_days=30, max_bytes=64 << 30))
    drawn, started = random.Random(1), datetime.now(UTC) - SPAN
    for first in range(0, rows, BATCH):
        many = []
        for number in range(first, min(first + BATCH, rows)):
            bad = drawn.random() < 0.02
            status = drawn.choice((401, 404, 404, 429, 500, 502)) if bad else 200
            many.append(
                Operation(
                    "call" if drawn.random() > 0.001 else "refresh",
                    started + SPAN * number / rows,
                    f"{number:024x}",
                    "dev",
                    f"i{drawn.randrange(INTEGRATIONS)}",
                    f"user-{int(drawn.paretovariate(0.5)) % 20_000}",
                    "GET",
                    "api.example.com",
                    f"/v1/things/{number % 5000}",
                    status,
                    "upstream_timeout" if status == 502 else None,
                    *(84.0, 0.3, 0.1, drawn.expovariate(1 / 80), 120, 1300),
                    drawn.randrange(50) or None,
                    None,
                    "GET /v1/*",
                )
            )
        await log.add_many(many)
        if first % 100_000 == 0:
            write_line(f"\r{first:,} of {rows:,} calls", sys.stderr)
    await log.close()
    write_line("\n", sys.stderr)


async def measure(folder: Path) -> None:
    server = await running_gateway(folder)
    runtime = server.app[RUNTIME]
    token, _ = await new_link(runtime.store.console_sessions, "bench", "viewer")
    took: list[float] = []

    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        sign_in = server.make_url("/console/sign-in")
        async with http.post(sign_in, data={"link": token.reveal()}, allow_redirects=False) as response:
            assert response.status == 303, await response.text()
        async with http.get(server.make_url("/console/dev/calls.json")) as response:
            newest = json.loads(await response.text())["operations"][0]["id"]
        worst = 0.0
        for name, path in PAGES.items():
            url = server.make_url("/console/dev") if not path else None
            async with http.get(url or f"{server.make_url('/console/dev')}{path.format(call=newest)}") as response:
                await response.read()  # the first request loads the modules that the view imports
            took.clear()
            size, status, cpu_s = 0, 0, time.process_time()
            for _ in range(ROUNDS):
                started = time.perf_counter()
                where = url or f"{server.make_url('/console/dev')}{path.format(call=newest)}"
                async with http.get(where) as response:
                    size = len(await response.read())
                    status = response.status
                took.append((time.perf_counter() - started) * 1000)
            cpu_ms = (time.process_time() - cpu_s) * 1000 / ROUNDS  # this includes the CPU time of the client
            took.sort()
            p95 = took[int(len(took) * 0.95)]
            worst = max(worst, p95)
            assert size <= PAGE_BYTES, f"{name} has {size} bytes"
            write_line(
                f"{name:32} {status} {size / 1000:6.1f} kB   p50 {took[len(took) // 2]:6.1f} ms   p95 {p95:6.1f} ms"
                f"   CPU {cpu_ms:5.1f} ms\n"
            )
    write_line(f"worst p95 {worst:.1f} ms\n")
    await server.close()


async def main(folder: Path, connections: int, calls: int) -> None:
    if not (folder / "built").exists():
        server = await running_gateway(folder)
        await first_rows(server)
        await server.close()
        more_connections(folder, connections)
        write_line(f"{connections:,} connections\n", sys.stderr)
        await more_calls(folder, calls)
        (folder / "built").touch()
    await measure(folder)


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[2:4]]
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), *(sizes or [1_000_000, 10_000_000])))
