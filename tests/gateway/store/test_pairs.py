"""New pairs on the disk before the database has them: kept, found by whoever comes next, swept when they are stale."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.records.connection import Connection
from gateway.store import Store
from gateway.store.leftovers import Left
from gateway.store.slot_file import all_files
from tests.gateway.store.conftest import KEY, NOW, REF, Opener, new, sqlite_only

FRESH = {"type": "OAUTH2", "access_token": "new-access", "refresh_token": "new-refresh"}
pytestmark = sqlite_only


async def held(store: Store) -> Connection:
    row, _ = await store.connections.put(new(), now=NOW)
    return row


def files(path: Path) -> list[Path]:
    return all_files(path.with_name(f"{path.name}-pairs"))


async def test_a_pair_that_was_not_stored_is_found_by_the_next_process(opener: Opener, path: Path) -> None:
    here = await opener()
    row = await held(here)
    await here.pairs.prepare("dev")
    await here.pairs.keep(row, FRESH, NOW + timedelta(hours=1))
    await here.close()
    there = await opener()
    found = (await there.leftovers.of(row)).pair
    assert found is not None
    assert (found.credential, found.expires_at) == (FRESH, NOW + timedelta(hours=1))
    assert b"new-refresh" not in files(path)[0].read_bytes()


async def test_one_of_another_credential_is_not_taken_for_it(opener: Opener) -> None:
    here = await opener()
    row = await held(here)
    await here.pairs.prepare("dev")
    await here.pairs.keep(row, FRESH, None)
    assert await here.leftovers.of(replace(row, version=row.version + 1)) == Left()
    assert await here.leftovers.of(replace(row, uid="another")) == Left()
    found = (await here.leftovers.of(row)).pair
    assert found is not None
    assert found.expires_at is None


async def test_a_file_is_swept_once_its_pairs_are_of_no_use(opener: Opener, path: Path) -> None:
    here = await opener()
    row = await held(here)
    assert await here.connections.lease_refresh(REF, owner="o", ttl=timedelta(0), seen=row, intent="digest")
    await here.pairs.prepare("dev")
    await here.pairs.keep(row, FRESH, None)
    await here.close()
    there = await opener()
    await there.leftovers.sweep(there.connections.get)
    assert len(files(path)) == 1, "the refresh is open still"
    await there.connections.release_lease(REF, owner="o")
    await there.leftovers.sweep(there.connections.get)
    assert files(path) == []


async def test_nothing_is_left_where_everything_was_stored(opener: Opener, path: Path) -> None:
    here = await opener()
    row = await held(here)
    await here.pairs.prepare("dev")
    assert len(files(path)) == 1
    (await here.pairs.keep(row, FRESH, None))()
    await here.close()
    assert files(path) == []


async def test_refreshes_that_begin_together_share_one_file(opener: Opener, path: Path) -> None:
    here = await opener()
    row = await held(here)
    await asyncio.gather(*(here.pairs.prepare("dev") for _ in range(20)))
    assert len(files(path)) == 1
    for stored in await asyncio.gather(*(here.pairs.keep(row, FRESH, None) for _ in range(20))):
        stored()
    await here.close()
    assert files(path) == []


async def test_without_a_file_a_refresh_goes_on(opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gateway.store.own_file.SlotFile", refused)
    store = await opener()
    row = await held(store)
    await store.pairs.prepare("dev")
    (await store.pairs.keep(row, FRESH, None))()
    assert await store.leftovers.of(row) == Left()


async def test_a_damaged_pair_is_no_pair(opener: Opener, path: Path) -> None:
    here = await opener()
    row = await held(here)
    await here.pairs.prepare("dev")
    await here.pairs.keep(row, FRESH, None)
    (file,) = files(path)
    raw = bytearray(file.read_bytes())
    raw[raw.index(b'"version"') + 60] ^= 1
    file.write_bytes(bytes(raw))
    assert await (await opener(KEY)).leftovers.of(row) == Left()
