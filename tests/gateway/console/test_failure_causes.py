"""In which order failures stand, and what they are said to mean."""

from datetime import UTC, datetime, timedelta

from gateway.console.failure_causes import failures
from gateway.records.operation import OperationKind
from gateway.records.traffic import PlaceTotal

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def failed(reason: str, calls: int, minutes: float, *, kind: OperationKind = "call", of: str = "jira") -> PlaceTotal:
    return PlaceTotal(kind, of, reason, calls, NOW - timedelta(minutes=minutes), ())


def test_what_goes_on_stands_above_what_was_often() -> None:
    places = [failed("404", 9000, 300), failed("500", 40, 30), failed("502", 1, 0.05), failed("429", 3, 5)]
    well = PlaceTotal("call", "jira", "", 10, NOW, ())
    assert [one["reason"] for one in failures([well, *places], NOW)] == ["429", "502", "500", "404"]


def test_where_the_app_is_refused_no_end_user_is_to_connect_again() -> None:
    places = [
        failed("reconnect_needed", 9, 1),
        failed("invalid_client", 1, 1, kind="refresh"),
        failed("reconnect_needed", 8, 1, of="slack"),
    ]
    ours, theirs, cause = failures(places, NOW)
    assert ours["integration"] == cause["integration"] == "jira"
    assert ours["do"] == cause["do"]
    assert theirs["do"].startswith("Open the connection")
