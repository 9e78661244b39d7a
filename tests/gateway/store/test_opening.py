"""Opening a store prepares a new file. A file that cannot be opened correctly stays unchanged, and the error is one
line.
"""

import asyncio
import hashlib
import os
import sqlite3
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection

from gateway.store import Store, StoreRefused, migrations, open_store, opening
from gateway.store.sqlite.file_preflight import sqlite_path
from gateway.vault import Keyring
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new

OTHER = os.urandom(32)


@pytest.fixture
def backend() -> str:
    """Run these tests on SQLite only, because they check the file."""
    return "sqlite"


def contents(path: Path) -> dict[str, str]:
    """Return the digest of every file. The -shm file is ignored, because it is only SQLite's shared memory."""
    files = (file for file in path.parent.iterdir() if not file.name.endswith("-shm"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def opening_error(path: Path, key: bytes = KEY, environments: frozenset[str] = frozenset({"dev"})) -> str:
    with pytest.raises(StoreRefused) as refusal:
        await open_store(f"sqlite:///{path}", Keyring([key]), environments=environments, busy_s=0.2)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def leave_files_of_a_crash(path: Path) -> None:
    """Copy the files of an open database and put the copies back. This is the state after the process was killed."""
    saved = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    crashed = path.parent / "crashed"
    crashed.mkdir()
    for name, content in saved.items():
        (crashed / name).write_bytes(content)


async def test_a_new_file_is_private_and_in_wal_mode(store: Store, path: Path) -> None:
    await store.connections.put(new(), now=NOW)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"gateway.db": 0o600, "gateway.db-wal": 0o600, "gateway.db-shm": 0o600}
    await store.ping()


async def test_stored_data_is_kept_after_reopening(open_test_store: StoreOpener, path: Path) -> None:
    first = await open_test_store()
    await first.connections.put(new(), now=NOW)
    await first.close()
    assert [file.name for file in path.parent.iterdir()] == ["gateway.db"]
    again = await open_test_store()
    found = await again.connections.get(REF)
    assert found is not None
    assert again.vault.open_json(found.credential) == {"type": "API_KEY", "apiKey": "k"}


async def test_a_wrong_key_is_refused_and_no_byte_changes(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    await store.connections.put(new(), now=NOW)
    await store.close()
    before = contents(path)
    message = await opening_error(path, key=OTHER)
    assert "store.encryption_keys" in message
    assert contents(path) == before


async def test_a_wrong_key_changes_neither_database_nor_wal_of_a_crashed_process(
    open_test_store: StoreOpener, path: Path
) -> None:
    store = await open_test_store()
    await store.connections.put(new(), now=NOW)
    leave_files_of_a_crash(path)
    crashed = path.parent / "crashed" / path.name
    assert (crashed.parent / "gateway.db-wal").stat().st_size > 0
    before = contents(crashed)
    await opening_error(crashed, key=OTHER)
    assert contents(crashed) == before
    recovered = await open_store(f"sqlite:///{crashed}", Keyring([KEY]), environments={"dev"})
    assert await recovered.connections.get(REF)
    await recovered.close()


async def test_a_wrong_key_is_refused_while_a_gateway_runs(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    await store.connections.put(new(), now=NOW)
    before = contents(path)
    await opening_error(path, key=OTHER, environments=frozenset({"dev", "another"}))
    assert contents(path) == before


async def test_a_new_first_key_with_the_old_one_second_opens(open_test_store: StoreOpener, path: Path) -> None:
    first = await open_test_store()
    stored, _ = await first.connections.put(new(), now=NOW)
    await first.close()
    store = await open_store(f"sqlite:///{path}", Keyring([OTHER, KEY]), environments={"dev", "prod", "third"})
    assert store.vault.open_json(stored.credential)["apiKey"] == "k"
    await store.close()
    assert "store.encryption_keys" in await opening_error(path, key=OTHER), "two data keys still need the old one"


async def test_changed_data_key_differs_from_a_wrong_key(open_test_store: StoreOpener, path: Path) -> None:
    await (await open_test_store()).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE data_keys SET wrapped = zeroblob(60) WHERE environment = 'dev'")
    db.close()
    assert "damaged" in await opening_error(path)


async def test_a_newer_database_is_refused_unchanged(open_test_store: StoreOpener, path: Path) -> None:
    await (await open_test_store()).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    db.close()
    before = contents(path)
    assert "newer version" in await opening_error(path)
    assert contents(path) == before


async def test_another_programs_database_is_refused_unchanged(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE recipes (name)")
    db.close()
    before = contents(path)
    assert "another program" in await opening_error(path)
    assert contents(path) == before


async def test_a_file_that_is_not_a_database_is_refused_unchanged(path: Path) -> None:
    write(path, b"dear diary")
    before = contents(path)
    assert "not a SQLite database" in await opening_error(path)
    assert contents(path) == before


async def test_a_database_cut_in_the_middle_is_refused(open_test_store: StoreOpener, path: Path) -> None:
    await (await open_test_store()).close()
    os.truncate(path, 5000)
    assert str(path) in await opening_error(path)


async def test_an_empty_file_counts_as_a_missing_file(open_test_store: StoreOpener, path: Path) -> None:
    write(path, b"")
    store = await open_test_store()
    await store.ping()
    assert path.read_bytes().startswith(b"SQLite format 3")


async def test_places_where_no_file_can_be_are_refused(tmp_path: Path) -> None:
    assert "is a folder" in await opening_error(tmp_path)
    assert "create it" in await opening_error(tmp_path / "missing" / "gateway.db")
    (tmp_path / "file").touch()
    assert "is not a folder" in await opening_error(tmp_path / "file" / "gateway.db")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in await opening_error(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
async def test_a_folder_that_may_not_be_written_is_refused(path: Path) -> None:
    path.parent.chmod(0o555)
    assert "not writable" in await opening_error(path)


async def test_a_database_locked_for_long_is_refused(path: Path) -> None:
    write(path, b"")
    with sqlite3.connect(path, isolation_level=None) as blocker:
        blocker.execute("BEGIN EXCLUSIVE")
        assert "locked by another process" in await opening_error(path)
    blocker.close()


async def test_full_disk_is_the_reason_that_the_operator_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bool:
        error = sqlite3.OperationalError("disk I/O error")  # SQLite does not say that the disk is full
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error

    monkeypatch.setattr("gateway.store.sqlite.sqlite_backend._in_wal_mode", fail)
    assert "cannot be opened for writing: reading or writing it failed." in await opening_error(path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
    assert f"cannot be opened for writing: the disk is full. Free space in {path.parent}." in await opening_error(path)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgres://u:p4ss@h/db", "or postgresql://"),
        ("mysql://u:p4ss@h/db", "names mysql"),
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
        ("sqlite:///x.db?mode=ro", "must name a file"),
        ("gateway.db", "not a URL"),
        ("", "not a URL"),
    ],
)
def test_url_that_names_no_file_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(StoreRefused, match=says) as refusal:
        sqlite_path(url)
    assert "p4ss" not in str(refusal.value)


async def test_a_path_with_odd_characters_is_taken_literally(tmp_path: Path) -> None:
    odd = tmp_path / "a b%20#c" / "gate way.db"
    odd.parent.mkdir()
    for _ in range(2):
        store = await open_store(f"sqlite:///{odd}", Keyring([KEY]), environments={"dev"})
        await store.close()
    assert odd.exists()


async def test_several_stores_can_open_a_new_file_at_the_same_time(open_test_store: StoreOpener) -> None:
    stores = await asyncio.gather(*(open_test_store() for _ in range(4)))
    for n, store in enumerate(stores):
        await store.connections.put(new(REF._replace(connection_id=f"c{n}")), now=NOW)
    for store in stores:
        for n in range(4):
            found = await store.connections.get(REF._replace(connection_id=f"c{n}"))
            assert found is not None
            assert store.vault.open_json(found.credential)["apiKey"] == "k"


STARTER = """
import asyncio, sys
from gateway.store import open_store
from gateway.vault import Keyring

async def main():
    store = await open_store(sys.argv[1], Keyring([bytes.fromhex(sys.argv[2])]), environments={"dev", "prod"})
    await store.ping()
    await store.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


async def test_a_process_that_starts_together_with_another_on_a_new_file_does_not_load_alembic(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process creates the tables after this one has seen none."""
    await open_test_store()
    revisions: list[str | None] = [None]
    monkeypatch.setattr(
        opening, "schema_revision", lambda db: revisions.pop() if revisions else migrations.schema_revision(db)
    )
    monkeypatch.setattr(opening, "UPGRADE", "gateway.store.must_not_be_loaded")
    store = await open_test_store()
    assert revisions == [], "the store has seen no tables first"
    assert await store.connections.get(REF) is None


async def test_processes_that_start_together_on_a_new_file_all_succeed(path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-c", STARTER, f"sqlite:///{path}", KEY.hex())
    starters = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(3)]
    for starter in starters:
        assert starter.stdout is not None
        assert await starter.stdout.readline() == b"ready\n"
    ended = await asyncio.gather(*(starter.communicate(b"go\n") for starter in starters))
    assert [errors.decode() for _, errors in ended] == ["", "", ""]


async def test_a_start_with_nothing_to_do_begins_no_upgrade_and_writes_nothing(
    open_test_store: StoreOpener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = list[str | None]()

    def recorded(db: Connection) -> str | None:
        revisions.append(migrations.schema_revision(db))
        return revisions[-1]

    monkeypatch.setattr(opening, "schema_revision", recorded)
    await (await open_test_store()).close()
    assert revisions == [None, None], "an upgrade reads the revision again, with the write lock"
    before = contents(path)
    for _ in range(3):
        await (await open_test_store()).close()
    assert revisions[2:] == [migrations.REVISIONS[-1]] * 3
    assert contents(path) == before


async def test_an_environment_added_later_gets_its_key(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    await store.ensure_environments({"dev", "staging"})
    stored, _ = await store.connections.put(new(REF._replace(environment="staging")), now=NOW)
    assert store.vault.open_json(stored.credential)
