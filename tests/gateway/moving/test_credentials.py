"""Conversion of credentials in another gateway's format, in each auth mode."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.auth import modes
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.moving.import_one import CredentialsHidden, credential_of
from gateway.moving.moved_connection import MovedConnection

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2030-01-01T00:00:00.000Z"


def provider(mode: str, **extra: Any) -> Provider:
    result = {"name": "x", "display_name": "X", "categories": ["other"], "docs": "https://x.example", "auth_mode": mode}
    return Provider.model_validate({**result, "proxy": {"base_url": "https://x.example"}, **extra})


def convert(mode: str, credentials: dict[str, Any], config: dict[str, Any] | None = None, **extra: Any) -> Any:
    moved = MovedConnection(
        integration_id="x", connection_id="c", credentials=credentials, config=config or {}, from_api=True
    )
    return credential_of(moved, modes()[mode], provider(mode, **extra), NOW)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("API_KEY", {"type": "API_KEY", "apiKey": "k"}),
        ("BASIC", {"type": "BASIC", "username": "u", "password": ""}),
        ("OAUTH1", {"type": "OAUTH1", "oauth_token": "t", "oauth_token_secret": "s"}),
        ("TBA", {"type": "TBA", "token_id": "t", "token_secret": "s"}),
        ("OAUTH2_CC", {"type": "OAUTH2_CC", "token": "t", "client_id": "i", "client_secret": "s", "expires_at": LATER}),
        ("SIGNATURE", {"type": "SIGNATURE", "username": "u", "password": "p"}),
        ("INSTALL_PLUGIN", {"type": "BASIC", "username": "u", "password": "p"}),
    ],
)
def test_converted_credential_keeps_all_fields_it_needs(mode: str, expected: dict[str, Any]) -> None:
    credential, _, notes = convert(mode, {**expected, "of_theirs": None})
    assert {name: credential.get(name) for name in expected} == expected
    assert notes == []


def test_missing_credential_is_valid_only_for_mode_none() -> None:
    assert convert("NONE", {})[0] == {"type": "NONE"}
    with pytest.raises(CredentialsHidden):
        convert("OAUTH2", {})


def test_an_installation_is_found_in_the_settings_and_keeps_its_token() -> None:
    shown = {"type": "APP", "access_token": "t", "expires_at": LATER, "raw": {"a": 1}, "jwtToken": "j"}
    credential, config, notes = convert("APP", shown, {"installation_id": 42, "app_id": "7"})
    assert credential == {
        "type": "APP",
        "installation_id": "42",
        "app_id": "7",
        "access_token": "t",
        "expires_at": LATER,
        "raw": {"a": 1},
    }
    assert config["app_id"] == "7"
    assert "jwtToken" in notes[0]


def test_the_end_users_own_grant_moves_from_the_settings_into_the_credential() -> None:
    user = {"type": "OAUTH2", "access_token": "u", "refresh_token": "r"}
    shown = {"type": "APP", "access_token": "t", "expires_at": LATER}
    credential, config, _ = convert("CUSTOM", shown, {"installation_id": "42", "userCredentials": user})
    assert credential["user"] == user
    assert "userCredentials" not in config


def test_another_kind_of_credential_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="takes credentials of type 'API_KEY'"):
        convert("API_KEY", {"type": "BASIC", "username": "u", "password": "p"})


def test_unknown_field_of_typed_in_credentials_is_refused() -> None:
    moved = MovedConnection(integration_id="x", connection_id="c", credentials={"apiKey": "k", "apikey": "k"})
    with pytest.raises(InvalidRequest, match="'apikey' is not a field"):
        credential_of(moved, modes()["API_KEY"], provider("API_KEY"), NOW)


@pytest.mark.parametrize("odd", ["²", "9" * 5000, "soon"])
def test_an_unreadable_expiry_counts_as_expired(odd: str) -> None:
    credential, _, notes = convert("OAUTH2", {"type": "OAUTH2", "access_token": "t", "expires_at": odd})
    assert credential["expires_at"] == "2026-01-01T00:00:00.000Z"
    assert "expires_at could not be read" in notes[0]
