"""The limits of a key as JSON, and when a key is no longer valid."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.records.access import KeyLimits, MintedKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_limits_are_shown_with_the_size_of_snapshots() -> None:
    limits = KeyLimits(
        integrations=("jira",), rules=("operations jira read",), operations={"operations jira read": "7:AA"}
    )
    assert limits.as_json() == {
        "integrations": ["jira"],
        "rules": ["operations jira read"],
        "operations": {"operations jira read": 7},
    }
    assert KeyLimits().as_json() == {}


def test_limits_restrict_resources_or_requests() -> None:
    assert KeyLimits(tags={"team": "a"}).limits_resources
    assert not KeyLimits(tags={"team": "a"}).limits_requests
    assert KeyLimits(hosts=("api.example.com",)).limits_requests
    assert not KeyLimits().limits_resources


def test_a_key_is_alive_until_it_is_revoked_or_expires() -> None:
    key = MintedKey(
        digest="d",
        environment="dev",
        kind="key",
        name="k",
        last_four="abcd",
        scopes=(),
        created_by="x",
        id=1,
        created_at=NOW,
    )
    assert key.is_valid(NOW + timedelta(days=3650))
    ending = replace(key, expires_at=NOW)
    assert ending.is_valid(NOW - timedelta(seconds=1))
    assert not ending.is_valid(NOW)
    assert not replace(key, revoked_at=NOW).is_valid(NOW)
