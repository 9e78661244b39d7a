import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from gateway.oauth.token_requests import OAuthClient, code_request, refresh_request
from gateway.oauth.token_responses import (
    MAX_LIFETIME,
    TokenRefused,
    TokenUnavailable,
    dig,
    expires_at,
    jwt_claims,
    read_response,
    replaces_refresh_token,
)
from gateway.secret import Secret
from tests.fakes.providers import provider

CLIENT = OAuthClient("the client:id", Secret("p@ss word"))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
JSON = {"Content-Type": "application/json; charset=utf-8"}


def read(status: int = 200, response: Any = None, headers: dict[str, str] = JSON, **entry: Any) -> dict[str, Any]:
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    return read_response(provider(**entry), status, headers, body)


def code_exchange(**entry: Any) -> Any:
    return code_request(
        provider(**entry), "https://t.example", CLIENT, code="c", redirect_uri="r", code_verifier="v", params={}
    )


def test_a_code_is_exchanged_with_its_verifier_and_one_client_authentication() -> None:
    request = code_exchange()
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["authorization_code"],
        "code": ["c"],
        "redirect_uri": ["r"],
        "code_verifier": ["v"],
        "client_id": ["the client:id"],
        "client_secret": ["p@ss word"],
    }
    assert "Authorization" not in request.headers


def test_basic_authentication_encodes_both_halves_and_leaves_the_body_without_them() -> None:
    request = code_exchange(token_request_auth_method="basic")
    user, _, password = (
        base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
    )
    # %20 instead of +: every form decoder reads %20 as a space, but servers that only decode percent signs read + as a
    # plus sign.
    assert (user, password) == ("the%20client%3Aid", "p%40ss%20word")
    assert not {"client_id", "client_secret"} & parse_qs(request.body.decode()).keys()


def test_a_public_client_sends_only_its_id() -> None:
    request = refresh_request(provider(), "u", OAuthClient("public"), refresh_token="r", params={})
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r"],
        "client_id": ["public"],
    }


def test_a_provider_that_wants_json_gets_json() -> None:
    request = code_exchange(body_format="json")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body)["code"] == "c"


def test_the_entrys_parameters_never_replace_the_grant() -> None:
    request = refresh_request(
        provider(), "u", CLIENT, refresh_token="r", params={"grant_type": "x", "refresh_token": "y", "audience": "z"}
    )
    sent = parse_qs(request.body.decode())
    assert (sent["grant_type"], sent["refresh_token"], sent["audience"]) == (["refresh_token"], ["r"], ["z"])


def test_secrets_of_a_request_do_not_print() -> None:
    assert "p%40ss" not in repr(code_exchange())


def test_a_token_response_is_returned_complete() -> None:
    response = {"access_token": "a", "token_type": "bearer", "expires_in": 60, "scope": "x"}
    assert read(response=response) == response


def test_slacks_user_token_is_read_below_authed_user() -> None:
    response = {"ok": True, "authed_user": {"id": "U1", "access_token": "xoxp", "refresh_token": "r", "expires_in": 9}}
    result = read(response=response, alternate_access_token_response_path="authed_user")
    assert (result["access_token"], result["refresh_token"], result["expires_in"]) == ("xoxp", "r", 9)


def test_an_alternate_path_may_be_the_path_of_the_token() -> None:
    result = read(response={"data": {"jwt": "t"}}, alternate_access_token_response_path="data.jwt")
    assert result["access_token"] == "t"


def test_a_form_encoded_response_is_read_too() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert read(response=b"access_token=a&scope=repo", headers=headers)["access_token"] == "a"


@pytest.mark.parametrize(
    "code", ["invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "bad_refresh_token"]
)
@pytest.mark.parametrize("status", [200, 400, 401, 403])
def test_an_error_code_of_the_standard_is_final_whatever_the_status(code: str, status: int) -> None:
    with pytest.raises(TokenRefused) as refused:
        read(status, {"error": code, "error_description": "no longer"})
    assert (refused.value.code, refused.value.description) == (code, "no longer")


@pytest.mark.parametrize(
    ("status", "response", "headers"),
    [
        (500, {"error": "invalid_grant"}, JSON),
        (503, b"<html>down</html>", {"Content-Type": "text/html"}),
        (429, {"error": "invalid_grant"}, {**JSON, "Retry-After": "7"}),
        (408, {}, JSON),
        (200, b"<html>Sign in</html>", {"Content-Type": "text/html"}),
        (200, b"", JSON),
        (200, [], JSON),
        (200, "text", JSON),
        (200, {}, JSON),
        (200, {"access_token": ""}, JSON),
        (200, {"access_token": None}, JSON),
        (200, {"access_token": 7}, JSON),
        (200, {"access_token": "a\r\nX: y"}, JSON),
        (200, {"access_token": "a\u00e9"}, JSON),
        (200, {"access_token": "a" * 70_000}, JSON),
        (400, {"error": "slow_down"}, JSON),
        (400, {"error": {"message": "odd"}}, JSON),
        (404, {"access_token": "a"}, JSON),
        (302, b"", {}),
        (200, b"[" * 100_000, JSON),
        (200, b"{" * 100_000, JSON),
        (200, b'{"a":' * 100_000 + b'"' * 100_001, JSON),
    ],
)
def test_all_other_errors_are_temporary(status: int, response: Any, headers: dict[str, str]) -> None:
    with pytest.raises(TokenUnavailable):
        read(status, response, headers)


def test_the_endpoints_own_retry_after_is_kept() -> None:
    with pytest.raises(TokenUnavailable) as fault:
        read(429, {}, {"retry-after": "17"})
    assert fault.value.retry_after_s == 17


def test_a_response_without_a_token_is_reported_with_its_content_type() -> None:
    with pytest.raises(TokenUnavailable, match="text/html"):
        read(200, b"<html>", {"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("response", "ends"),
    [
        ({"expires_in": 3600}, NOW + timedelta(hours=1)),
        ({"expires_in": "3600"}, NOW + timedelta(hours=1)),
        ({"expires_in": 0.5}, NOW + timedelta(seconds=0.5)),
        ({"expires_in": 0}, None),
        ({"expires_in": -1}, None),
        ({"expires_in": True}, None),
        ({"expires_in": None}, None),
        ({"expires_in": "soon"}, None),
        ({"expires_in": "nan"}, None),
        ({"expires_in": 1e300}, NOW + MAX_LIFETIME),
        ({"expires_in": 10**400}, None),
        ({}, None),
        ({"expires_at": 1_795_694_400}, datetime(2026, 11, 26, 12, tzinfo=UTC)),
        ({"expires_at": 1_795_694_400_000}, datetime(2026, 11, 26, 12, tzinfo=UTC)),
        ({"expires_at": "2026-11-26T12:00:00Z"}, datetime(2026, 11, 26, 12, tzinfo=UTC)),
        ({"expires_at": "2026-11-26T12:00:00"}, datetime(2026, 11, 26, 12, tzinfo=UTC)),
        ({"expires_at": "9:23:59"}, NOW + timedelta(days=9, hours=23, minutes=59)),
        ({"expires_at": "0:00:00"}, None),
        ({"expires_at": "never"}, None),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, None),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, None),
        ({"expires_at": "0001-01-01T00:00:00Z"}, None),
        ({"expires_at": "9999-12-31T23:59:59Z"}, NOW + MAX_LIFETIME),
        ({"expires_at": NOW.isoformat()}, None),
        ({"expires_at": 1e300}, NOW + MAX_LIFETIME),
    ],
)
def test_the_expiry_of_a_token_is_read_leniently(response: dict[str, Any], ends: datetime | None) -> None:
    assert expires_at(provider(), response, NOW) == ends


def test_an_entrys_token_ttl_is_used_if_the_response_has_no_lifetime() -> None:
    entry = provider(token_ttl=120)
    assert expires_at(entry, {}, NOW) == NOW + timedelta(seconds=120)
    assert expires_at(entry, {"expires_in": 60}, NOW) == NOW + timedelta(seconds=60)


@pytest.mark.parametrize("token", [None, 7, "", "a.b", "a.!.c", "a.W10.c", "a.e30", "a.e30.c.d.e"])
def test_a_text_that_is_not_a_signed_jwt_has_no_claims(token: object) -> None:
    assert jwt_claims(token) == {}


def test_claims_of_a_signed_jwt_are_read_with_and_without_padding() -> None:
    assert jwt_claims("a.eyJzdWIiOiIxIn0.c") == {"sub": "1"}
    assert jwt_claims("a.eyJzdWIiOiIxIn0=.c") == {"sub": "1"}


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("accounts.[is_default=true].host", "eu"),
        ("accounts.[id=1].host", "na"),
        ("accounts.[id=3].host", None),
        ("accounts.[name=None].host", None),  # a missing member has no value
        ("accounts.1.host", "eu"),
        ("accounts.-1.host", "x"),
        ("sub.[id=1]", None),
    ],
)
def test_an_item_of_a_list_is_found_by_one_of_its_members(path: str, result: str | None) -> None:
    accounts = [
        {"id": 1, "is_default": False, "host": "na"},
        {"id": 2, "is_default": True, "host": "eu"},
        {"host": "x"},
    ]
    assert dig({"sub": "u", "accounts": accounts}, path) == result


@pytest.mark.parametrize(
    ("body", "replaces"),
    [
        ({"refresh_token": "new-token"}, True),
        ({"data": [{"auth": {"refreshToken": "new-token"}}]}, True),
        ({"refresh_token": "sent-token"}, False),
        ({"refresh_token": None, "access_token": "new-token"}, False),
        ({"refresh_expires_at": "2026-01-01T00:00:00Z", "refresh_url": "https://a.example/refresh"}, False),
        ({"refresh_in": "3600"}, False),
        ({"refresh_hint": "Please refresh the page."}, False),
        ({"refreshed_at": "2026-01-01T00:00:00Z"}, False),
        ({"last_refresh": "2026-01-01T00:00:00Z"}, False),
        ({"refresh_token_issued_at": "1767225600000", "refresh_token_status": "approved"}, False),
        ([], False),
    ],
)
def test_new_refresh_token_is_found_wherever_it_is(body: Any, replaces: bool) -> None:
    assert replaces_refresh_token({}, json.dumps(body).encode(), ["sent-token"]) is replaces
