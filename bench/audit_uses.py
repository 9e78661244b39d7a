"""``python -m bench.audit_uses 100000000``: how long SQLite takes to show what one key did, with 100 million counted
calls.

The counts are generated: 50 keys, 20,000 connections, 30 days. A connection is used in some hours, with 25 calls in
each.
"""

import asyncio
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from gateway.records.audit import CredentialUseFilter
from gateway.records.filters import single_or_any_set
from gateway.store import open_store
from gateway.store.audit.use_counts import hour_at
from gateway.vault import Keyring

KEYS: Final = 50
CONNECTIONS: Final = 20_000
HOURS: Final = 30 * 24
CALLS_A_ROW: Final = 25
FIRST_HOUR: Final = 490_000
TIMES: Final = 5
INSERT: Final = (
    "INSERT INTO credential_uses (environment, key_id, hour, integration_id, connection_id, calls, failed)"
    " VALUES ('dev', ?, ?, ?, ?, ?, ?)"
)


def generated_rows(calls: int) -> Iterator[tuple[int, int, str, str, int, int]]:
    """Generate the rows in the order of their keys, because SQLite then inserts them in only a minute."""
    drawn = random.Random(1)
    a_key_and_hour = max(1, calls // CALLS_A_ROW // (KEYS * HOURS))
    for key in range(1, KEYS + 1):
        for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS):
            for number in sorted(drawn.sample(range(CONNECTIONS), a_key_and_hour)):
                yield key, hour, f"integration-{number % 40}", f"user-{number}", CALLS_A_ROW, number % 2


async def main(calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gateway.db")
        store = await open_store(f"sqlite:///{path}", Keyring([os.urandom(32)]), environments={"dev"})
        started = time.monotonic()
        with closing(sqlite3.connect(path)) as db, db:
            db.executemany(INSERT, generated_rows(calls))
            rows, total = db.execute("SELECT count(*), sum(calls) FROM credential_uses").fetchone()
        took, size = time.monotonic() - started, await asyncio.to_thread(lambda: path.stat().st_size)
        out = sys.stdout
        out.write(f"{total:,} calls in {rows:,} rows, {size >> 20} MiB, made in {took:.0f} s\n")
        start, end = hour_at(FIRST_HOUR), hour_at(FIRST_HOUR + HOURS)
        for name, use_filter in (
            ("one key, 30 days", CredentialUseFilter("dev", start, end, key_ids=single_or_any_set(7))),
            (
                "one key, one day",
                CredentialUseFilter("dev", start, start + timedelta(days=1), key_ids=single_or_any_set(7)),
            ),
            ("one connection, 30 days", CredentialUseFilter("dev", start, end, connection_id="user-7")),
            (
                "one key and connection, 30 days",
                CredentialUseFilter("dev", start, end, key_ids=single_or_any_set(7), connection_id="user-7"),
            ),
            ("all keys, one day", CredentialUseFilter("dev", start, start + timedelta(days=1))),
        ):
            durations = []
            for _ in range(TIMES):
                began = time.monotonic()
                page = await store.uses.find(use_filter)
                durations.append(time.monotonic() - began)
            out.write(
                f"{name}: {max(durations) * 1000:.0f} ms at most, {page.calls:,} calls, {page.connections:,} lines\n"
            )
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000))
