"""Options that several commands share: the configuration file, and ids of rows."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway import resources
from gateway.cli import main
from gateway.cli.demo.demo_folder import DemoFolder

HINT = "add -c .gateway/gateway.yaml"


def run_command(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def after_a_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a demo was run, which also contains the reference gateway.yaml, as a checkout does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GATEWAY_ENCRYPTION_KEY", raising=False)
    folder = DemoFolder(tmp_path / ".gateway")
    with folder.lock():
        folder.point_catalog_at("http://127.0.0.1:3004")
    assert (
        run_command("keys", "create", "first", "-c", str(folder.configuration)).exit_code == 0
    )  # creates the store, as the demo's gateway does
    (tmp_path / "gateway.yaml").symlink_to(resources.file("gateway.yaml"))
    return tmp_path


@pytest.mark.parametrize("arguments", [("check",), ("connections", "list"), ("keys", "list"), ("events", "list")])
def test_hint_names_the_configuration_of_a_demo_in_this_folder(after_a_demo: Path, arguments: tuple[str, ...]) -> None:
    assert run_command(*arguments).stderr.count(HINT) == 1
    (after_a_demo / "gateway.yaml").unlink()
    assert "gateway.yaml does not exist" in run_command(*arguments).stderr
    with_option = run_command(*arguments, "-c", ".gateway/gateway.yaml")
    assert (with_option.exit_code, HINT in with_option.output) == (0, False)


def test_own_configuration_gets_no_hint_at_the_demo(after_a_demo: Path) -> None:
    file = after_a_demo / "gateway.yaml"
    file.unlink()
    shutil.copy(resources.file("gateway.yaml"), file)
    assert HINT not in run_command("check").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("logs", "--cursor"),
        ("logs", "--key"),
        ("events", "list", "--cursor"),
        ("audit", "show", "--cursor"),
        ("audit", "show", "--key"),
        ("audit", "export", "--after"),
        ("audit", "uses", "--key"),
        ("incident", "--key"),
    ],
)
@pytest.mark.parametrize("number", ["99999999999999999999", "-1", "1.5", "x"])
def test_an_id_that_no_row_can_have_is_a_usage_error(arguments: tuple[str, ...], number: str) -> None:
    result = run_command(*arguments, number)
    assert result.exit_code == 2
    assert f"'{number}' must be a whole number, " in result.stderr
    assert "or more, of at most 18 digits" in result.stderr


def test_no_demo_means_no_hint(after_a_demo: Path) -> None:
    shutil.rmtree(after_a_demo / ".gateway")
    assert "demo" not in run_command("check").stderr


@pytest.mark.parametrize("arguments", [("check",), ("doctor",), ("keys", "list")])
def test_configuration_that_cannot_even_be_looked_up_is_a_fault(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run_command(
        *arguments, "-c", str(tmp_path / ("x" * 300))
    )  # the name is too long; a closed folder has the same effect
    assert isinstance(done.exception, SystemExit)
    assert (done.exit_code, "cannot be read: File name too long" in done.output) == (1, True)
