"""A backup contains one consistent state and can be opened. A restore loses no token that is still stored anywhere."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.records.states import RESTORED
from gateway.store import Store, StoreRefused, open_store
from gateway.store.migrations.upgrade import configuration
from gateway.store.minted_keys import NewMintedKey
from gateway.store.sqlite.sqlite_backup import Backup, back_up
from gateway.store.sqlite.sqlite_restore import RestoreResult, restore
from gateway.vault import Keyring
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new
from tests.gateway.store.test_rotation import ignore_progress, key_of, stored_row

TTL = timedelta(seconds=30)
MADE: dict[str, Any] = {"scopes": ("environment:*",), "created_by": "a test", "budget": 100}


@pytest.fixture
def backend() -> str:
    """Run these tests on SQLite only, because they check the file."""
    return "sqlite"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "backup.db"


async def backed_up(path: Path, copy: Path, *, key: bytes = KEY, over: bool = False) -> Backup:
    return await asyncio.to_thread(back_up, path, copy, Keyring([key]), replaces=over, step=ignore_progress)


async def restore_copy(copy: Path, path: Path, *keys: bytes, exactly: bool = False) -> RestoreResult:
    keyring = Keyring(keys or (KEY,))
    return await asyncio.to_thread(restore, copy, path, keyring, exactly=exactly, step=ignore_progress)


async def put(store: Store, name: str, api_key: str) -> None:
    await store.connections.put(new(REF._replace(connection_id=name), credential={"apiKey": api_key}), now=NOW)


async def stored_key(store: Store, name: str) -> str:
    found: str = await key_of(store, REF._replace(connection_id=name))
    return found


async def test_copy_during_writes_is_a_consistent_snapshot(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    store = await open_test_store()
    await put(store, "first", "before")
    going, written = True, 0

    async def write() -> None:
        nonlocal written
        while going:
            # Row `a` is always written before row `b`, so `b` must never have a number that `a` did not have.
            await put(store, "a", f"{written + 1}")
            await put(store, "b", f"{written + 1}")
            written += 1

    writing = asyncio.create_task(write())
    steps: list[tuple[int, int]] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not written:
                await asyncio.sleep(0.01)
        before = written
        backup_result = await asyncio.to_thread(
            back_up, path, copy, Keyring([KEY]), replaces=False, step=lambda *s: steps.append(s)
        )
        after = written
    finally:
        going = False
        await writing
    assert steps[-1][0] == steps[-1][1] > 0
    assert (backup_result.connections, backup_result.size_bytes) == (3, copy.stat().st_size)
    assert abs(backup_result.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [file.name for file in copy.parent.iterdir()] == ["backup.db"]
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    seen = await open_store(f"sqlite:///{copy}", Keyring([KEY]), environments=())
    try:
        first, second = int(await stored_key(seen, "a")), int(await stored_key(seen, "b"))
        assert before <= second <= first <= second + 1
        assert second <= after + 1
        assert await stored_key(seen, "first") == "before"
    finally:
        await seen.close()


async def test_backup_overwrites_nothing_without_force_and_leaves_no_partial_file(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    store = await open_test_store()
    copy.write_text("mine")
    with pytest.raises(StoreRefused, match="--force"):
        await backed_up(path, copy)
    with pytest.raises(StoreRefused, match="encrypted with a key"):
        await backed_up(path, copy, key=os.urandom(32), over=True)
    with pytest.raises(StoreRefused, match="the database itself"):
        await backed_up(path, path, over=True)
    with pytest.raises(StoreRefused, match="is not a folder: create it first"):
        await backed_up(path, copy.parent / "absent" / "backup.db")
    assert copy.read_text() == "mine"
    assert (await backed_up(path, copy, over=True)).connections == 0
    assert [file.name for file in copy.parent.iterdir()] == ["backup.db"]
    await put(store, "c", "k")


async def test_restore_brings_back_the_backup_and_keeps_the_replaced_file(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    store = await open_test_store()
    await put(store, "kept", "k")
    await put(store, "deleted", "k")
    backup_result = await backed_up(path, copy)
    await store.connections.delete(REF._replace(connection_id="deleted"), now=NOW)
    await put(store, "later", "k")
    await store.close()
    done = await restore_copy(copy, path)
    assert (done.at, done.connections, done.restored_count, done.removed_count, done.taken_over) == (
        backup_result.at,
        2,
        1,
        1,
        0,
    )
    assert done.restored == (REF._replace(connection_id="deleted"),)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = await open_test_store()
    assert await stored_key(again, "kept") == await stored_key(again, "deleted") == "k"
    assert await again.connections.get(REF._replace(connection_id="later")) is None
    history = await again.history.changes_of((await stored_row(again, REF._replace(connection_id="kept"))).id)
    assert [change.reason for change in history] == ["authorized", RESTORED]
    assert done.kept is not None
    replaced = await open_store(f"sqlite:///{done.kept}", Keyring([KEY]), environments=())
    assert await stored_key(replaced, "later") == "k"
    await replaced.close()
    assert not list(path.parent.glob(".gateway.db.*"))


async def save_new_token(store: Store, name: str, token: str) -> None:
    ref = REF._replace(connection_id=name)
    version = (await stored_row(store, ref)).version
    assert await store.refreshes.lease_refresh(ref, owner="o", ttl=TTL)
    saved = await store.refreshes.save_refreshed(
        ref, owner="o", version=version, credential={"apiKey": token}, expires_at=None, now=NOW
    )
    assert saved


@pytest.mark.parametrize("exactly", [False, True])
async def test_newer_token_of_the_replaced_database_is_kept(
    open_test_store: StoreOpener, path: Path, copy: Path, exactly: bool
) -> None:
    store = await open_test_store()
    for name in ("renewed", "same"):
        await put(store, name, "old")
    await store.connections.put(
        new(REF._replace(connection_id="same"), metadata={"m": 1}, credential={"apiKey": "old"}), now=NOW
    )
    await backed_up(path, copy)
    await save_new_token(store, "renewed", "new")
    await store.rotation.rotate(ignore_progress, fresh=True)  # now the backup also lacks the new data key
    await store.close()
    done = await restore_copy(copy, path, exactly=exactly)
    assert done.taken_over == (None if exactly else 1)
    again = await open_test_store()
    assert await stored_key(again, "renewed") == ("old" if exactly else "new")
    assert await stored_key(again, "same") == "old"
    assert (await stored_row(again, REF._replace(connection_id="same"))).metadata == {"m": 1}
    assert await again.rotation.verify(ignore_progress) == []
    await save_new_token(again, "renewed", "newer")
    assert await stored_key(again, "renewed") == "newer"


@pytest.mark.parametrize("damage", [b"nothing like a database", b"", None])
async def test_a_database_that_cannot_be_read_is_replaced_and_kept_as_it_is(
    open_test_store: StoreOpener, path: Path, copy: Path, damage: bytes | None
) -> None:
    store = await open_test_store()
    await put(store, "c", "k")
    await backed_up(path, copy)
    await store.close()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    done = await restore_copy(copy, path)
    assert (done.taken_over, done.connections) == (None, 1)
    if damage is None:
        assert done.kept is None
    else:
        assert done.kept is not None
        assert done.kept.read_bytes() == damage
    assert await stored_key(await open_test_store(), "c") == "k"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a file of another user")
@pytest.mark.parametrize("replaced", [True, False])
async def test_restored_database_belongs_to_the_gateways_user(
    open_test_store: StoreOpener, path: Path, copy: Path, replaced: bool
) -> None:
    await (await open_test_store()).close()
    await backed_up(path, copy)
    if not replaced:
        path.unlink()
    for file in (path.parent, *path.parent.glob(path.name)):
        os.chown(file, 4711, 4712)
    await restore_copy(copy, path)
    assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4712)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a file of another user")
async def test_backup_by_root_leaves_the_time_of_the_backup_to_the_gateways_user(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    await (await open_test_store()).close()
    os.chown(path, 4711, 4712)
    await backed_up(path, copy)
    marker = path.with_name("gateway.db.backed-up")
    assert (marker.stat().st_uid, marker.stat().st_gid) == (4711, 4712)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a file of another user")
async def test_backup_by_root_changes_the_owner_of_no_linked_file(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    await (await open_test_store()).close()
    os.chown(path, 4711, 4712)
    of_root = path.with_name("of-root")
    of_root.touch()
    os.utime(of_root, (1, 1))
    path.with_name("gateway.db.backed-up").symlink_to(of_root)
    await backed_up(path, copy)
    assert (of_root.stat().st_uid, of_root.stat().st_mtime) == (0, 1)


@pytest.mark.parametrize("exactly", [False, True])
async def test_restore_keeps_revocations_of_keys(
    open_test_store: StoreOpener, path: Path, copy: Path, exactly: bool
) -> None:
    store = await open_test_store()
    made = [
        await store.keys.add(
            NewMintedKey(digest=name, environment=REF.environment, kind="key", name=name, last_four=name[-4:], **MADE),
            now=NOW,
        )
        for name in ("living", "revoked", "pruned", "replaced")
    ]
    await backed_up(path, copy)
    await store.keys.reserve_calls("living", 3)
    for one_of_them in made[1:3]:
        await store.keys.revoke(REF.environment, one_of_them.id, now=NOW)
    end = NOW + TTL
    heir = NewMintedKey(
        digest="heir", environment=REF.environment, kind="key", name="replaced", last_four="heir", **MADE
    )
    await store.keys.add(replace(heir, replaces=made[3].id, replaced_ends_at=end), now=NOW)
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM keys WHERE digest = 'pruned'")
        db.commit()
    await restore_copy(copy, path, exactly=exactly)
    store = await open_test_store()
    keys = {name: await store.keys.get(name) for name in ("living", "revoked", "pruned", "replaced")}
    alive = {name for name, key in keys.items() if key is not None and key.is_valid(end)}
    assert alive == (set(keys) if exactly else {"living"})
    assert keys["living"] is not None
    assert keys["living"].calls == (0 if exactly else 3)


async def test_restore_is_refused_while_the_database_is_open(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    store = await open_test_store()
    await put(store, "c", "k")
    await backed_up(path, copy)
    script = (
        "import sys; from pathlib import Path; from gateway.vault import Keyring\n"
        "from gateway.store.sqlite.sqlite_restore import restore\n"
        "restore(Path(sys.argv[1]), Path(sys.argv[2]), Keyring([bytes.fromhex(sys.argv[3])]), exactly=False, step=print)"
    )
    command = [sys.executable, "-c", script, str(copy), str(path), KEY.hex()]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "is in use: stop every gateway" in ran.stderr
    await put(store, "c", "later")
    assert await stored_key(store, "c") == "later"
    assert {file.name for file in path.parent.iterdir() if file.is_file()} == {
        "gateway.db",
        "gateway.db-wal",
        "gateway.db-shm",
        "gateway.db.backed-up",
    }


async def test_restore_refuses_a_backup_that_does_not_open(
    open_test_store: StoreOpener, path: Path, copy: Path
) -> None:
    store = await open_test_store()
    await put(store, "c", "k")
    await backed_up(path, copy)
    await store.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="encrypted with a key"):
        await restore_copy(copy, path, os.urandom(32))
    whole = copy.read_bytes()
    with closing(sqlite3.connect(copy)) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
        db.commit()
    with pytest.raises(StoreRefused, match="newer version"):
        await restore_copy(copy, path)
    copy.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreRefused):
        await restore_copy(copy, path)
    copy.write_bytes(b"no database")
    with pytest.raises(StoreRefused, match="not a SQLite database"):
        await restore_copy(copy, path)
    with pytest.raises(StoreRefused, match="not a file"):
        await restore_copy(copy.parent, path)
    assert path.read_bytes() == before
    assert not list(path.parent.glob(".gateway.db.*"))
    assert await stored_key(await open_test_store(), "c") == "k"


async def test_older_backup_is_upgraded(path: Path, copy: Path, open_test_store: StoreOpener) -> None:
    from alembic import command
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{copy}")
    with engine.begin() as db:
        command.upgrade(configuration(db), "0001")
    engine.dispose()
    done = await restore_copy(copy, path)
    assert (done.at, done.connections, done.kept) == (None, 0, None)
    await put(await open_test_store(), "c", "k")
