"""``make refresh-rate``: refreshes per second and the CPU time of each, on both stores, with and without a standby.

Every connection has expired and is called once, so each call waits for a refresh: claim, token call, commit. Nodes are
`gateway serve` processes that are called in turn. The standby is synchronous. It replicates through a proxy that delays
each direction by half of the round trip.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from bench import proc
from tests.fakes.nodes import Nodes, nodes
from tests.fakes.postgres import PostgresServer
from tests.journeys.test_burst import provider, token_requests

# The files are on a disk as in production. In the test suite they are not.
SETTINGS: Final = ("max_connections=200", "shared_buffers=128MB", "log_min_messages=fatal")
DELAY: Final = """
import asyncio, sys

async def pass_on(reader, writer, delay_s):
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)

async def main(port, delay_s):
    async def joined(reader, writer):
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, there_writer, delay_s), pass_on(there_reader, writer, delay_s))
    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
"""


@asynccontextmanager
async def delaying_proxy(port: int, round_trip_s: float) -> AsyncIterator[int]:
    """Yield the port of a proxy in front of `port` that delays each direction."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DELAY, str(port), str(round_trip_s / 2), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def postgres(round_trip_s: float | None) -> AsyncIterator[tuple[str, int]]:
    """Yield the URL of a database and the process ID of its server.

    `round_trip_s`: adds a synchronous standby at this distance, in seconds; None: no standby.
    """
    async with AsyncExitStack() as stack:
        primary = PostgresServer(SETTINGS)
        stack.callback(primary.remove)
        await asyncio.to_thread(primary.start)
        if round_trip_s is not None:
            port = await stack.enter_async_context(delaying_proxy(primary.port, round_trip_s))
            standby = await asyncio.to_thread(lambda: PostgresServer(SETTINGS, copied_from=port))
            stack.callback(standby.remove)
            standby.launch()
            await standby.responses()
            await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await primary.run("SELECT pg_reload_conf()")
            while not await primary.run("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"):
                await asyncio.sleep(0.05)
        yield await primary.make_database(), primary.pid


async def refreshes_per_second(gateway: Nodes, tokens: str, database: int | None, count: int, crowd: int) -> str:
    """Return refreshes per second and CPU time per refresh for `count` connections. `crowd`: how many are called at a
    time.

    `database`: the process ID of the database server.
    """
    waiting = iter(range(count))

    async def import_some() -> None:
        for n in waiting:
            await gateway.import_connection(
                {"access_token": secrets.token_hex(8), "refresh_token": secrets.token_hex(8)}, f"c{n}"
            )

    await asyncio.gather(*(import_some() for _ in range(8)))
    calls = iter(range(count))

    async def call() -> None:
        for n in calls:
            status, _ = await gateway.call(n, f"c{n}")
            assert status == 200, status

    pids = [pid for node in gateway.running for pid in process_and_descendants(node.process.pid)]
    database_pids = [] if database is None else process_and_descendants(database)
    cpu_s, database_cpu_s, began = proc.cpu_s(pids), proc.cpu_s(database_pids), time.monotonic()
    await asyncio.gather(*(call() for _ in range(crowd)))
    took_s, cpu_s, database_cpu_s = (
        time.monotonic() - began,
        proc.cpu_s(pids) - cpu_s,
        proc.cpu_s(database_pids) - database_cpu_s,
    )
    requests = await token_requests(gateway, tokens)
    assert requests == {"calls": count, "distinct": count}, requests
    in_postgres = f" and {database_cpu_s / count * 1000:.1f} ms in PostgreSQL" if database_pids else ""
    return f"{count / took_s:.0f} refreshes a second, {cpu_s / count * 1000:.1f} ms of CPU each{in_postgres}"


def process_and_descendants(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = (proc.PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [pid, *(descendant for child in children for descendant in process_and_descendants(int(child)))]


async def measure(store: str, away_ms: float | None, count: int, crowd: int, number: int) -> str:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refresh-rate-")))
        url, server = "sqlite:///gateway.db", None
        if store == "postgresql":
            url, server = await stack.enter_async_context(postgres(None if away_ms is None else away_ms / 1000))
        tokens, api = await stack.enter_async_context(provider()), await stack.enter_async_context(provider())
        gateway = await stack.enter_async_context(nodes(folder, api, url, token_url=tokens, count=number))
        return await refreshes_per_second(gateway, tokens, server, count, crowd)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.journeys.refresh_rate", description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--crowd", type=int, default=60, help="calls at a time")
    parser.add_argument("--away-ms", type=float, default=10.0, help="round trip to the synchronous standby")
    parser.add_argument("--only", choices=("sqlite", "postgresql", "standby"))
    options = parser.parse_args(arguments)
    away_ms = options.away_ms
    cases = {
        "sqlite": [("sqlite", None, 1)],
        "postgresql": [("postgresql", None, 1), ("postgresql", None, 3)],
        "standby": [("postgresql", away_ms, 1), ("postgresql", away_ms, 3)],
    }
    for name, several in cases.items():
        if options.only in (None, name):
            for store, distance, number in several:
                found = asyncio.run(measure(store, distance, options.count, options.crowd, number))
                beside = f", synchronous standby {distance:g} ms away" if distance is not None else ""
                sys.stdout.write(f"{store}, {number} node{'s' * (number > 1)}{beside}: {found}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
