"""The files on disk contain no secret in plain text. After a kill, every acknowledged write is still there."""

import asyncio
import contextlib
import signal
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.records.connecting import PendingAuthorization
from gateway.store import open_store
from gateway.vault import Keyring
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new, sqlite_only
from tests.gateway.store.test_pending_authorizations import flow

SECRETS = [f"marker-{n}-{'x' * 20}" for n in range(7)]

WRITER = """
import asyncio, sys
from tests.gateway.store.conftest import NOW, REF, new
from gateway.store import open_store
from gateway.vault import Keyring

async def main():
    store = await open_store(sys.argv[1], Keyring([bytes.fromhex(sys.argv[2])]), environments={"dev"})
    async def write(worker):
        n = 0
        while True:
            n += 1
            await store.connections.put(new(REF._replace(connection_id=f"{worker}-{n}")), now=NOW)
            print(f"{worker}-{n}", flush=True)
    await asyncio.gather(*(write(worker) for worker in range(3)))

asyncio.run(main())
"""


@sqlite_only
async def test_no_secret_that_was_written_is_found_in_any_file(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    first = new(
        credential={
            "type": "OAUTH2",
            "access_token": SECRETS[0],
            "refresh_token": SECRETS[1],
            "raw": {"x": SECRETS[2]},
        },
        secret_config={"pin": SECRETS[3]},
    )
    await store.connections.put(first, now=NOW)
    await store.connections.put(new(credential={"type": "BASIC", "password": SECRETS[4]}), now=NOW)
    details = PendingAuthorization(provider="jira", mode="OAUTH2", kept={"code_verifier": SECRETS[5]})
    await store.flows.add(replace(flow(), details=details))
    await store.connections.delete(REF, now=NOW)
    await store.connections.put(new(credential={"apiKey": SECRETS[6]}), now=NOW)
    names = {file.name for file in path.parent.iterdir()}
    assert names == {"gateway.db", "gateway.db-wal", "gateway.db-shm"}
    for round_ in ("open", "closed"):
        for file in path.parent.iterdir():
            content = file.read_bytes()
            assert not [secret for secret in [*SECRETS, KEY.hex()] if secret.encode() in content], (round_, file)
            assert KEY not in content
        await store.close()


@pytest.mark.parametrize(
    ("backend", "acknowledged"),
    [("sqlite", 1), ("sqlite", 40), ("sqlite", 150), ("postgresql", 90)],
    indirect=["backend"],
)
async def test_a_killed_process_loses_nothing_it_acknowledged(
    backend: str, url: str, path: Path, acknowledged: int
) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, KEY.hex(), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    text = [(await writer.stdout.readline()).decode().strip() for _ in range(acknowledged)]
    with contextlib.suppress(ProcessLookupError):
        writer.send_signal(signal.SIGKILL)
    rest, _ = await writer.communicate()
    text += [line for line in rest.decode().splitlines(keepends=True) if line.endswith("\n")]
    store = await open_store(url, Keyring([KEY]), environments={"dev"})
    try:
        for connection_id in text:
            found = await store.connections.get(REF._replace(connection_id=connection_id.strip()))
            assert found is not None
            assert store.vault.open_json(found.credential)["apiKey"] == "k"
    finally:
        await store.close()
    if backend == "sqlite":
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()


async def test_a_lease_of_a_killed_process_expires(open_test_store: StoreOpener) -> None:
    from datetime import timedelta

    ttl, expired = timedelta(seconds=30), -timedelta(seconds=1)
    killed, survivor = await open_test_store(), await open_test_store()
    await killed.connections.put(new(), now=NOW)
    assert await killed.refreshes.lease_refresh(REF, owner="killed", ttl=ttl)
    assert not await survivor.refreshes.lease_refresh(REF, owner="survivor", ttl=ttl)
    assert await killed.refreshes.extend_lease(REF, owner="killed", ttl=expired)
    assert await survivor.refreshes.lease_refresh(REF, owner="survivor", ttl=ttl)
