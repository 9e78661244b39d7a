"""A connect session makes a limited number of attempts without success."""

from datetime import UTC, datetime

import pytest

from gateway.authorization import open_authorizations
from gateway.authorization.open_authorizations import ATTEMPTS_WINDOW_S, OpenAuthorizations
from gateway.errors import TooManyRequests
from gateway.records.connecting import ConnectSession
from tests.fakes.clock import Clock


def session(digest: str) -> ConnectSession:
    return ConnectSession(digest=digest, environment="dev", expires_at=datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.usefixtures("clock")
def test_authorizations_that_succeed_and_other_sessions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 2)
    authorizations = OpenAuthorizations()
    for _ in range(3):
        authorizations.add(session("a"))
        authorizations.succeed("a")
    authorizations.add(session("a"))
    authorizations.add(session("a"))
    with pytest.raises(TooManyRequests) as refused:
        authorizations.add(session("a"))
    assert refused.value.payload is not None
    assert refused.value.payload["limit"] == 2
    authorizations.add(session("b"))


def test_the_limit_restarts_with_the_window(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 1)
    authorizations = OpenAuthorizations()
    authorizations.add(session("a"))
    with pytest.raises(TooManyRequests):
        authorizations.add(session("a"))
    clock.ahead_s += ATTEMPTS_WINDOW_S
    authorizations.add(session("a"))
    with pytest.raises(TooManyRequests):
        authorizations.add(session("a"))
