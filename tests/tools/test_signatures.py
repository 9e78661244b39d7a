"""Webhook signatures that are added to entries without one."""

from typing import Any

from tools.catalog_from_facts.signatures import signatures

HMAC = {"scheme": "hmac-sha256", "header": "x-sig", "encoding": "hex", "signed": "raw body"}
OURS = {"scheme": "hmac-sha256", "header": "x-sig", "encoding": "hex", "signed_payload": "raw body"}


def signature_from(entries: dict[str, Any], **fact: Any) -> dict[str, Any]:
    whole = {"entries": list(entries), "signature": HMAC, "signature_confidence": "sourced", **fact}
    return signatures({"acme": whole}, entries)


def test_a_plain_hmac_that_a_source_states_is_added() -> None:
    assert signature_from({"acme": {}}) == {"acme": OURS}
    assert signature_from({"acme": {}}, signature=HMAC | {"prefix": "sha256=", "key": "verifier token"}) == {
        "acme": OURS | {"prefix": "sha256=", "key": "verifier token"}
    }


def test_unconfirmed_signatures_and_other_schemes_are_not_added() -> None:
    assert signature_from({"acme": {}}, signature_confidence="knowledge") == {}
    assert signature_from({"acme": {}}, signature=HMAC | {"signed": "{t}.{raw body}"}) == {}
    assert signature_from({"acme": {}}, signature={"scheme": "none"}) == {}
    assert signature_from({"acme": {}}, signature=None) == {}


def test_entries_of_one_api_get_the_same_signature_and_existing_ones_stay() -> None:
    known = {"scheme": "hmac-sha1", "header": "x-other", "key": "client secret"}
    entries = {
        "acme": {"auth_mode": "OAUTH2", "webhook_signature": known},
        "acme-cc": {"auth_mode": "OAUTH2_CC"},
        "acme-key": {"auth_mode": "API_KEY"},
        "acme-heir": {"alias": "acme"},
    }
    without_client = {"scheme": "hmac-sha1", "header": "x-other"}
    assert signature_from(entries) == {"acme-cc": known, "acme-key": without_client}
