"""The `gateway` command itself: its list of commands, fast help, and usage errors."""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gateway.cli import COMMANDS, main
from gateway.cli.catalog import COMMANDS as CATALOG_COMMANDS
from tests.fakes.patience import PATIENCE_S
from tests.gateway.cli.command import run_command

ROOT = Path(__file__).parents[3]

HEAVY = ("aiohttp", "pydantic", "sqlalchemy", "rich", "yaml", "cryptography", "asyncio")


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gateway.cli import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print('heavy:', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in COMMANDS:
        assert f"  {name} " in run.stdout
    assert run.stdout.endswith("heavy: []\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_under_the_output_is_reported_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "gateway", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 1
    assert run.stderr == (
        "gateway: the output cannot be written: No space left on device. Redirect the output to another place.\n"
    )


@pytest.mark.parametrize("start", ["-m gateway", "-c import~gateway.__main__;gateway.__main__.main()"])
def test_ctrl_c_while_modules_are_imported_prints_nothing(tmp_path: Path, start: str) -> None:
    """A traceback of Python's import is no use to an operator."""
    (tmp_path / "click.py").write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    process = subprocess.Popen(
        [sys.executable, *(word.replace("~", " ") for word in start.split(" "))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (-signal.SIGINT, "")


@pytest.mark.parametrize("entry", [*COMMANDS.values(), *CATALOG_COMMANDS.values()], ids=lambda entry: entry.location)
def test_every_listed_command_exists_and_has_json(entry: tuple[str, str]) -> None:
    module, _, attribute = entry[0].partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options or isinstance(command, click.Group)


def test_misspelt_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(main, ["chek"])
    assert result.exit_code == 2
    assert "No such command 'chek'; did you mean 'check'?" in result.stderr


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("keys list --jsn --json", "No such option '--jsn'"),
        ("keys create --json", "Missing argument 'NAME'."),
        ("keys list --json --limit 0", "Invalid value for '--limit': 0 is not in the range 1<=x<=10000."),
        ("incident --json", "Give --integration, --key or both."),
        ("keys lst --json", "No such command 'lst'; did you mean 'list'?"),
        ("--json check", "No such option '--json'"),
    ],
)
def test_wrong_usage_is_also_json(arguments: str, message: str) -> None:
    result = CliRunner().invoke(main, arguments.split(" "))
    assert result.exit_code == 2
    assert message in result.stderr
    fault = json.loads(result.stdout)
    assert not fault["ok"]
    assert [message in item["message"] for item in fault["faults"]] == [True]


@pytest.mark.parametrize("arguments", ["keys list --jsn", "try --jsn -- --json"])
def test_wrong_usage_without_json_prints_none(arguments: str) -> None:
    result = CliRunner().invoke(main, arguments.split(" "))
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_version_is_that_of_the_distribution() -> None:
    run = subprocess.run([sys.executable, "-m", "gateway", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("gateway, version ")


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_configuration_at_fault_is_reported_line_by_line_without_a_traceback(
    command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("faulty") / "gateway.yaml"
    file.write_text("server: {prot: 1}\nlive: {ttl_s: never}\n")
    result = run_command(command, "-c", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.split("\n")[0] == f"{file}:1: server.prot: is not a known key; did you mean 'port'?"
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.parametrize("command", ["serve", "check"])
def test_without_a_configuration_a_command_says_how_to_get_one(
    command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    result = run_command(command, folder=tmp_path_factory.mktemp("empty"))
    assert result.exit_code == 1
    assert result.stderr.startswith("gateway.yaml: there is no such file; `gateway init` writes one")
