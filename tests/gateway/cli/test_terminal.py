"""Progress on stderr of a command whose output is not a terminal."""

import pytest

from gateway.cli import terminal


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_progress_in_a_pipe_is_a_line_now_and_then_and_a_last_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, 5.5, 6.0, 7.0])
    monkeypatch.setattr("gateway.cli.terminal.time.monotonic", lambda: next(times))
    with terminal.progress("importing") as step:
        for done in (250, 1000, 1250, 1500):
            step(done, 1500)
    assert lines_of(capsys) == ["importing: 1,000 of 1,500", "importing: 1,500 of 1,500"]


def test_short_work_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("importing") as step:
        step(10, 10)
    assert lines_of(capsys) == []
