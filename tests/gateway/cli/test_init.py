"""``gateway init``: writes a working configuration and private keys, and overwrites nothing."""

import base64
import errno
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import init_answers, main
from gateway.cli.init import FilesExist, write_private
from gateway.config import load

NAMES = {"gateway.yaml", "encryption_key", "secret_key"}


TAKEN = "gateway.cli.init_answers.is_taken"


@pytest.fixture(autouse=True)
def no_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every port as free, no matter what listens on this machine."""
    monkeypatch.setattr(TAKEN, lambda _host, _port: False)


def init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


def test_written_configuration_loads(tmp_path: Path) -> None:
    assert init("--dir", str(tmp_path)).exit_code == 0
    loaded = load(tmp_path / "gateway.yaml", environ={})
    assert loaded.server.public_url == "http://127.0.0.1:3003"
    assert loaded.environments["dev"].secret_keys[0].reveal() == (tmp_path / "secret_key").read_text().strip()
    assert len(base64.b64decode((tmp_path / "encryption_key").read_text().strip(), validate=True)) == 32


def test_only_the_owner_can_read_the_files_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert init("--dir", str(tmp_path / "new" / "folder")).exit_code == 0
    finally:
        os.umask(before)
    written = list((tmp_path / "new" / "folder").iterdir())
    assert {path.name for path in written} == NAMES
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert stat.S_IMODE((tmp_path / "new" / "folder").stat().st_mode) == 0o700


def test_files_are_private_from_their_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    fsync = os.fsync

    def record_mode(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_mode)
    monkeypatch.setattr(os, "chmod", lambda *_: pytest.fail("the mode must be set when the file is created"))
    assert init("--dir", str(tmp_path)).exit_code == 0
    assert modes == [0o600] * 3


def test_callback_url_has_its_own_line(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path), "--public-url", "https://gw.example.com/x/")
    assert "\nhttps://gw.example.com/x/oauth/callback\n" in result.stdout
    assert load(tmp_path / "gateway.yaml", environ={}).callback_url == "https://gw.example.com/x/oauth/callback"


def test_no_output_shows_a_key(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path))
    for name in ("encryption_key", "secret_key"):
        assert (tmp_path / name).read_text().strip() not in result.output


def test_json_names_every_path_and_url(tmp_path: Path) -> None:
    assert json.loads(init("--dir", str(tmp_path), "--json").stdout) == {
        "config": str(tmp_path / "gateway.yaml"),
        "encryption_key": str(tmp_path / "encryption_key"),
        "secret_key": str(tmp_path / "secret_key"),
        "public_url": "http://127.0.0.1:3003",
        "callback_url": "http://127.0.0.1:3003/oauth/callback",
    }


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://localhost:4000", "localhost", 4000),
        ("http://[::1]:5000", "::1", 5000),
        ("https://gw.example.com", "127.0.0.1", 3003),
    ],
)
def test_gateway_listens_on_the_host_and_port_of_a_loopback_url(tmp_path: Path, url: str, host: str, port: int) -> None:
    assert init("--dir", str(tmp_path), "--public-url", url).exit_code == 0
    server = load(tmp_path / "gateway.yaml", environ={}).server
    assert (server.public_url, server.host, server.port) == (url, host, port)


@pytest.mark.parametrize("url", ["http://gw.example.com", "gw.example.com", "https://x/?y", "https://u:p@x"])
def test_an_invalid_public_url_is_a_usage_error_and_writes_nothing(tmp_path: Path, url: str) -> None:
    result = init("--dir", str(tmp_path / "new"), "--public-url", url)
    assert result.exit_code == 2
    assert "Invalid value for --public-url" in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("host", ["bad host", "[::1]", "127.0.0.1:3003"])
def test_host_that_the_gateway_cannot_listen_on_is_wrong_usage_and_writes_nothing(tmp_path: Path, host: str) -> None:
    result = init("--dir", str(tmp_path / "new"), "--host", host)
    assert (result.exit_code, "Invalid value for --host: " in result.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_existing_file_stays_and_no_other_file_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    result = init("--dir", str(tmp_path))
    assert result.exit_code == 1
    assert f"{tmp_path / name} already exist" in result.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


def test_symlink_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "encryption_key").symlink_to(tmp_path / "elsewhere")
    assert init("--dir", str(tmp_path)).exit_code == 1
    assert not (tmp_path / "elsewhere").exists()


def test_force_replaces_the_configuration_and_never_a_key(tmp_path: Path) -> None:
    init("--dir", str(tmp_path))
    keys = {name: (tmp_path / name).read_text() for name in ("encryption_key", "secret_key")}
    (tmp_path / "gateway.yaml").write_text("edited")
    result = init("--dir", str(tmp_path), "--force", "--public-url", "https://gw.example.com")
    assert result.exit_code == 0
    assert {name: (tmp_path / name).read_text() for name in keys} == keys
    assert load(tmp_path / "gateway.yaml", environ={}).server.public_url == "https://gw.example.com"
    assert {path.name for path in tmp_path.iterdir()} == NAMES
    assert f"{tmp_path / 'secret_key'}  (kept)" in result.stdout


def test_written_files_are_removed_when_the_rest_fails(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_private({tmp_path / "first": "1", tmp_path / "missing" / "second": "2"})
    assert list(tmp_path.iterdir()) == []


def test_a_half_written_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --force, an empty encryption key would be kept."""

    def raise_disk_full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_private({tmp_path / "encryption_key": "1"})
    assert list(tmp_path.iterdir()) == []


def test_file_that_another_process_creates_meanwhile_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "second").write_text("theirs")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(FilesExist, match="second"):
        write_private({tmp_path / "first": "1", tmp_path / "second": "2"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"second": "theirs"}


def test_folder_that_cannot_be_created_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = init("--dir", str(tmp_path / "file" / "below"))
    assert result.exit_code == 1
    assert result.stderr == f"Error: {tmp_path / 'file' / 'below'} cannot be written: Not a directory\n"


def test_suggested_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Path(sys.executable).parent / "gateway"
    monkeypatch.chdir(command.parents[1])
    monkeypatch.setenv("PATH", os.defpath)
    run = [str(command), "init", "--dir", str(tmp_path / "a b")]
    output = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert f"\n  3. bin/gateway check -c '{tmp_path}/a b/gateway.yaml'\n" in output
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    output = subprocess.run([*run, "--force"], capture_output=True, text=True, check=True).stdout
    assert f"\n  3. gateway check -c '{tmp_path}/a b/gateway.yaml'\n" in output


def test_the_first_integration_is_declared_and_its_requirements_are_reported(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path), "--provider", "jira")
    environ = {"JIRA_CLIENT_ID": "id", "JIRA_CLIENT_SECRET": "secret"}
    jira = load(tmp_path / "gateway.yaml", environ=environ).environments["dev"].integrations["jira"]
    assert (jira.provider, jira.client_id) == ("jira", "id")
    assert jira.scopes is not None
    assert "offline_access" in jira.scopes
    assert len(jira.scopes) > 1
    assert "https://developer.atlassian.com/console/myapps/" in result.stdout
    assert "JIRA_CLIENT_ID, JIRA_CLIENT_SECRET" in result.stdout


def test_a_provider_without_an_oauth_client_needs_no_further_keys(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path), "--provider", "openai")
    assert list(load(tmp_path / "gateway.yaml", environ={}).environments["dev"].integrations) == ["openai"]
    assert "enter their own credentials" in result.stdout


def test_an_unknown_provider_is_wrong_usage_with_the_nearest(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path / "new"), "--provider", "jria")
    assert result.exit_code == 2
    assert "--provider" in result.stderr
    assert "did you mean 'jira'?" in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_database_password_is_written_to_a_separate_file(tmp_path: Path) -> None:
    url = "postgresql://gateway:database-password@db.example.com/gateway?sslmode=verify-full"
    result = init("--dir", str(tmp_path), "--store-url", url)
    assert result.exit_code == 0
    assert "database-password" not in result.output
    assert "database-password" not in (tmp_path / "gateway.yaml").read_text()
    assert stat.S_IMODE((tmp_path / "database_url").stat().st_mode) == 0o600
    assert load(tmp_path / "gateway.yaml", environ={}).store.url == url


def test_a_reference_in_the_store_is_left_as_it_is(tmp_path: Path) -> None:
    assert init("--dir", str(tmp_path), "--store-url", "postgresql://gw:${PASSWORD}@db/gw").exit_code == 0
    assert load(tmp_path / "gateway.yaml", environ={"PASSWORD": "x"}).store.url == "postgresql://gw:x@db/gw"
    assert {path.name for path in tmp_path.iterdir()} == NAMES


@pytest.mark.parametrize("url", ["mysql://x/y", "gateway.db", "sqlite:///:memory:", "postgresql://"])
def test_invalid_store_is_a_usage_error(tmp_path: Path, url: str) -> None:
    result = init("--dir", str(tmp_path / "new"), "--store-url", url)
    assert (result.exit_code, "--store-url" in result.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


def test_host_port_and_webhook_url_are_written(tmp_path: Path) -> None:
    flags = ["--host", "0.0.0.0", "--port", "8080", "--public-url", "https://gw.example.com"]
    assert init("--dir", str(tmp_path), *flags, "--webhook-url", "https://app.example.com/hook").exit_code == 0
    loaded = load(tmp_path / "gateway.yaml", environ={})
    assert (loaded.server.host, loaded.server.port) == ("0.0.0.0", 8080)
    assert loaded.server.public_url == "https://gw.example.com"
    assert loaded.environments["dev"].webhook_url == "https://app.example.com/hook"


def test_a_gateway_that_listens_on_all_addresses_reports_a_loopback_public_url(tmp_path: Path) -> None:
    result = init("--dir", str(tmp_path), "--host", "0.0.0.0", "--port", "8080")
    assert result.exit_code == 0
    assert "server.host is 0.0.0.0" in result.stderr
    assert "server.public_url is http://127.0.0.1:8080" in result.stderr
    assert "--public-url" in result.stderr
    assert "0.0.0.0" not in result.stdout
    body = init("--dir", str(tmp_path / "b"), "--host", "0.0.0.0", "--json")
    assert len(json.loads(body.stdout)["warnings"]) == 1
    for flags in (["--host", "127.0.0.1"], ["--host", "0.0.0.0", "--public-url", "https://gw.example.com"]):
        assert "warning" not in init("--dir", str(tmp_path / flags[-1].rpartition("/")[2]), *flags).output


def test_where_the_usual_port_is_taken_the_next_free_one_is_used_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TAKEN, lambda _host, port: port in (3003, 3004))
    result = init("--dir", str(tmp_path / "a"))
    assert "port 3003 is in use, so server.port is 3005" in result.stderr
    assert "http://127.0.0.1:3005/oauth/callback" in result.stdout
    loaded = load(tmp_path / "a" / "gateway.yaml", environ={})
    assert (loaded.server.port, loaded.server.public_url) == (3005, "http://127.0.0.1:3005")
    report = json.loads(init("--dir", str(tmp_path / "b"), "--public-url", "https://gw.example.com", "--json").stdout)
    assert "3005" in report["warnings"][0]
    assert load(tmp_path / "b" / "gateway.yaml", environ={}).server.port == 3005
    monkeypatch.setattr("gateway.cli.init.is_terminal", lambda: True)
    asked = CliRunner().invoke(main, ["init", "--dir", str(tmp_path / "c")], input="\n\n\n\n")
    assert "[http://127.0.0.1:3005]" in asked.stderr


@pytest.mark.parametrize("flags", [["--port", "3003"], ["--public-url", "http://127.0.0.1:3003"]])
def test_a_port_that_was_named_and_is_taken_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr(TAKEN, lambda _host, port: port == 3003)
    result = init("--dir", str(tmp_path), *flags)
    assert "port 3003 is in use: stop the process that listens there before `gateway serve`" in result.stderr
    assert load(tmp_path / "gateway.yaml", environ={}).server.port == 3003


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_port_is_taken_while_a_socket_listens_there(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        port = listening.getsockname()[1]
        assert init_answers.is_taken(host, port)
    assert not init_answers.is_taken(host, port)
    assert not init_answers.is_taken("192.0.2.1", port), "an address of another machine says nothing"


def run_init(tmp_path: Path, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gateway", "init", "--dir", str(tmp_path / "new"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_answers_from_a_pipe_or_a_file_are_refused(tmp_path: Path) -> None:
    piped = run_init(tmp_path, input="https://gw.example.com\n\n\n\n")
    (tmp_path / "answers").write_text("https://gw.example.com\n")
    with (tmp_path / "answers").open() as file:
        redirected = run_init(tmp_path, stdin=file)
    for refused in (piped, redirected):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "not read. Pass the answers as options" in refused.stderr
        assert not (tmp_path / "new").exists()
    assert run_init(tmp_path, stdin=subprocess.DEVNULL).returncode == 0
    assert run_init(tmp_path, "--yes", "--force", input="y\n").returncode == 0


@pytest.mark.parametrize("url", ["https://0.0.0.0", "https://0.0.0.0:3003", "https://[::]", "http://0.0.0.0:3003"])
def test_listening_address_is_not_accepted_as_public_url(tmp_path: Path, url: str) -> None:
    result = init("--dir", str(tmp_path / "new"), "--public-url", url)
    assert (result.exit_code, "an address to listen on (server.host)" in result.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.init.is_terminal", lambda: True)


@pytest.mark.usefixtures("at_a_terminal")
def test_at_a_terminal_init_prompts_again_after_an_invalid_answer(tmp_path: Path) -> None:
    answers = ["http://gw.example.com", "https://gw.example.com", "", "jria", "jira", "https://app.example.com/hook"]
    result = CliRunner().invoke(
        main, ["init", "--dir", str(tmp_path)], input="".join(f"{answer}\n" for answer in answers)
    )
    assert result.exit_code == 0, result.output
    assert "must be https" in result.stderr
    assert "did you mean 'jira'?" in result.stderr
    loaded = load(tmp_path / "gateway.yaml", environ={"JIRA_CLIENT_ID": "id", "JIRA_CLIENT_SECRET": "secret"})
    assert loaded.callback_url == "https://gw.example.com/oauth/callback"
    assert loaded.store.url.startswith("sqlite:///")
    assert loaded.environments["dev"].webhook_url == "https://app.example.com/hook"
    assert list(loaded.environments["dev"].integrations) == ["jira"]


@pytest.mark.usefixtures("at_a_terminal")
def test_at_a_terminal_empty_answers_are_the_defaults(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["init", "--dir", str(tmp_path / "asked")], input="\n\n\n\n").exit_code == 0
    assert CliRunner().invoke(main, ["init", "--dir", str(tmp_path / "told"), "--yes"]).exit_code == 0
    texts = [(tmp_path / name / "gateway.yaml").read_text() for name in ("asked", "told")]
    assert texts[0] == texts[1]


@pytest.mark.usefixtures("at_a_terminal")
def test_existing_files_are_refused_before_any_question(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("mine")
    result = CliRunner().invoke(main, ["init", "--dir", str(tmp_path)], input="")
    assert (result.exit_code, "exist" in result.stderr) == (1, True)
    assert "Public URL" not in result.output
