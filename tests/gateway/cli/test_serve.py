"""``gateway serve`` before it serves: what prevents a start is reported early, and as JSON if requested."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway import resources
from gateway.store import open_store
from gateway.vault import Keyring
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PASSWORD
from tests.gateway.cli.command import run_command

HEAD = """\
server: {port: 0}
store: {encryption_keys: ["dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="]}
environments:
  dev:
    secret_keys: [a-secret-key-of-dev]
"""
HEAVY = ("sqlalchemy", "aiohttp", "alembic", "uvloop", "asyncio")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(HEAD)
    return path


async def _create_database(file: Path) -> None:
    """Create a database beside `file`, sealed with another key than the file's."""
    url = f"sqlite:///{file.parent}/gateway.db"
    await (await open_store(url, Keyring([os.urandom(32)]), environments={"dev"})).close()


# A worker that has received from its parent which configuration to read.
WORKER = """
import socket, sys
from gateway.process.handshake import send_now
from gateway.worker import main
ours, its = socket.socketpair()
send_now(ours, dict(program=sys.argv[0], file={file!r}, as_json=False, place=0, start_from=None))
try: main(its.fileno())
except SystemExit as end: print(end.code, [m for m in {heavy!r} if m in sys.modules])
"""


def refusal(file: Path, heavy: Sequence[str]) -> str:
    """Return the single line with which a worker's start fails, before anything heavy is imported."""
    code = WORKER.format(file=str(file), heavy=heavy)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert run.stdout == "1 []\n", run.stderr
    assert run.stderr.count("\n") == 1
    assert PASSWORD not in run.stderr
    return run.stderr


def test_a_wrong_encryption_key_is_reported_before_anything_heavy_is_imported(file: Path) -> None:
    asyncio.run(_create_database(file))
    message = refusal(file, HEAVY)
    assert message.startswith("gateway: ")
    assert "store.encryption_keys" in message
    shown = run_command("serve", "-c", str(file))
    assert (shown.exit_code, shown.stdout, shown.stderr) == (1, "", message)


def test_a_wrong_encryption_key_is_reported_for_postgresql_too(file: Path, empty_database: str) -> None:
    asyncio.run(_seal_with_another_key(empty_database))
    file.write_text(HEAD.replace("store: {", f"store: {{url: '{empty_database}', "))
    assert "store.encryption_keys" in refusal(file, ("sqlalchemy",))


async def _seal_with_another_key(url: str) -> None:
    await (await open_store(url, Keyring([os.urandom(32)]), environments={"dev"})).close()


def test_missing_database_is_reported_in_one_line(file: Path, unused_tcp_port: int) -> None:
    url = f"postgresql://u:{PASSWORD}@127.0.0.1:{unused_tcp_port}/d"
    file.write_text(HEAD.replace("store: {", f"store: {{url: '{url}', "))
    assert "cannot be reached: nothing listens at this address" in refusal(file, ("sqlalchemy",))


@pytest.mark.parametrize("command", ["serve", "check"])
def test_faults_of_the_configuration_hide_neither_the_catalogs_nor_an_unknown_provider(
    file: Path, command: str
) -> None:
    (file.parent / "mine").mkdir()
    (file.parent / "mine" / "tracker.yaml").write_text("display_name: Tracker\ncategoris: [x]\n")
    file.write_text(
        HEAD
        + "    integrations:\n"
        + "      one: {provider: jria, client_secret: a}\n"
        + "      two: {provider: tracker}\n"
        + "      three: {provider: ['x'], client_id: 'a'}\n"
        + "live: {ttl_s: never}\ncatalog: [mine, missing]\n"
    )
    result = run_command(command, "-c", str(file))
    assert result.exit_code == 1
    message = result.stderr
    assert f"{file}:7: the catalog has no provider 'jria'; did you mean 'jira'?" in message
    assert f"{file}:9: environments.dev.integrations.three.provider: must be text, not a list" in message
    assert f"{file}:10: live.ttl_s: must be a number" in message
    assert f"{file}:11: catalog[1]: there is no folder" in message
    assert "mine/tracker.yaml:2: unknown key 'categoris'" in message
    assert "'tracker'" not in message.replace("unknown key 'categoris'", ""), (
        "a provider with a faulty entry is not reported as missing"
    )
    assert message.count("three") == 1
    assert message.count("missing\n") == 1


def test_faults_are_printed_as_one_line_of_json(file: Path) -> None:
    file.write_text(HEAD + "live: {ttl_s: never}\n")
    result = run_command("serve", "-c", str(file), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False,
        "faults": [
            {
                "where": f"{file}:6",
                "message": "live.ttl_s: must be a number of seconds, not 'never'",
                "file": str(file),
                "line": 6,
            }
        ],
    }


def test_other_refusals_are_printed_as_json_too(file: Path) -> None:
    (file.parent / "gateway.db").write_text("dear diary")
    result = run_command("serve", "-c", str(file), "--json")
    assert result.exit_code == 1
    (fault,) = json.loads(result.stdout)["faults"]
    assert "is not a SQLite database" in fault["message"]


def test_readiness_is_printed_as_one_line_of_json(file: Path) -> None:
    command = [sys.executable, "-m", "gateway", "serve", "-c", str(file), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert ready["ok"] is True
    assert ready["callback_url"] == f"{ready['url']}/oauth/callback"


@pytest.mark.parametrize(("option", "setting"), [("--port=3", "server.port"), ("--host", "server.host")])
def test_error_names_the_setting_that_was_given_as_an_option(option: str, setting: str, file: Path) -> None:
    result = run_command("serve", "-c", str(file), option)
    assert result.exit_code == 2
    assert f"Set {setting} in gateway.yaml." in result.stderr


@pytest.mark.parametrize("command", ["serve", "check"])
def test_in_a_fresh_checkout_a_command_points_to_init(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_ENCRYPTION_KEY", raising=False)
    result = run_command(command, folder=resources.file("gateway.yaml").parent)
    assert result.exit_code == 1
    assert "gateway.yaml is the reference of all settings. " in result.stderr
    assert "init --dir my-gateway`" in result.stderr
