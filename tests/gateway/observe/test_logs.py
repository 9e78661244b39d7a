"""Every log record is written to stderr as one line without secrets, whichever logger wrote it."""

import errno
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.observe import logs
from gateway.observe.logs import PIPE_BUF
from gateway.secret import Secret
from tests.fakes.processes import ROOT

MARKER = "s3cr3t-marker"


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator["LoggedLines"]:
    yield LoggedLines(capsys)
    logs.BatchOutput.out = None
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(handler)


class LoggedLines:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self) -> str:
        shown = self._capsys.readouterr()
        assert shown.out == ""
        return shown.err

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


def test_a_line_is_one_json_object_with_level_and_time(lines: LoggedLines) -> None:
    logs.setup(terminal=False)
    structlog.get_logger().info("ready", address="http://127.0.0.1:1")
    (line,) = lines.json()
    assert line["event"] == "ready"
    assert line["level"] == "info"
    assert line["timestamp"].endswith("+00:00")
    assert line["address"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "Proxy-Authorization",
        "access_token",
        "refresh_token",
        "token",
        "client_secret",
        "password",
        "code",
        "state",
        "code_verifier",
        "cookie",
        "Set-Cookie",
        "api_key",
        "apiKey",
        "credentials",
        "encryption_key",
    ],
)
def test_a_value_that_is_named_like_a_secret_is_masked(lines: LoggedLines, name: str) -> None:
    logs.setup(terminal=False)
    structlog.get_logger().warning("seen", **{name: MARKER})
    structlog.get_logger().warning("inside", headers={name: MARKER, "list": [{name: MARKER}]})
    text = lines.text()
    assert MARKER not in text
    assert text.count("***") == 3


@pytest.mark.parametrize(
    "name", ["status", "error", "error_code", "exit_code", "states", "provider_config_key", "token_endpoint"]
)
def test_other_name_is_not_masked(lines: LoggedLines, name: str) -> None:
    logs.setup(terminal=False)
    structlog.get_logger().info("seen", **{name: "plain"})
    assert lines.json()[0][name] == "plain"


def test_a_secret_hides_itself_under_any_name(lines: LoggedLines) -> None:
    logs.setup(terminal=False)
    structlog.get_logger().info("seen", thing=Secret(MARKER), deep={"a": [Secret(MARKER)]})
    assert MARKER not in lines.text()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        f"cannot use Bearer {MARKER}",
        f"cannot use 'Basic {MARKER}'",
        f"GET https://api.example.com/x?api_key={MARKER}&y=1 failed",
        f"GET https://user:{MARKER}@api.example.com/ failed",
        f"client_secret={MARKER}&grant_type=x",
        f"{{'access_token': '{MARKER}'}}",
        f'{{"refresh_token": "{MARKER}"}}',
        f"code={MARKER}",
    ],
)
def test_exception_shows_places_and_no_values(lines: LoggedLines, terminal: bool, text: str) -> None:
    logs.setup(terminal=terminal)
    local = MARKER  # local variables must not be shown either
    try:
        raise ValueError(text)
    except ValueError:
        structlog.get_logger().exception("unhandled", length=len(local))
    logged = lines.text()
    assert MARKER not in logged
    assert "ValueError" in logged
    assert "test_logs.py" in logged


def test_other_libraries_log_in_the_same_format_and_verbose_ones_only_warnings(lines: LoggedLines) -> None:
    logs.setup("debug", terminal=False)
    logging.getLogger("aiohttp.server").error("Error handling Bearer %s", MARKER)
    logging.getLogger("sqlalchemy.engine.Engine").info("INSERT %s", MARKER)
    logging.getLogger("aiosqlite").debug("executing %s", MARKER)
    logging.getLogger("watchfiles.main").info("1 change detected")
    logging.getLogger("aiohttp.access").info("GET /?token=%s", MARKER)
    (line,) = lines.json()
    assert (line["event"], line["logger"], line["level"]) == ("Error handling Bearer ***", "aiohttp.server", "error")


@pytest.mark.parametrize(
    ("value", "expected"), [("error", 1), ("WARNING", 2), ("info", 3), ("debug", 4), ("nonsense", 3)]
)
def test_the_level_comes_from_the_environment(
    lines: LoggedLines, monkeypatch: pytest.MonkeyPatch, value: str, expected: int
) -> None:
    monkeypatch.setenv(logs.LEVEL_VARIABLE, value)
    logs.setup(terminal=False)
    log = structlog.get_logger()
    for method in (log.debug, log.info, log.warning, log.error):
        method("said")
    assert len(lines.json()) == expected


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_written_together_have_the_format_of_single_lines(lines: LoggedLines, terminal: bool) -> None:
    logs.setup(terminal=terminal)
    logs.write_events([{"event": "exchange", "level": "info", "timestamp": "t", "status": n} for n in (200, 404)])
    text = lines.text().splitlines()
    assert len(text) == 2
    assert "404" in text[1]


def test_each_write_of_many_lines_fits_into_one_atomic_pipe_write(monkeypatch: pytest.MonkeyPatch) -> None:
    class RecordingOutput(io.StringIO):
        def write(self, text: str) -> int:
            pieces.append(text)
            return len(text)

    pieces: list[str] = []
    monkeypatch.setattr(logs.BatchOutput, "out", RecordingOutput())
    monkeypatch.setattr(logs.BatchOutput, "readable", False)
    logs.write_events([{"event": "exchange", "path": "/ä" * (n % 700)} for n in range(500)])
    assert len(pieces) < 250
    assert max(len(piece.encode()) for piece in pieces) <= PIPE_BUF
    assert all(piece.endswith("}\n") for piece in pieces)
    assert len("".join(pieces).splitlines()) == 500


def test_many_lines_are_not_written_above_their_level_or_in_a_host(lines: LoggedLines) -> None:
    logs.write_events([{"event": "before setup"}])
    logs.setup("warning", terminal=False)
    logs.write_events([{"event": "exchange"}])
    assert lines.text() == ""


def test_in_a_host_application_lines_go_to_its_loggers(lines: LoggedLines, caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    logs.setup_in_host()
    local = MARKER
    with caplog.at_level(logging.INFO, "gateway.x"):
        log = structlog.get_logger("gateway.x")
        log.debug("unheard")
        log.info("seen", token=local, status=200)
        try:
            raise ValueError(f"Bearer {local}")
        except ValueError:
            log.exception("unhandled")
    assert [record.name for record in caplog.records] == ["gateway.x"] * 2
    assert "status=200" in caplog.text
    assert "ValueError" in caplog.text
    assert MARKER not in caplog.text
    assert lines.text() == ""


def test_structlog_configuration_of_a_host_is_kept(lines: LoggedLines) -> None:
    mine = [structlog.processors.JSONRenderer()]
    structlog.configure(processors=mine)
    logs.setup_in_host()
    assert structlog.get_config()["processors"] == mine


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("terminal", [True, False])
def test_closed_stderr_does_not_raise(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", buffering=1) as err:
        monkeypatch.setattr("sys.stderr", err)
        logs.setup(terminal=terminal)
        structlog.get_logger("a").info("before")
        assert b"before" in os.read(reading, 4096)
        os.close(reading)
        for _ in range(2):
            structlog.get_logger("b").info("after")
            logs.write_events([{"event": "exchange"}])
            logging.getLogger("other").warning("after")
        err.flush()  # as Python does at exit


@pytest.mark.usefixtures("lines")
def test_full_disk_loses_only_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    err = FullDisk()
    monkeypatch.setattr("sys.stderr", err)
    logs.setup(terminal=False)
    structlog.get_logger("c").info("lost")
    err.full = False
    structlog.get_logger("c").info("kept")
    assert [json.loads(line)["event"] for line in err.getvalue().splitlines()] == ["kept"]


FULL_DISK = """
import resource, sys, structlog
from gateway.observe import logs
logs.setup(terminal=False)
log = structlog.get_logger("full")
log.info("first")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (120, hard))  # the disk is full in the middle of the second line
log.info("second")
log.info("lost")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
logs.write_lines(['{"event": "third"}'])
log.info("fourth")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_line_that_a_full_disk_cuts_does_not_spoil_the_next(tmp_path: Path, unbuffered: str) -> None:
    output = tmp_path / "log"
    with output.open("wb") as file:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        subprocess.run([sys.executable, "-c", FULL_DISK], stderr=file, check=True, cwd=ROOT, env=environment)
    first, second, *others = output.read_text().splitlines()
    assert json.loads(first)["event"] == "first"
    assert second == '{"event": "second", "level": "info", "timestamp"'[: len(second)]
    assert [json.loads(line)["event"] for line in others] == ["third", "fourth"]
