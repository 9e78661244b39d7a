"""Verification calls that are added to entries without one."""

from typing import Any

import pytest

from tools.catalog_from_facts.proofs import expected, with_verification

BASE: dict[str, Any] = {"auth_mode": "API_KEY", "proxy": {"base_url": "https://api.example.com"}}


def proof_from(entry: dict[str, Any] = BASE, correction: dict[str, Any] | None = None, **fact: Any) -> dict[str, Any]:
    usual = {
        "method": "GET",
        "address": "https://api.example.com/me",
        "path_below_base_url": "/me",
        "confidence": "source",
    }
    account = {"id": "data.id", "label": ["data.mail"]}
    return with_verification(
        "acme", entry, {**usual, "expect": {"status": 200}, "account": account, **fact}, correction or {}
    )


def test_verification_call_and_account_come_from_the_fact() -> None:
    entry = proof_from()
    assert entry["proxy"]["verification"] == {"endpoints": ["/me"]}
    assert entry["account"] == {"endpoint": "/me", "id": "data.id", "label": ["data.mail"]}


@pytest.mark.parametrize(
    "fact",
    [
        {"confidence": "knowledge"},
        {"path_below_base_url": None},
        {"headers": {"authorization": "OAuth ${accessToken}"}},
    ],
)
def test_call_that_may_reject_a_valid_credential_is_not_used(fact: dict[str, Any]) -> None:
    assert "verification" not in proof_from(**fact)["proxy"]


def test_a_call_with_an_unknown_setting_or_a_body_other_than_json_is_not_used() -> None:
    assert proof_from(path_below_base_url="/${username}") is BASE
    assert proof_from(method="POST", body="action=getdevice") is BASE
    assert proof_from(method="POST", body="[]") is BASE


def test_if_a_wrong_credential_gets_a_200_the_response_decides() -> None:
    fact = {"expect": {"status": 200, "body": "member ok is true (HTTP status is 200 either way)"}}
    assert proof_from(**fact)["proxy"]["verification"] == {"endpoints": ["/me"], "expect": {"ok": True}}
    own = {"proxy": {"verification": {"endpoints": ["/me"]}}}
    assert proof_from(correction=own, **fact)["proxy"]["verification"] == {"expect": {"ok": True}}


def test_a_verification_by_post_gets_its_body_from_the_fact() -> None:
    entry = proof_from(method="POST", body='{"query":"{me{id}}"}')
    assert entry["account"] | {"method": "POST", "data": {"query": "{me{id}}"}} == entry["account"]
    assert entry["proxy"]["verification"] == {
        "method": "POST",
        "data": {"query": "{me{id}}"},
        "endpoints": ["/me"],
    }
    assert "data" not in proof_from(method="POST", body="null (or no body and no Content-Type)")["account"]


@pytest.mark.parametrize(
    ("expected_text", "fields"),
    [
        ("member ok is true (HTTP status is 200 either way)", {"ok": True}),
        ("no member errors", {"errors": "-"}),
        ("member code is 0 (HTTP status is 200 either way)", {"code": 0}),
        ("error.code is ok", {"error.code": "ok"}),
        ("members healthy and is_logged_in are true", {"healthy": True, "is_logged_in": True}),
        ("member success is true and result.status is active", {"success": True, "result.status": "active"}),
        ("", {}),
    ],
)
def test_descriptions_of_expected_responses_become_fields(expected_text: str, fields: dict[str, Any]) -> None:
    assert expected(expected_text) == fields


def test_an_id_in_a_list_of_several_items_is_not_used() -> None:
    assert "account" not in proof_from(account={"id": "items.0.id", "label": ["items.0.name"]})


def test_the_subject_of_an_id_token_stays_the_account_id() -> None:
    entry = proof_from({**BASE, "default_scopes": ["openid"]})
    assert entry["account"] == {"endpoint": "/me", "label": ["data.mail"]}


def test_fields_of_an_entry_or_its_correction_are_kept() -> None:
    assert "account" not in proof_from(correction={"account": {"id": "team.id"}})
    own = {**BASE, "proxy": {**BASE["proxy"], "verification": {"endpoints": ["/own"]}}}
    assert proof_from(own)["proxy"]["verification"] == {"endpoints": ["/own"]}
