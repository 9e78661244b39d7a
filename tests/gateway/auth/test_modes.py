from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.auth import modes
from gateway.auth.oauth2 import OAuth2
from gateway.errors import InvalidRequest
from gateway.secret import Secret
from tests.fakes.providers import provider

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def accept(mode: str, **fields: Any) -> dict[str, Any]:
    return modes()[mode].accept({"type": mode, **fields}, provider(auth_mode=mode), NOW)


def faults(mode: str, **fields: Any) -> set[tuple[str, ...]]:
    with pytest.raises(InvalidRequest) as fault:
        modes()[mode].accept({"type": mode, **fields}, provider(auth_mode=mode), NOW)
    return {issue.path for issue in fault.value.errors}


def test_modes_are_keyed_by_their_name() -> None:
    assert all(mode.name == name for name, mode in modes().items())
    assert {"OAUTH2", "API_KEY", "BASIC"} <= modes().keys()


def test_imported_grant_keeps_the_posted_object_as_raw() -> None:
    credential = accept("OAUTH2", access_token="a", refresh_token="r", expires_at="2026-11-20T13:00:00+01:00")
    assert credential["expires_at"] == "2026-11-20T12:00:00.000Z"
    assert credential["raw"]["expires_at"] == "2026-11-20T13:00:00+01:00"
    assert OAuth2().expires_at(credential) == NOW


def test_an_imported_lifetime_counts_from_now() -> None:
    assert OAuth2().expires_at(accept("OAUTH2", access_token="a", expires_in=60)) == NOW + timedelta(seconds=60)
    assert OAuth2().expires_at(accept("OAUTH2", access_token="a", expires_in=-5)) is None


def test_an_imported_grant_may_have_both_an_expiry_and_a_lifetime() -> None:
    credential = accept("OAUTH2", access_token="a", expires_at="2026-11-20T12:30:00Z", expires_in=60)
    assert OAuth2().expires_at(credential) == NOW + timedelta(minutes=30)


def test_an_imported_client_credentials_token_may_be_as_long_as_other_tokens() -> None:
    token = "t" * 16_384
    assert accept("OAUTH2_CC", client_id="c", client_secret="s", token=token)["token"] == token
    assert faults("OAUTH2_CC", client_id="c", client_secret="s", token=f"{token}t") == {("credentials", "token")}


def test_the_client_of_an_imported_grant_is_kept_out_of_raw() -> None:
    override = {"client_id": "own", "client_secret": "s3cret"}
    credential = accept("OAUTH2", access_token="a", config_override=override)
    assert credential["config_override"] == override
    assert "config_override" not in credential["raw"]


def test_error_names_all_faults_of_a_credential() -> None:
    assert faults("OAUTH2", access_token="", refresh_token=7, expires_at="soon", extra=1) == {
        ("credentials", "access_token"),
        ("credentials", "refresh_token"),
        ("credentials", "expires_at"),
        ("credentials", "extra"),
    }


@pytest.mark.parametrize("key", ["", "a\nb", "k\u00e9y", "x" * 1025, None, 7, " "])
def test_key_that_is_not_a_valid_header_value_is_refused(key: Any) -> None:
    assert faults("API_KEY", apiKey=key) == {("credentials", "apiKey")}


def test_blanks_around_a_pasted_key_are_removed() -> None:
    assert accept("API_KEY", apiKey="  sk-1\n")["apiKey"] == "sk-1"


def test_user_name_and_password_may_be_empty_but_not_missing() -> None:
    assert accept("BASIC", username="", password="")["username"] == ""
    assert faults("BASIC", username="u") == {("credentials", "password")}
    assert faults("BASIC", username="a:b", password="") == {("credentials", "username")}


def test_credentials_of_another_type_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        modes()["BASIC"].accept({"type": "API_KEY", "apiKey": "k"}, provider(), NOW)


def test_an_absent_refresh_token_in_the_response_keeps_the_old_one() -> None:
    before = {"type": "OAUTH2", "access_token": "a", "refresh_token": "keep", "raw": {}}
    credential = OAuth2().credential_from_response(provider(), {"access_token": "b", "expires_in": 60}, NOW, before)
    assert (credential["access_token"], credential["refresh_token"]) == ("b", "keep")
    assert credential["expires_at"] == "2026-11-20T12:01:00.000Z"
    rotated = OAuth2().credential_from_response(
        provider(), {"access_token": "c", "refresh_token": "new"}, NOW, credential
    )
    assert rotated["refresh_token"] == "new"
    assert "expires_at" not in rotated


@pytest.mark.parametrize(
    ("mode", "fields", "names"),
    [
        ("OAUTH2", {"access_token": "v"}, {"accessToken", "access_token"}),
        ("API_KEY", {"apiKey": "v"}, {"apiKey"}),
        ("BASIC", {"username": "v", "password": "v"}, {"username", "password"}),
    ],
)
def test_values_of_a_mode_for_templates_are_secret(mode: str, fields: dict[str, str], names: set[str]) -> None:
    values = modes()[mode].values(accept(mode, **fields))
    assert names <= values.keys()
    assert all(isinstance(value, Secret) and value.reveal() == "v" for value in values.values())
