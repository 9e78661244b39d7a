"""Compares the claims of the shipped entries with the statements of sources, both from files of the repository."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.yaml_file import read_yaml
from tools.evidence.assess import evidence_of, levels
from tools.evidence.by_hand import entry_evidence
from tools.evidence.compare import agrees, normalized_url
from tools.evidence.drift import MIN_AGREEMENT, FieldComparison, compare_fields, explanations, shipped
from tools.evidence.statements import KNOWLEDGE, Statement, sources, statements

ROOT = Path(__file__).parents[2]
TOP: list[str] = json.loads(Path(__file__).with_name("most_used.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def entries() -> dict[str, dict[str, Any]]:
    return shipped()


@pytest.fixture(scope="module")
def fields(entries: dict[str, dict[str, Any]]) -> list[FieldComparison]:
    return [item for item in compare_fields(entries) if item.independent]


def test_97_of_100_fields_agree_with_independent_sources(fields: list[FieldComparison]) -> None:
    assert len(fields) > 1000
    assert sum(field.agrees for field in fields) / len(fields) >= MIN_AGREEMENT


def test_each_difference_has_its_reason_in_the_entry(
    entries: dict[str, dict[str, Any]], fields: list[FieldComparison]
) -> None:
    differing = {(item.entry, item.field) for item in fields if not item.agrees}
    assert differing == {(entry, field) for entry, whys in explanations().items() for field in whys}
    for entry, field in differing:
        reasons = [why for item in entries[entry]["evidence"].values() for why in item.get("differs", {}).values()]
        assert explanations()[entry][field] in reasons


def test_no_entry_claims_more_than_its_sources_state(entries: dict[str, dict[str, Any]]) -> None:
    """Generated again from the statements, each entry's evidence equals that of its file."""
    assert {name for name, entry in entries.items() if entry.get("evidence", {}) != evidence_of(name, entry)} <= {
        "sandbox"
    }


def test_the_evidence_of_an_inheriting_entry_covers_only_its_own_fields() -> None:
    values = {path.stem: read_yaml(path).value for path in (ROOT / "catalog").glob("*.yaml")}
    for name in ("google-calendar", "lever-sandbox", "figjam", "zoho-books"):
        assert values[name].get("evidence", {}) == entry_evidence(name, values)


def test_the_hundred_most_used_entries_have_no_assumed_url_or_placement(entries: dict[str, dict[str, Any]]) -> None:
    assert len(TOP) == 100
    for name in TOP:
        found = {group: level for group, _, level in levels(entries[name])}
        assert found["addresses"] != "assumed", name
        assert found.get("placement") != "assumed", name


def test_general_knowledge_does_not_confirm_a_field() -> None:
    entry: Mapping[str, Any] = {
        "auth_mode": "API_KEY",
        "proxy": {"base_url": "https://api.example.com", "query": {"k": "${apiKey}"}},
    }
    assert evidence_of("unheard-of", entry)["addresses"] == {"level": "unconfirmed"}
    assert KNOWLEDGE not in sources()


def test_every_source_is_described() -> None:
    named = {source for ones in statements().values() for one in ones for source in one.sources}
    assert named - {KNOWLEDGE} == set(sources())


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("https://${connectionConfig.subdomain}.example.com/oauth", "https://{{.workspace}}.example.com/oauth/", True),
        ("https://www.facebook.com/v25.0/dialog/oauth", "https://www.facebook.com/dialog/oauth", True),
        ("https://account.example.com/oauth", "https://www.example.com/oauth", False),
        ("https://example.com/oauth/authorize", "https://example.com/oauth/token", False),
    ],
)
def test_addresses_are_compared_as_patterns(ours: str, theirs: str, same: bool) -> None:
    entry: Mapping[str, Any] = {
        "auth_mode": "OAUTH2",
        "authorization_url": ours,
        "proxy": {"base_url": "https://example.com"},
    }
    assert agrees(entry, Statement("x", "authorization_url", (theirs,), ("grant",))) is same
    assert agrees(entry, Statement("x", "revocation_url", (theirs,), ("grant",))) is None


def test_address_is_normalized_without_variable_parts() -> None:
    assert normalized_url("https://${connectionConfig.x}.Example.com:443/v2/token?y=1") == "*.example.com/token"
