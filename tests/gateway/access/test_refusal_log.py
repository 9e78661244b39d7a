"""Refusals that anybody can cause are logged a few times a minute for each client, then once more."""

import pytest
from structlog.testing import capture_logs

from gateway.access.client_window import MOST_CLIENTS, MOST_LINES, WINDOW_S, RefusalLog
from tests.fakes.clock import Clock

LATE = "192.0.2.1"


def lines(refusals: RefusalLog, times: int, client: str, subject: str = "") -> list[str]:
    with capture_logs() as logged:
        for _ in range(times):
            refusals.info("refused", client, subject, reason="no signature")
    return [line["event"] for line in logged]


def test_each_client_and_subject_has_its_lines_and_one_that_says_so(clock: Clock) -> None:
    refusals = RefusalLog()
    full = [*["refused"] * MOST_LINES, "refusals_not_logged"]
    assert lines(refusals, 50, LATE, "dev/a") == full
    assert lines(refusals, 50, LATE, "dev/b") == full
    assert lines(refusals, 50, "2001:db8::1") == full
    assert lines(refusals, 1, "2001:db8::2") == [], "one /64 is one client"
    clock.ahead_s += WINDOW_S
    assert lines(refusals, 1, LATE, "dev/a") == ["refused"]


@pytest.mark.usefixtures("clock")
def test_the_table_is_bounded_and_clients_beyond_count_together() -> None:
    refusals = RefusalLog()
    with capture_logs():
        for number in range(MOST_CLIENTS):
            refusals.info("refused", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    found = [line for number in range(50) for line in lines(refusals, 1, f"192.0.2.{number}")]
    assert found == [*["refused"] * MOST_LINES, "refusals_not_logged"]
