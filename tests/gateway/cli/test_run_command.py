"""Commands on the store of a gateway that is not running: on PostgreSQL, on SQLite, and without a store."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from gateway.cli.terminal import exit_on_errors
from gateway.vault import DamagedValue
from tests.fakes.commands import command_output
from tests.gateway.cli.command import run_command

KEY = "JiURJZyxq9u8wNGbojb4XRaHcZEAUy+EK5yLz55SrSM="
NEW_KEY = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="

# The last output of each command on a store with only a key, and the arguments that the command needs.
ON_THE_STORE = {
    "keys status": (),
    "keys rotate": (),
    "console": (),
    "audit show": (),
    "audit export": (),
    "audit key": (),
    "audit verify": (),
}
ON_THE_RUNTIME = {
    "keys list": (),
    "connections list": (),
    "events list": (),
    "logs": (),
    "audit uses": ("--key", "1"),
    "incident": ("--key", "1"),
}
READING = {**ON_THE_STORE, **ON_THE_RUNTIME}


def write_config(folder: Path, url: str, *keys: str) -> str:
    file = folder / "gateway.yaml"
    environments = {"dev": {"secret_keys": ["sk-test-0123456789abcdef"], "integrations": {}}}
    store = {"url": url, "encryption_keys": list(keys)}
    file.write_text(json.dumps({"store": store, "console": {"enabled": True}, "environments": environments}))
    return str(file)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gateway.db'}"
    found: str = request.getfixturevalue("empty_database")
    return found


@pytest.mark.heavy
async def test_every_command_runs_on_postgresql(empty_database: str, tmp_path: Path) -> None:
    url = empty_database
    file = write_config(tmp_path, url, KEY)
    made = run_command("keys", "create", "agent", "-c", file)
    assert made.exit_code == 0, made.stderr
    file = write_config(tmp_path, url, NEW_KEY, KEY)
    for command, more in READING.items():
        done = await command_output(*command.split(" "), *more, "-c", file)
        assert done.code == 0, (command, done.out, done.err)
    rotated = run_command("keys", "status", "-c", write_config(tmp_path, url, NEW_KEY))
    assert rotated.exit_code == 0, rotated.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["keys status", "connections list"])
async def test_command_without_a_store_does_not_create_one(url: str, tmp_path: Path, command: str) -> None:
    file = write_config(tmp_path, url, KEY)
    before = sorted(tmp_path.iterdir())
    for _ in range(2):  # the first run must have written nothing
        done = await command_output(*command.split(" "), "-c", file)
        assert done.code == 1
        assert ("does not exist" if url.startswith("sqlite") else "contains no gateway data") in done.err
        assert "gateway serve" in done.err
    assert sorted(tmp_path.iterdir()) == before


async def test_fault_is_also_json_and_has_the_words_of_the_database(tmp_path: Path) -> None:
    file = write_config(tmp_path, f"sqlite:///{tmp_path / 'gateway.db'}", KEY)
    assert (await command_output("keys", "create", "agent", "-c", file)).code == 0
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as db:
        db.execute("ALTER TABLE deliveries DROP COLUMN detail")
        db.commit()
    faults = {
        ("events", "list"): "no such column: deliveries.detail",
        ("keys", "create", "agent"): "has the name 'agent' already",
        ("connections", "import", "missing.jsonl"): "missing.jsonl cannot be read",
        ("connections", "list", "-c", "missing.yaml"): "there is no such file",
    }
    for command, message in faults.items():
        done = await command_output(*command, "--json", *(() if "-c" in command else ("-c", file)))
        assert done.code == 1
        assert message in done.err
        (fault,) = json.loads(done.out)["faults"]
        assert message in fault["message"]


@pytest.mark.heavy
async def test_missing_column_on_postgresql_is_reported_like_any_fault(empty_database: str, tmp_path: Path) -> None:
    file = write_config(tmp_path, empty_database, KEY)
    assert (await command_output("keys", "create", "agent", "-c", file)).code == 0
    db = await asyncpg.connect(empty_database)
    await db.execute("ALTER TABLE deliveries DROP COLUMN detail")
    await db.close()
    done = await command_output("events", "list", "--json", "-c", file)
    assert done.code == 1
    (fault,) = json.loads(done.out)["faults"]
    assert fault["message"] == (
        "The gateway's database cannot be used now: it lacks a column, as after an incomplete restore; restore a complete "
        "backup. Retry in 5 s. The database says: column deliveries.detail does not exist."
    )


async def test_error_for_an_unknown_environment_lists_the_existing_ones(tmp_path: Path) -> None:
    file = write_config(tmp_path, f"sqlite:///{tmp_path / 'gateway.db'}", KEY)
    assert (await command_output("keys", "create", "agent", "-c", file)).code == 0
    done = await command_output("keys", "list", "-c", file, "--environment", "prod")
    assert done.code == 2
    assert "There is no environment 'prod'. Name the environment: --environment dev." in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_configuration_is_a_fault_of_the_file(tmp_path: Path) -> None:
    file = write_config(tmp_path, f"sqlite:///{tmp_path / 'gateway.db'}", KEY)
    Path(file).chmod(0)
    done = run_command("keys", "list", "--json", "-c", file)
    assert done.exit_code == 1
    assert "cannot be read" in json.loads(done.stdout)["faults"][0]["message"]


async def test_unset_variable_of_an_integration_is_a_warning_if_the_command_calls_no_provider(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'gateway.db'}"
    file = Path(write_config(tmp_path, url, KEY))
    assert (await command_output("keys", "create", "agent", "-c", str(file))).code == 0
    whole = json.loads(file.read_text())
    github = {"provider": "github", "client_id": "${NOT_SET_ID}", "client_secret": "${NOT_SET_SECRET}"}
    whole["environments"]["dev"]["integrations"] = {"github": github}
    file.write_text(json.dumps(whole))
    for command in ("connections list", "logs", "keys status", f"backup {tmp_path / 'copy.db'}"):
        done = await command_output(*command.split(" "), "-c", str(file))
        assert done.code == 0, done.err
        assert "${NOT_SET_SECRET} is not set" in done.err
    refused = await command_output("connections", "refresh", "c1", "-c", str(file))
    assert refused.code == 1, "a refresh needs the client secret that is not set"
    assert "${NOT_SET_SECRET} is not set" in refused.err
    whole["environments"]["dev"]["secret_keys"] = ["${NOT_SET_KEY}"]
    file.write_text(json.dumps(whole))
    assert (await command_output("keys", "status", "-c", str(file))).code == 1


def test_secret_that_cannot_be_decrypted_ends_a_command_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, exit_on_errors(True, tmp_path / "gateway.yaml"):
        raise DamagedValue("the event cannot be decrypted")
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (1, "gateway: the event cannot be decrypted\n")
    assert json.loads(out)["faults"] == [{"message": "the event cannot be decrypted"}]
