"""`evidence` of an entry: what inheriting entries take over, how it is shown, and what lint reports."""

import datetime as dt
from pathlib import Path

import pytest

from gateway.catalog.evidence import FIELDS, GROUPS, GroupEvidence, evidence_sentences, is_old, open_fields
from gateway.catalog.lint import lint
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.provider import Provider, Proxy

BASE = """
display_name: Acme
categories: [crm]
auth_mode: OAUTH2
authorization_url: https://acme.example.com/authorize
token_url: https://acme.example.com/token
proxy: {base_url: https://api.acme.example.com}
evidence:
  addresses: {level: confirmed, sources: [allauth, grant], date: "2026-11-22"}
  client: {level: assumed, fields: {token_request_auth_method: sourced, scope_separator: assumed}, sources: [grant]}
"""


def catalog(tmp_path: Path, **files: str) -> Catalog:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return load_catalog([tmp_path])


def test_entry_inherits_evidence_with_inherited_fields(tmp_path: Path) -> None:
    heir = "alias: acme\nproxy: {base_url: https://eu.acme.example.com}\n"
    other = "alias: acme\nevidence: {addresses: {level: sourced, sources: [goth]}, client: null}\n"
    found = catalog(tmp_path, acme=BASE, heir=heir, other=other)
    assert found.provider_json("acme", "")["provenance"] == "confirmed"
    assert set(found.provider_json("heir", "")["evidence"]) == {"client"}
    assert "provenance" not in found.provider_json("heir", "")
    assert found.provider_json("other", "")["evidence"] == {"addresses": {"level": "sourced", "sources": ["goth"]}}
    assert found.provider_json("other", "")["provenance"] == "sourced"


def test_sources_are_those_of_all_groups(tmp_path: Path) -> None:
    found = catalog(tmp_path, acme=BASE + "sources: [https://docs.example.com/oauth]\n")
    assert found.provider_json("acme", "")["sources"] == ["allauth", "grant", "https://docs.example.com/oauth"]


def test_the_older_level_reviewed_loads_and_is_shown_as_unconfirmed(tmp_path: Path) -> None:
    plain = BASE[: BASE.index("evidence:")] + "provenance: reviewed\nsources: [me]\n"
    found = catalog(tmp_path, acme=plain)
    assert found.provider_json("acme", "")["provenance"] == "unconfirmed"
    assert any("'reviewed' is shown as unconfirmed" in finding.message for finding in lint([tmp_path]))


def test_lint_warns_of_assumed_facts_and_of_old_sources(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(BASE.replace("2026-11-22", "2020-01-31"))
    messages = {finding.message for finding in lint([tmp_path])}
    assert any("has a default without a source" in text and text.startswith("Client") for text in messages)
    assert any("read more than 12 months ago, on 2020-01-31" in text for text in messages)
    assert {finding.level for finding in lint([tmp_path])} == {"warning"}


@pytest.mark.parametrize(("date", "old"), [("2025-11-21", True), ("2025-11-23", False), (None, False)])
def test_sources_are_old_after_twelve_months(date: str | None, old: bool) -> None:
    assert is_old(GroupEvidence(level="sourced", date=date), dt.date(2026, 11, 22)) is old


def test_evidence_is_shown_in_words(tmp_path: Path) -> None:
    evidence = catalog(tmp_path, acme=BASE).providers["acme"].evidence
    assert dict(evidence_sentences(evidence)) == {
        "URLs": "Confirmed by two independent sources or by the vendor's own document (allauth, grant; read 2026-11-22).",
        "Client authentication and scopes": (
            "scope_separator: a default without a source: check it before you rely on it; "
            "token_request_auth_method sourced (grant)."
        ),
    }
    assert list(open_fields(evidence)) == [("client", "scope_separator", "assumed")]


def test_every_group_names_fields_of_an_entry() -> None:
    assert set(FIELDS) == set(GROUPS)
    known = {*Provider.model_fields, *(f"proxy.{key}" for key in Proxy.model_fields)}
    assert {field for fields in FIELDS.values() for field in fields} <= known
