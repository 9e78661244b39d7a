"""The order of failures, and the causes shown for them."""

from datetime import UTC, datetime, timedelta

from gateway.console.failure_causes import cause_of, client_refusal, failures
from gateway.records.operation import OperationKind
from gateway.records.traffic import PlaceTotal

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def failure_total(
    reason: str, calls: int, minutes: float, *, kind: OperationKind = "call", integration: str = "jira"
) -> PlaceTotal:
    return PlaceTotal(kind, integration, reason, calls, NOW - timedelta(minutes=minutes), ())


def test_ongoing_failure_is_listed_before_a_frequent_one() -> None:
    places = [
        failure_total("404", 9000, 300),
        failure_total("500", 40, 30),
        failure_total("502", 1, 0.05),
        failure_total("429", 3, 5),
    ]
    well = PlaceTotal("call", "jira", "", 10, NOW, ())
    assert [failure["reason"] for failure in failures([well, *places], NOW)] == ["429", "502", "500", "404"]


def test_refused_app_does_not_advise_end_users_to_reconnect() -> None:
    places = [
        failure_total("reconnect_needed", 9, 1),
        failure_total("invalid_client", 1, 1, kind="refresh"),
        failure_total("reconnect_needed", 8, 1, integration="slack"),
    ]
    ours, theirs, cause = failures(places, NOW)
    assert ours["integration"] == cause["integration"] == "jira"
    assert ours["do"] == cause["do"]
    assert theirs["do"].startswith("Open the connection")


def test_refused_app_is_resolved_after_a_successful_refresh() -> None:
    refused = [
        failure_total("reconnect_needed", 9, 4.5),
        failure_total("token_request_failed", 2, 4, kind="authorization"),
        failure_total("invalid_client", 3, 5, kind="refresh"),
    ]
    before, since = (failure_total("", 40, minutes, kind="refresh") for minutes in (5.5, 2))
    for places in (
        refused,
        [*refused, before],
        [*refused, failure_total("", 1, 1, kind="refresh", integration="slack")],
    ):
        assert client_refusal(places, NOW) is not None
        assert {failure["goes_on"] for failure in failures(places, NOW)} == {True}
        assert {failure["why"] for failure in failures(places, NOW)} == {client_refusal(places, NOW)[0]}  # type: ignore[index]
    other = failure_total("500", 1, 3)
    shown = failures([*refused, since, other], NOW)
    assert client_refusal([*refused, since], NOW) is None
    assert [item["reason"] for item in shown] == ["500", "reconnect_needed", "invalid_client", "token_request_failed"]
    assert [item["goes_on"] for item in shown] == [True, False, False, False]
    assert {item["do"].partition(". ")[0] for item in shown[1:]} == {"Resolved: the provider accepts the app again"}
    late = [
        failure_total("reconnect_needed", 17, 0.1),
        failure_total("token_request_failed", 1, 0.1, kind="authorization"),
    ]
    assert [failure["why"] for failure in failures([refused[2], since, *late], NOW) if failure["goes_on"]] == [
        cause_of("call", "reconnect_needed").why,
        cause_of("authorization", "token_request_failed").why,
    ], "these came after the app had been accepted again, so they have another cause"
    accepted = failure_total("", 1, 2, kind="authorization")
    assert client_refusal([*refused, accepted], NOW) is None, "an exchange of a code is an acceptance, too"


def test_successful_code_exchange_resolves_earlier_refusals() -> None:
    places = [
        failure_total("authorization_refused", 9, 5, kind="authorization"),
        failure_total("token_request_failed", 3, 4, kind="authorization"),
        failure_total("token_request_failed", 1, 1, kind="authorization", integration="slack"),
        failure_total("", 1, 2, kind="authorization"),
        failure_total("", 1, 2, kind="authorization", integration="slack"),
    ]
    assert [(failure["integration"], failure["reason"], failure["goes_on"]) for failure in failures(places, NOW)] == [
        ("jira", "authorization_refused", True),
        ("slack", "token_request_failed", True),
        ("jira", "token_request_failed", False),
    ]


def test_recovered_database_resolves_its_earlier_failures() -> None:
    places = [failure_total("store_unavailable", 42, 1)]
    assert [failure["goes_on"] for failure in failures(places, NOW)] == [True]
    assert [failure["goes_on"] for failure in failures(places, NOW, store_healthy=True)] == [False]
    assert [
        failure["goes_on"]
        for failure in failures([failure_total("store_unavailable", 1, 0.1)], NOW, store_healthy=True)
    ] == [True]
