"""Token lifetimes and rotation that are added to entries without them."""

from typing import Any

from tools.catalog_from_facts.tokens import with_lifetimes

FACTS: dict[str, Any] = {
    "acme": {"refresh": {"rotating": True, "access_token_lifetime_s": 3600, "confidence": "knowledge"}},
    "acme-eu": {"same_as": "acme"},
}


def test_existing_lifetimes_are_kept() -> None:
    entry = {"auth_mode": "OAUTH2", "refresh": {"access_token_lifetime_s": 60}}
    assert with_lifetimes("acme", entry, FACTS)["refresh"] == {"rotating": True, "access_token_lifetime_s": 60}


def test_variants_of_a_provider_get_its_facts_and_entries_without_refresh_tokens_get_none() -> None:
    assert with_lifetimes("acme-eu", {"auth_mode": "OAUTH2"}, FACTS)["refresh"]["rotating"] is True
    assert "refresh" not in with_lifetimes("acme", {"auth_mode": "API_KEY"}, FACTS)
    assert "refresh" not in with_lifetimes("other", {"auth_mode": "OAUTH2"}, FACTS)
