"""``python -m bench.call_log 10000000``: write cost and filter times of a large call log on SQLite."""

import asyncio
import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from gateway.records.filters import single_or_any_set
from gateway.records.operation import Operation, OperationFilter
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.sqlite_call_log import SqliteCallLog

BATCH = 2000
SPAN = timedelta(days=3)
TIMES = 9


def generate_operations(rows: int, since: datetime) -> list[Operation]:
    """Generate the operations of one time range, before any measurement starts."""
    drawn = random.Random(1)
    made = []
    for number in range(rows):
        ends_badly = drawn.random()
        status = 200 if ends_badly > 0.02 else drawn.choice((400, 404, 404, 429, 500, 502))
        made.append(
            Operation(
                "call" if drawn.random() > 0.001 else "refresh",
                since + SPAN * number / rows,
                f"{drawn.getrandbits(96):024x}",
                "dev",
                f"integration-{drawn.randrange(40)}",
                f"user-{int(drawn.paretovariate(0.5)) % 20_000}",
                "GET",
                "api.example.com",
                f"/rest/api/3/issue/PROJ-{number}",
                status,
                "upstream_timeout" if status == 502 else None,
                *(12.5, 1.2, 0.0, 11.0, 120, 1300),
                drawn.randrange(50) or None,
                None,
                "GET /rest/api/3/*",
            )
        )
    return made


def write_line(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(text)
    stream.flush()


def size_of(path: Path) -> int:
    return path.stat().st_size


def filters(now: datetime) -> dict[str, dict[str, Any]]:
    moment = now - SPAN / 2
    return {
        "no filter": {},
        "a busy connection": {"connection_id": "user-1"},
        "a rare connection": {"connection_id": "user-19213"},
        "no such connection": {"connection_id": "nobody"},
        "an integration": {"integration_id": "integration-7"},
        "a key": {"key_ids": single_or_any_set(7)},
        "twenty keys": {"key_ids": frozenset(range(20))},
        "a key and 5xx": {"key_ids": single_or_any_set(7), "status": (500, 599)},
        "5xx": {"status": (500, 599)},
        "a status that never came": {"status": (403, 403)},
        "a code": {"error_codes": single_or_any_set("upstream_timeout")},
        "all codes but one": {"excluded_codes": single_or_any_set("upstream_timeout")},
        "a rare connection and 404": {"connection_id": "user-777", "status": (404, 404)},
        "refreshes": {"kind": "refresh"},
        "a minute": {"since": moment, "until": moment + timedelta(minutes=1)},
        "a request that never came": {"request_id": "abc"},
        "text within an hour": {"text": "proj-1", "since": moment, "until": moment + timedelta(hours=1)},
        "text that is nowhere": {"text": "nowhere"},
    }


async def measure(path: Path, rows: int) -> None:
    log = SqliteCallLog(path, CallLogBounds(keep_days=3650, max_bytes=64 << 30))
    started, cpu_s = datetime.now(UTC) - SPAN, 0.0
    for at in range(0, rows, 100_000):
        many = generate_operations(min(100_000, rows - at), started + SPAN * at / rows)
        before = time.process_time()
        for first in range(0, len(many), BATCH):
            await log.add_many(many[first : first + BATCH])
        cpu_s += time.process_time() - before
        write_line(f"\r{at + len(many):,} of {rows:,} rows", sys.stderr)
    write_line("\n", sys.stderr)
    write_line(f"{rows:,} rows: {cpu_s / rows * 1e6:.1f} µs of CPU and {size_of(path) / rows:.0f} bytes each\n")
    for name, wanted in filters(datetime.now(UTC)).items():
        took_ms = []
        for _ in range(TIMES):
            begun_s = time.perf_counter()
            page = await log.find(OperationFilter("dev", limit=50, **wanted))
            took_ms.append((time.perf_counter() - begun_s) * 1000)
        took_ms.sort()
        far = f", searched back to {page.searched_until:%H:%M}" if page.searched_until else ""
        write_line(
            f"{name:26} {len(page.operations):3} found, median {took_ms[TIMES // 2]:6.1f} ms, worst {took_ms[-1]:6.1f}{far}\n"
        )
    await log.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder) / "gateway.calls.db", int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
