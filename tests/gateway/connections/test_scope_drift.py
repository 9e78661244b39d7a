"""Granted and needed scopes: what token responses contain, and which scopes count as missing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.catalog.provider import Provider
from gateway.connections.scope_drift import ScopeDrift, scope_drift
from gateway.records.connection import RefusedScopes

ENTRY: dict[str, Any] = {
    "name": "tracker",
    "display_name": "Tracker",
    "categories": ["other"],
    "docs": "https://docs.example.com",
    "auth_mode": "OAUTH2",
    "authorization_url": "https://auth.example.com/authorize",
    "token_url": "https://auth.example.com/token",
    "default_scopes": ["read", "write", "offline_access"],
    "proxy": {"base_url": "https://api.example.com"},
}
PROVIDER = Provider.model_validate(ENTRY)


def drift_of(raw: Any, *needed: str) -> ScopeDrift:
    return scope_drift({"raw": raw}, PROVIDER, None, needed or None)


@pytest.mark.parametrize(
    ("raw", "granted"),
    [
        ({"scope": "read write"}, ("read", "write")),
        ({"scope": "read,write"}, ("read", "write")),
        ({"scope": ["read", "write"]}, ("read", "write")),
        ({"scopes": ["read"]}, ("read",)),
        ({"scope": ""}, None),
        ({"scope": None}, None),
        ({"scope": [1]}, None),
        ({}, None),
        ("text", None),
    ],
)
def test_granted_scopes_are_read_from_the_token_response(raw: Any, granted: tuple[str, ...] | None) -> None:
    assert drift_of(raw).granted == granted


def test_no_scope_is_missing_if_the_response_names_none() -> None:
    assert (drift_of({}).missing, scope_drift(None, PROVIDER, None).missing) == ((), ())


def test_needed_scope_that_was_not_granted_is_missing() -> None:
    assert drift_of({"scope": "read"}).missing == ("write",)
    assert drift_of({"scope": "read write admin"}).missing == ()
    assert drift_of({"scope": "read"}, "read", "admin").missing == ("admin",)


def test_short_name_and_url_of_a_scope_are_the_same_scope() -> None:
    graph = "https://graph.microsoft.com/Mail.Read"
    assert drift_of({"scope": graph}, "mail.read", "openid").missing == ()
    assert drift_of({"scope": "Mail.Read"}, graph, "https://graph.microsoft.com/.default").missing == ()
    assert drift_of({"scope": graph}, "Mail.ReadWrite", "Read").missing == ("Mail.ReadWrite", "Read")


def test_union_has_the_needed_and_the_known_granted_scopes() -> None:
    requested = ("read", "write", "offline_access")
    assert drift_of({"scope": "read admin identify"}).union(("read", "admin")) == (*requested, "admin")
    assert drift_of({"scope": "read admin"}).union() == requested


def drift_after_refusal(raw: Any, *scopes: str, provider: Provider = PROVIDER) -> ScopeDrift:
    return scope_drift({"raw": raw}, provider, None, refused=RefusedScopes(scopes, datetime.now(UTC), "/x"))


def test_scope_that_the_api_demanded_is_missing_until_it_is_granted() -> None:
    assert drift_after_refusal({"scope": "read"}, "admin", "READ").missing == ("write", "admin")
    assert drift_after_refusal({}, "admin").missing == ("admin",)
    assert drift_after_refusal({"scope": "read write admin"}, "admin").missing == ()
    assert drift_after_refusal({"scope": "read write other"}, "admin").union(("other",)) == (
        *("read", "write", "offline_access", "admin"),
        "other",
    )


def test_no_scope_is_missing_if_one_of_several_suffices() -> None:
    any_of = Provider.model_validate(ENTRY | {"proxy": ENTRY["proxy"] | {"scope_challenge": "any"}})
    all_granted = {"scope": "read write"}
    assert drift_after_refusal(all_granted, "admin", "root", provider=any_of).any_of == ("admin", "root")
    assert drift_after_refusal(all_granted, "admin", "root", provider=any_of).missing == ()
    assert drift_after_refusal(all_granted, "admin", "write", provider=any_of).any_of == ()
    requested = drift_after_refusal({"scope": "read"}, "admin", "write", provider=any_of)
    assert (requested.any_of, requested.missing) == ((), ("write",))
