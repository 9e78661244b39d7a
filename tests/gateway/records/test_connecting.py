"""The stored JSON of a connect flow is compatible with version 0.2.0 in both directions."""

from typing import Any

import pytest

from gateway.records.connecting import FlowOptions, PendingAuthorization, PendingChoice, Site, flow_details
from gateway.records.connection import EndUser

STORED_BY_0_2_0: dict[str, Any] = {
    "provider": "tracker",
    "mode": "OAUTH2",
    "kept": {"code_verifier": "v" * 43},
    "url": "https://tracker.example/authorize?state=s",
    "config": {"subdomain": "acme", "cloudId": "cloud-1"},
    "given": ["subdomain"],
    "end_user": {
        "id": "u1",
        "email": "ada@example.com",
        "display_name": None,
        "tags": {"plan": "pro"},
        "organization_id": None,
        "organization_display_name": None,
    },
    "tags": {"team": "a"},
    "webhook_url_override": "https://app.example/hook",
    "client": "c" * 64,
    "browser": "b" * 64,
    "reconnects": True,
    "pinned": True,
    "lang": "de",
    "limited": True,
    "code_challenge": "x" * 43,
}
READ = PendingAuthorization(
    provider="tracker",
    mode="OAUTH2",
    kept={"code_verifier": "v" * 43},
    url="https://tracker.example/authorize?state=s",
    config={"subdomain": "acme", "cloudId": "cloud-1"},
    given=("subdomain",),
    end_user=EndUser("u1", "ada@example.com", tags={"plan": "pro"}),
    tags={"team": "a"},
    webhook_url_override="https://app.example/hook",
    client="c" * 64,
    browser="b" * 64,
    reconnects=True,
    pinned=True,
    lang="de",
    limited=True,
    code_challenge="x" * 43,
)
CHOICE: dict[str, Any] = {
    "kept": {},
    "began": "d" * 64,
    "held": {"type": "OAUTH2", "access_token": "at"},
    "told": {"cloudId": "cloud-1"},
    "sites": [{"id": "1", "name": "Acme", "url": "https://acme.example", "settings": {"subdomain": "acme"}}],
}


def test_a_pending_authorization_is_stored_as_version_0_2_0_did() -> None:
    assert flow_details(STORED_BY_0_2_0) == READ
    assert READ.as_json() == STORED_BY_0_2_0


def test_a_pending_choice_is_stored_as_version_0_2_0_did() -> None:
    stored = STORED_BY_0_2_0 | CHOICE
    found = flow_details(stored)
    assert isinstance(found, PendingAuthorization)
    site = Site("1", "Acme", "https://acme.example", {"subdomain": "acme"})
    assert found.choice == PendingChoice(
        held={"type": "OAUTH2", "access_token": "at"}, provider_config={"cloudId": "cloud-1"}, sites=(site,)
    )
    assert (found.began, found.kept) == ("d" * 64, {})
    assert found.as_json() == stored


def test_options_that_wait_for_confirmation_are_stored_as_version_0_2_0_did() -> None:
    stored = {
        "asked": {
            "config": {"subdomain": "acme"},
            "authorization_params": {"prompt": "consent"},
            "user_scope": None,
            "override": {"client_id": "own"},
            "ws_client_id": "w",
            "browser": None,
            "lang": "fr",
            "request_id": "r1",
        }
    }
    found = flow_details(stored)
    assert found == FlowOptions(
        config={"subdomain": "acme"},
        authorization_params={"prompt": "consent"},
        override={"client_id": "own"},
        ws_client_id="w",
        lang="fr",
        request_id="r1",
    )
    assert found.as_json() == stored


@pytest.mark.parametrize("name", ["given", "client", "browser", "reconnects", "pinned", "lang", "limited", "url"])
def test_members_missing_in_earlier_versions_have_a_default(name: str) -> None:
    stored = {key: value for key, value in STORED_BY_0_2_0.items() if key != name}
    found = flow_details(stored)
    meant = {"given": ("subdomain", "cloudId"), "url": "", "reconnects": False, "pinned": False, "limited": False}
    assert getattr(found, name) == meant.get(name)


def test_members_of_later_versions_are_ignored() -> None:
    assert flow_details(STORED_BY_0_2_0 | {"of_tomorrow": 1}) == READ
    later = {"asked": {"user_scope": "read", "of_tomorrow": 1}}
    assert flow_details(later) == FlowOptions(user_scope="read")


def test_no_secret_is_printed() -> None:
    found = flow_details(STORED_BY_0_2_0 | {**CHOICE, "kept": {"code_verifier": "v" * 43}})
    assert "v" * 43 not in repr(found)
    assert "access_token" not in repr(found)
