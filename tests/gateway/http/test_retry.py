"""The retry rules: which requests may be retried, and when."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.retry import (
    ALL_WAITS_S,
    MAX_RETRIES,
    MAX_WAIT_S,
    RetryRules,
    may_send_again,
    parse_statuses,
    seconds_until,
    seconds_until_point,
    wait_s,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_idempotent_request_may_be_repeated_while_its_body_is_buffered(method: str) -> None:
    assert may_send_again(method, has_key=False, body_kept=True, sent=True)
    assert not may_send_again(method, has_key=True, body_kept=False, sent=False)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PROPFIND", "get", ""])
def test_other_request_may_be_repeated_only_with_a_key_or_if_no_byte_was_sent(method: str) -> None:
    assert not may_send_again(method, has_key=False, body_kept=True, sent=True)
    assert may_send_again(method, has_key=True, body_kept=True, sent=True)
    assert may_send_again(method, has_key=False, body_kept=True, sent=False)


@given(st.text(), st.booleans(), st.booleans(), st.booleans())
def test_request_whose_body_was_not_kept_is_never_repeated(method: str, keyed: bool, kept: bool, sent: bool) -> None:
    assert kept or not may_send_again(method, has_key=keyed, body_kept=kept, sent=sent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("429", range(429, 430)), ("5xx", range(500, 600)), ("5XX", range(500, 600)), ("500-502", range(500, 503))]
    + [(text, None) for text in ("", "42", "0xx", "500-", "x", "5000")],
)
def test_statuses_are_a_number_a_class_or_a_range(text: str, expected: range | None) -> None:
    assert parse_statuses(text) == expected


def test_statuses_of_the_entry_replace_the_default_and_those_of_the_caller_are_added() -> None:
    usual, entry = RetryRules.of(), RetryRules.of(error_code=["502-504"], retry_on=[409])
    assert [status for status in range(100, 600) if usual.asks_for_retry(status, [])] == [429, *range(500, 600)]
    assert [status for status in range(100, 600) if entry.asks_for_retry(status, [])] == [409, 502, 503, 504]


def test_a_response_that_reports_a_used_up_quota_is_retried_with_any_error_status() -> None:
    rules = RetryRules.of(remaining="X-RateLimit-Remaining")
    assert rules.asks_for_retry(403, [("x-ratelimit-remaining", "0")])
    assert not rules.asks_for_retry(403, [("x-ratelimit-remaining", "10")])
    assert not rules.asks_for_retry(200, [("x-ratelimit-remaining", "0")])


@pytest.mark.parametrize("text", ["90", "90.0", format_datetime(LATER, usegmt=True), "Friday, 20-Nov-26 12:01:30 GMT"])
@pytest.mark.parametrize("status", [429, 502])
def test_retry_after_counts_as_seconds_and_as_a_date(text: str, status: int) -> None:
    assert RetryRules().requested_wait_s(status, [("RETRY-AFTER", text)], NOW) == 90


@pytest.mark.parametrize("text", ["", "-1", "soon", "1e3", "6m0s", "Fri, 99 Nov 2026", "9" * 400])
def test_invalid_retry_after_is_ignored(text: str) -> None:
    assert RetryRules().requested_wait_s(503, [("Retry-After", text)], NOW) is None


def test_longest_requested_wait_is_used() -> None:
    rules = RetryRules.of(after=["x-after"], at="X-Reset")
    reset = str(int(LATER.timestamp()))
    assert rules.requested_wait_s(429, [("Retry-After", "1"), ("X-After", "7"), ("x-reset", reset)], NOW) == 90
    assert rules.requested_wait_s(429, [("Retry-After", "1"), ("X-After", "7")], NOW) == 7


def test_quota_reset_is_ignored_for_a_502() -> None:
    rules = RetryRules.of(at="x-reset", remaining="x-left")
    lines = [("x-reset", str(int(LATER.timestamp()))), ("x-left", "57")]
    assert rules.requested_wait_s(502, lines, NOW) is None
    assert rules.requested_wait_s(502, [lines[0], ("x-left", "0")], NOW) == 90


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (str(int(LATER.timestamp())), 90),
        (str(int(LATER.timestamp() * 1000)), 90),
        ("2026-11-20T12:01:30Z", 90),
        ("2026-11-20T12:01:30", 90),
        (format_datetime(LATER, usegmt=True), 90),
        (str(int(NOW.timestamp()) - 5), None),
        ("yesterday", None),
    ],
)
def test_a_point_in_time_is_epoch_seconds_milliseconds_or_a_date(text: str, expected: float | None) -> None:
    assert seconds_until_point(text, NOW) == expected


@given(st.text(max_size=80))
def test_any_text_gives_no_exception_and_no_negative_wait(text: str) -> None:
    for reported in (seconds_until(text, NOW), seconds_until_point(text, NOW)):
        assert reported is None or reported >= 0


@given(st.none() | st.floats(0, 1e6), st.integers(1, MAX_RETRIES), st.floats(0, 1), st.floats(0, ALL_WAITS_S))
def test_every_wait_is_bounded_and_never_shorter_than_requested(
    asked_s: float | None, retry: int, chance: float, waited: float
) -> None:
    wait = wait_s(asked_s, retry, chance, waited_s=waited)
    if wait is None:
        assert (asked_s or 0) > MAX_WAIT_S or waited > 0 or retry > 1
        return
    assert 0.0 <= wait <= ALL_WAITS_S - waited
    if asked_s is not None:
        assert asked_s <= wait <= asked_s * 1.1 + 1e-9
    else:
        assert wait <= min(MAX_WAIT_S, 0.5 * 2 ** (retry - 1))
