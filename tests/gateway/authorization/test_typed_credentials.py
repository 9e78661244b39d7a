"""The external ID with which the gateway assumes an end user's AWS role."""

from datetime import UTC, datetime
from typing import Any

from gateway.authorization.typed_credentials import external_id
from gateway.records.connecting import ConnectSession
from gateway.records.connection import EndUser
from gateway.records.integration import Integration

AWS = Integration(environment="dev", integration_id="aws", provider="aws")


def id_of(digest: str = "d1", **session: Any) -> str:
    expires_at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    return external_id(ConnectSession(digest=digest, environment="dev", expires_at=expires_at, **session), AWS)


def test_an_end_user_has_the_same_external_id_in_every_session() -> None:
    assert id_of("d1", end_user=EndUser("u1")) == id_of("d2", end_user=EndUser("u1"), connection_id="c1")
    assert id_of(end_user=EndUser("u1")) != id_of(end_user=EndUser("u2"))
    assert id_of("d1", tags={"team": "a", "plan": "b"}) == id_of("d2", tags={"plan": "b", "team": "a"})


def test_sessions_without_an_end_user_have_different_external_ids() -> None:
    assert id_of("d1", connection_id="c1") == id_of("d2", connection_id="c1")
    assert len({id_of("d1"), id_of("d2"), id_of("d1", connection_id="c1"), id_of("d1", connection_id="c2")}) == 4
