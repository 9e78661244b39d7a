from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.refresh.schedule import refresh_from, requests_wait_from, seconds_left
from tests.fakes.providers import provider

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HELD = Connection(
    ref=ConnectionRef("dev", "tracker", "c"),
    id=1,
    uid="u",
    provider="tracker",
    version=1,
    credential=Sealed(b"", "dev", "connections", "u", "credential", 1),
    expires_at=None,
    created_at=NOW - timedelta(days=30),
    updated_at=NOW,
    last_refreshed_at=NOW,
)


def seconds_before_expiry(lifetime_s: float, uid: str = "u", **entry: object) -> float:
    """Return how many seconds before the token's expiry the refresh begins."""
    connection = replace(HELD, uid=uid, expires_at=NOW + timedelta(seconds=lifetime_s))
    due = refresh_from(connection, provider(**entry))
    assert due is not None
    assert connection.expires_at is not None
    return (connection.expires_at - due).total_seconds()


@given(st.floats(0.001, 1e8), st.text(max_size=8))
def test_refresh_window_is_a_tenth_of_the_lifetime_between_2_s_and_5_minutes_with_jitter(
    lifetime: float, uid: str
) -> None:
    most = min(300, max(2, lifetime / 10), lifetime / 2)
    assert 0.8 * most - 1e-4 <= seconds_before_expiry(lifetime, uid) <= most + 1e-4


@given(st.floats(3, 1e8), st.text(max_size=8))
def test_call_waits_for_the_refresh_in_the_last_second(lifetime: float, uid: str) -> None:
    connection = replace(HELD, uid=uid, expires_at=NOW + timedelta(seconds=lifetime))
    last = requests_wait_from(connection, provider())
    assert last is not None
    assert connection.expires_at is not None
    assert connection.expires_at - last >= min(timedelta(seconds=1), timedelta(seconds=lifetime * 0.3 - 1e-4))
    assert last - NOW >= timedelta(seconds=lifetime / 2)


@given(st.floats(1, 1e6), st.integers(1, 10**6))
def test_token_expiration_buffer_overrides_the_window_up_to_half_the_lifetime(lifetime: float, buffer_s: int) -> None:
    most = min(buffer_s, lifetime / 2)
    assert 0.8 * most - 1e-4 <= seconds_before_expiry(lifetime, token_expiration_buffer=buffer_s) <= most + 1e-4


def test_connections_are_refreshed_at_different_times() -> None:
    assert len({seconds_before_expiry(3600, f"uid-{n}") for n in range(50)}) == 50


def test_token_without_expiry_has_no_window() -> None:
    assert refresh_from(HELD, provider()) is None
    assert requests_wait_from(HELD, provider()) is None
    assert seconds_left(HELD, provider(), NOW, max_s=60) == 60


@given(st.floats(0.001, 1e8), st.text(max_size=8))
def test_calls_wait_at_most_in_the_last_second_of_the_refresh_window(lifetime: float, uid: str) -> None:
    connection = replace(HELD, uid=uid, expires_at=NOW + timedelta(seconds=lifetime))
    last, due = requests_wait_from(connection, provider()), refresh_from(connection, provider())
    assert last is not None
    assert due is not None
    assert connection.expires_at is not None
    assert due <= last <= connection.expires_at
    assert connection.expires_at - last <= timedelta(seconds=1.1)


def test_credential_is_checked_at_each_phase() -> None:
    connection = replace(HELD, expires_at=NOW + timedelta(seconds=3600))

    def seconds_left_at(at_s: float) -> float:
        return seconds_left(connection, provider(), NOW + timedelta(seconds=at_s), max_s=60)

    assert seconds_left_at(0) == 3600 - seconds_before_expiry(3600)
    assert seconds_left_at(3600 - 200) == 198.9
    assert seconds_left_at(3600 - 0.5) == 0.5
    assert seconds_left_at(3600) == seconds_left_at(3700) == 0
