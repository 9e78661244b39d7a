"""`gateway backup`, `restore` and `keys` as an operator uses them."""

import asyncio
import base64
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from gateway.records.audit import AuditFilter, current_actor
from gateway.store import open_store
from gateway.vault import Keyring
from tests.gateway.store.conftest import NOW, REF, new

KEY, NEXT = os.urandom(32), os.urandom(32)


def write(folder: Path, *keys: bytes, url: str = "sqlite:///gateway.db") -> Path:
    document = {
        "store": {"url": url, "encryption_keys": [base64.b64encode(key).decode() for key in keys]},
        "environments": {"dev": {"secret_keys": ["a-secret-key-of-dev"]}},
    }
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


async def fill(folder: Path, count: int = 3) -> None:
    store = await open_store(f"sqlite:///{folder}/gateway.db", Keyring([KEY]), environments={"dev"})
    for n in range(count):
        await store.connections.put(new(REF._replace(connection_id=f"c{n}")), now=NOW)
    await store.close()


def run_command_text(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def as_json(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    body: dict[str, Any] = json.loads(done.stdout)
    return body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path))
    write(tmp_path, KEY)
    return tmp_path


def test_encryption_key_is_added_rotated_to_and_removed(folder: Path) -> None:
    file = str(write(folder, NEXT, KEY))
    before = as_json("keys", "status", "-c", file)
    assert [(key["place"], key["values"], key["removable"]) for key in before["encryption_keys"]] == [
        (1, 0, False),
        (2, 3, False),
    ]
    assert "`gateway keys rotate`" in before["advice"]
    done = as_json("keys", "rotate", "-c", file)
    assert (done["encrypted_again"], done["left"], done["new_data_keys"], done["removed_data_keys"]) == (3, 0, 1, 1)
    after = as_json("keys", "status", "--verify", "-c", file)
    assert [(key["values"], key["removable"]) for key in after["encryption_keys"]] == [(3, False), (0, True)]
    assert [key["may_go"] for key in after["encryption_keys"]] == [False, True], (
        "the former name of `removable` is still printed"
    )
    assert (after["damaged"], after["without_a_key"]) == ([], 0)
    assert "Encryption key 2 is no longer needed" in run_command_text("keys", "status", "-c", file)
    assert "3 values decrypted, none damaged." in run_command_text("keys", "status", "--verify", "-c", file)
    write(folder, NEXT)
    assert "0 values encrypted again" in run_command_text("keys", "rotate", "-c", file)
    assert "3 values encrypted again" in run_command_text("keys", "rotate", "--data-keys", "-c", file)


def test_rotation_with_wrap_only_is_reported_as_such(folder: Path) -> None:
    file = str(write(folder, NEXT, KEY))
    assert "1 data key encrypted again" in run_command_text("keys", "rotate", "--wrap-only", "-c", file)
    assert as_json("keys", "rotate", "--wrap-only", "-c", file)["wrapped"] == 0
    run_command_text("keys", "rotate", "--wrap-only", "--data-keys", "-c", file, code=2)


@pytest.mark.parametrize("command", [["keys", "rotate"], ["keys", "status"], ["backup", "x.db"]])
def test_lost_key_is_reported_in_one_line_and_nothing_is_changed(folder: Path, command: list[str]) -> None:
    file = str(write(folder, NEXT))
    before = (folder / "gateway.db").read_bytes()
    output = run_command_text(*command, "-c", file, code=1)
    assert output.count("\n") == 1
    assert "1 data key, with 3 values, encrypted with a key that is not in store.encryption_keys" in output
    assert (folder / "gateway.db").read_bytes() == before


def test_backup_is_created_and_restored(folder: Path) -> None:
    file, copy = str(folder / "gateway.yaml"), str(folder / "copy.db")
    backup_result = as_json("backup", copy, "-c", file)
    assert (backup_result["ok"], backup_result["connections"], backup_result["bytes"]) == (
        True,
        3,
        Path(copy).stat().st_size,
    )
    assert "--force" in run_command_text("backup", copy, "-c", file, code=1)
    assert "3 connections as of" in run_command_text("backup", copy, "--force", "-c", file)
    put_back = as_json("restore", copy, "-c", file)
    assert (put_back["connections"], put_back["credentials_taken_over"]) == (3, 0)
    output = run_command_text("restore", copy, "--exactly", "-c", file)
    assert "3 connections as of" in output
    assert "the end user must reconnect" in output
    assert "is kept as" in output


def test_restore_names_the_connections_that_it_brings_back(folder: Path) -> None:
    file, copy = str(folder / "gateway.yaml"), str(folder / "copy.db")
    as_json("backup", copy, "-c", file)
    output = run_command_text("restore", copy, "-c", file)
    assert "Deleted after the backup" not in output
    assert "were refreshed after the backup" not in output
    with closing(sqlite3.connect(folder / "gateway.db", isolation_level=None)) as db:
        (name,) = db.execute(
            "DELETE FROM connections WHERE id = 2 RETURNING integration_id || '/' || connection_id"
        ).fetchone()
    output = run_command_text("restore", copy, "-c", file)
    assert "restored by it: 1 connection. Delete again with `gateway connections delete`:\n" in output
    assert f"  {name} in environment 'dev'\n" in output
    with closing(sqlite3.connect(folder / "gateway.db", isolation_level=None)) as db:
        db.execute("DELETE FROM connections WHERE id = 2")
    (restored,) = as_json("restore", copy, "-c", file)["restored_connections"]
    assert f"{restored['provider_config_key']}/{restored['connection_id']}" == name


async def audit_records(folder: Path) -> list[Any]:
    store = await open_store(f"sqlite:///{folder}/gateway.db", Keyring([KEY]), environments={"dev"})
    await store.audit.append_to_chain()
    found = await store.audit.find(AuditFilter(), oldest_first=True)
    await store.close()
    return [item.as_json() for item in found]


def test_backup_and_restore_are_audited_with_actor_and_file(folder: Path) -> None:
    file, copy = str(folder / "gateway.yaml"), str(folder / "copy.db")
    backup_result = as_json("backup", copy, "-c", file)
    assert backup_result["recorded"] is True
    record = asyncio.run(audit_records(folder))[-1]
    assert (record["action"], record["actor"]["kind"]) == ("store.backed_up", "operator")
    assert record["actor"]["command"].endswith("backup")
    assert record["detail"] == {"file": copy, "at": backup_result["at"], "connections": 3}
    run_command_text("restore", copy, "-c", file)
    record = asyncio.run(audit_records(folder))[-1]
    assert (record["action"], record["actor"]["kind"]) == ("store.restored", "operator")
    assert record["detail"]["file"] == copy
    assert (record["detail"]["at"], record["detail"]["credentials_taken_over"]) == (backup_result["at"], 0)
    assert current_actor.get().kind == "system"


def test_database_that_cannot_be_written_is_backed_up(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "gateway.db", isolation_level=None)) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON audit_pending BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    output = run_command_text("backup", str(folder / "copy.db"), "-c", str(folder / "gateway.yaml"))
    assert "3 connections as of" in output
    assert "no record of this backup: the database could not be written, or is of an older version." in output


@pytest.mark.parametrize(
    ("content", "expected_text"),
    [
        (b"not a database at all\n" * 50, "is not a SQLite database"),
        (b"", "is not a gateway's database"),
        (None, "is another program's database"),
        ("half", "it is damaged"),
        ("bent", "damaged"),
    ],
)
def test_invalid_backup_file_is_reported(folder: Path, content: bytes | str | None, expected_text: str) -> None:
    config, wrong = str(folder / "gateway.yaml"), folder / "wrong.db"
    if content is None:
        with closing(sqlite3.connect(wrong)) as db:
            db.execute("CREATE TABLE notes (text)")
    elif isinstance(content, str):
        run_command_text("backup", str(wrong), "-c", config)
        whole = bytearray(wrong.read_bytes())
        whole[-4096:] = os.urandom(4096)
        wrong.write_bytes(whole[: len(whole) // 2] if content == "half" else whole)
    else:
        wrong.write_bytes(content)
    before = (folder / "gateway.db").read_bytes()
    output = run_command_text("restore", str(wrong), "-c", config, code=1)
    assert output.count("\n") == 1
    assert str(wrong) in output
    assert expected_text in output
    assert "store.url" not in output
    assert (folder / "gateway.db").read_bytes() == before


def test_for_postgresql_its_own_tools_are_named_without_the_password(tmp_path: Path) -> None:
    file = str(write(tmp_path, KEY, url="postgresql://gw:hidden@db.example:5433/prod?sslmode=require"))
    output = run_command_text("backup", "my copy.dump", "-c", file, code=1)
    wanted = "pg_dump --format=custom --file='my copy.dump' 'postgresql://gw@db.example:5433/prod?sslmode=require'"
    assert wanted in output
    assert "hidden" not in output


def test_postgresql_dump_is_restored_into_an_empty_database(tmp_path: Path) -> None:
    """`pg_restore --clean` leaves the tables that a newer version has added, and the next upgrade fails at them."""
    file = str(write(tmp_path, KEY, url="postgresql://gw:hidden@db.example/prod"))
    output = run_command_text("restore", "x.dump", "-c", file, code=1)
    assert "into an empty database: pg_restore --exit-on-error --single-transaction" in output
    assert output.endswith("--dbname=postgresql://gw@db.example/prod x.dump\n")
    assert "--clean" not in output


def test_no_command_shows_a_key(folder: Path) -> None:
    file = str(write(folder, NEXT, KEY))
    body = (
        run_command_text("keys", "status", "-c", file)
        + run_command_text("keys", "rotate", "-c", file)
        + json.dumps(as_json("keys", "status", "-c", file))
    )
    for key in (KEY, NEXT):
        assert base64.b64encode(key).decode() not in body
        assert key.hex() not in body
