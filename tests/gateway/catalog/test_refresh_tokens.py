"""The scope that yields a refresh token, and the advice if a token response has none."""

from typing import Any

from gateway.catalog.refresh_tokens import advice_on_refresh_token, refresh_scope
from tests.fakes.providers import provider


def test_the_entry_names_the_scope_or_has_it_among_its_defaults() -> None:
    assert refresh_scope(provider(refresh={"requires_scope": "offline"})) == "offline"
    assert refresh_scope(provider(default_scopes=["read", "offline_access"])) == "offline_access"
    assert refresh_scope(provider(default_scopes=["read"])) is None


def advice(requested: tuple[str, ...] = (), **entry: Any) -> str:
    return advice_on_refresh_token(provider(**entry), requested)


def test_advice_names_scope_then_consent_then_app() -> None:
    offline = {"default_scopes": ["offline_access"]}
    assert "Add the scope 'offline_access'" in advice(**offline)
    assert "also need prompt=consent" in advice(("offline_access",), **offline)
    with_consent = {**offline, "authorization_params": {"prompt": "consent"}}
    assert "check at Tracker that this app may use refresh tokens" in advice(("offline_access",), **with_consent)


def test_available_scope_is_advised_too() -> None:
    assert "Add the scope 'offline_access'" in advice(available_scopes=["read", "offline_access"])


def test_access_type_offline_counts_as_requested() -> None:
    assert "requests access_type=offline" in advice(authorization_params={"access_type": "offline"})


def test_without_known_scope_the_advice_names_the_documentation() -> None:
    assert advice().startswith("See Tracker's documentation (https://docs.example.com)")
