"""Conversion of facts about further providers to the common format."""

from typing import Any

import pytest

from tools.catalog_from_facts.entries import entry_of
from tools.catalog_from_facts.further_providers import further_facts


def entry_from(**fact: Any) -> dict[str, Any]:
    facts = {"display_name": "Acme", "categories": ["crm"], "sources": [{"id": "amp"}], "confidence": "sourced"} | fact
    (first_fact,) = further_facts({"facts": {"acme": facts}})
    return entry_of(first_fact)


BEARER = {"in": "header", "name": "Authorization", "prefix": "Bearer "}


@pytest.mark.parametrize(
    ("base", "name", "form"),
    [
        ("https://${connectionConfig.workspace}.acme.com", "subdomain", {"suffix": ".acme.com"}),
        ("https://${connectionConfig.workspace}", "hostname", {"format": "hostname"}),
        ("${connectionConfig.workspace}/rest", "instanceUrl", {"format": "uri"}),
        ("https://api.acme.com/${connectionConfig.workspace}", "tenant", {}),
        ("https://${connectionConfig.host}/api", "hostname", {"format": "hostname"}),
    ],
)
def test_a_setting_is_named_by_its_part_of_the_url(base: str, name: str, form: dict[str, str]) -> None:
    entry = entry_from(auth_mode="API_KEY", base_url=base, placement=BEARER)
    assert list(entry["connection_config"]) == [name]
    assert form.items() <= entry["connection_config"][name].items()
    assert "${connectionConfig." + name + "}" in entry["proxy"]["base_url"]


def test_place_of_the_credential_is_converted() -> None:
    entry = entry_from(auth_mode="API_KEY", base_url="https://api.acme.com", placement=BEARER)
    assert entry["proxy"]["headers"] == {"authorization": "Bearer ${apiKey}"}
    entry = entry_from(auth_mode="API_KEY", base_url="https://api.acme.com", placement={"in": "query", "name": "key"})
    assert entry["proxy"]["query"] == {"key": "${apiKey}"}
    labels = {"in": "header", "name": "Authorization", "username": "API key", "password": "empty"}
    entry = entry_from(auth_mode="BASIC", base_url="https://api.acme.com", placement=labels)
    assert entry["credentials"]["username"] == {"title": "API key", "secret": True}
    assert entry["credentials"]["password"]["hidden"] is True


def test_a_verification_call_may_be_below_the_base_url_or_elsewhere() -> None:
    proof = {"method": "GET", "address": "https://api.acme.com/v1/me", "account": {"id": "id", "label": ["email"]}}
    entry = entry_from(auth_mode="API_KEY", base_url="https://api.acme.com/v1", placement=BEARER, verification=proof)
    assert entry["proxy"]["verification"] == {"endpoints": ["/me"]}
    assert entry["account"] == {"endpoint": "/me", "id": "id", "label": ["email"]}
    entry = entry_from(auth_mode="API_KEY", base_url="https://acme.com/v1", placement=BEARER, verification=proof)
    assert entry["proxy"]["verification"] == {"endpoints": ["/v1/me"], "base_url_override": "https://api.acme.com"}


def test_fact_without_a_source_is_not_used() -> None:
    facts = {"display_name": "Acme", "categories": ["crm"], "sources": [{"id": "knowledge"}], "confidence": "knowledge"}
    assert further_facts({"facts": {"acme": facts | {"auth_mode": "API_KEY", "base_url": "https://a.example"}}}) == []


def test_a_url_that_is_only_in_public_code_is_unconfirmed() -> None:
    seen = entry_from(auth_mode="API_KEY", base_url="https://a.example", placement=BEARER, confidence="host-sourced")
    assert seen["provenance"] == "unconfirmed"
    assert seen["sources"] == ["amp-labs"]
