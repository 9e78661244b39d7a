"""docs/log-events.md has every log event of the code. `test_catalog_docs` checks that the page is up to date."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.observe.call_queue import as_line
from gateway.records.proxied_call import ExchangeRecord
from tools import log_events as events
from tools.log_events_docs import ACTIONS, meanings

ENTRIES = {name: (package, entry) for package, entries in meanings().items() for name, entry in entries.items()}


def test_every_logger_has_a_name_that_the_tool_knows() -> None:
    code = [path.read_text() for folder in ("gateway", "middleware") for path in (events.ROOT / folder).rglob("*.py")]
    made = re.findall(r"(\S+) = structlog\.get_logger\(|(?<!= )structlog\.get_logger\(", "\n".join(code))
    assert set(made) == {"log"}


def test_every_event_has_one_meaning_and_every_meaning_an_event() -> None:
    assert sum(map(len, meanings().values())) == len(ENTRIES)
    assert sorted(events.log_events()) == sorted(ENTRIES)


def test_entry_of_an_event_is_complete() -> None:
    for name, (package, entry) in ENTRIES.items():
        event = events.log_events()[name]
        assert package in event.packages, name
        kind, _, action = entry["do"].partition(": ")
        assert kind in ACTIONS, name
        assert bool(action) == (kind != "nothing"), name
        assert entry["means"].endswith("."), name
        assert "|" not in entry["means"] + action, name
        if "error" in event.levels:
            assert kind != "nothing", name


def test_fields_that_the_code_does_not_show_are_listed() -> None:
    found = events.log_events()
    assert [name for name, (_, entry) in ENTRIES.items() if ("more" in entry) != found[name].hidden] == []


def test_lines_of_calls_have_the_listed_fields() -> None:
    values = dict.fromkeys(ExchangeRecord._fields, "x") | {
        **dict.fromkeys(("status", "duration_ms", "token_ms", "upstream_ms", "bytes_in", "bytes_out", "key_id"), 1),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    }
    line = json.loads(as_line(ExchangeRecord(**values)))  # type: ignore[arg-type]
    assert sorted(line) == sorted([*ENTRIES["exchange"][1]["more"], "event", "level", "timestamp"])


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('log.info("one", a=1)', ["one"]),
        ('log.debug("one", **fields)', ["one"]),
        ('app.refusal_log.warning("one", client)', ["one"]),
        ('def report(event): log.info(event)\nreport("one")\nreport("two")', ["one", "two"]),
        ('class C:\n  def report(self, row, event): log.info(event)\n  def f(self): self.report(1, "one")', ["one"]),
        ('metrics.info("one")', []),
    ],
)
def test_events_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, names: list[str]) -> None:
    assert sorted(events_in(tmp_path, monkeypatch, code)) == sorted([*names, "exchange"])


def events_in(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> dict[str, events.LogEvent]:
    (folder / "module.py").write_text(code)
    monkeypatch.setattr(events, "ROOT", folder)
    monkeypatch.setattr(events, "packages", lambda: iter([("gateway.some", folder)]))
    return events.log_events.__wrapped__()


def test_event_without_a_literal_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"module\.py:2: write the event's name as a literal"):
        events_in(tmp_path, monkeypatch, 'name = "one"\nlog.info(name)')


def test_fields_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
def f(row):
    why = {"reason": 1, "final": 2}
    log.warning("one", **log_fields(row), **why, exc_info=row)
    log.error("one", detail=1)
"""
    event = events_in(tmp_path, monkeypatch, code)["one"]
    assert list(event.levels) == ["warning", "error"]
    assert list(event.fields) == [
        "environment",
        "integration",
        "connection_id",
        "reason",
        "final",
        "exception",
        "detail",
    ]
    assert not event.hidden
