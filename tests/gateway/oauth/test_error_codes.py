"""Responses of token endpoints for a revoked grant, in all known formats, and responses that do not mean that."""

import json
from typing import Any

import pytest

from gateway.oauth.error_codes import GRANT_GONE
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable, read_response
from tests.fakes.providers import provider

JSON = {"Content-Type": "application/json"}
GONE: dict[str, tuple[Any, str]] = {
    "RFC 6749": ({"error": "invalid_grant"}, "invalid_grant"),
    "an object below error": ({"error": {"code": "invalid_grant", "message": "Gone"}}, "invalid_grant"),
    "a type below error": ({"error": {"type": "invalid_grant", "code": 400}}, "invalid_grant"),
    "a list of objects, as Fitbit": ({"errors": [{"errorType": "invalid_grant", "message": "x"}]}, "invalid_grant"),
    "a list of texts": ({"errors": ["invalid_grant"]}, "invalid_grant"),
    "a list at the top": ([{"error": "invalid_grant"}], "invalid_grant"),
    "a text": ("invalid_grant", "invalid_grant"),
    "a message": ({"message": "invalid_grant"}, "invalid_grant"),
    "a code": ({"code": "INVALID_GRANT"}, "invalid_grant"),
    "camel case": ({"errorCode": "invalidGrant"}, "invalid_grant"),
    "words": ({"error": "Invalid Grant"}, "invalid_grant"),
    "a status, as HubSpot": (
        {"status": "BAD_REFRESH_TOKEN", "message": "missing or unknown refresh token"},
        "bad_refresh_token",
    ),
    "a sentence, as Twitch": (
        {"error": "Bad Request", "status": 400, "message": "Invalid refresh token"},
        "invalid_refresh_token",
    ),
    "a sentence below data": ({"errmsg": "The refresh token has expired."}, "invalid_refresh_token"),
    "OpenID Connect, as Microsoft": ({"error": "interaction_required"}, "interaction_required"),
    "a form": (b"error=bad_refresh_token&error_description=The+token+has+expired", "bad_refresh_token"),
    "a line of text": (b"Refresh token revoked\n", "refresh_token_revoked"),
}
UNKNOWN: dict[str, Any] = {
    "nothing": b"",
    "a page": b"<!doctype html><title>Invalid refresh token</title>",
    "another error": {"error": "E1234"},
    "an object": {"error": {"message": "odd"}},
    "a message": {"message": "Unauthorized"},
    "a missing parameter": {"message": "The refresh_token is missing or invalid"},
    "the client": {"message": "Invalid client for this refresh token"},
    "a token of another kind": {"message": "Token expired"},
    "an empty object": {},
    "a long text": b"refresh token revoked " * 50,
}
PASSING: dict[str, Any] = {
    "RFC 6749": {"error": "temporarily_unavailable"},
    "an object": {"error": {"code": "server_error", "message": "Invalid refresh token"}},
    "words": {"message": "Rate limit exceeded"},
}


def fault_of(status: int, response: Any) -> TokenRefused | TokenUnavailable:
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    with pytest.raises((TokenRefused, TokenUnavailable)) as raised:
        read_response(provider(), status, JSON, body)
    assert isinstance(raised.value, TokenRefused | TokenUnavailable)
    return raised.value


@pytest.mark.parametrize("shape", GONE)
@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_revoked_grant_is_recognized_in_every_error_format(shape: str, status: int) -> None:
    response, code = GONE[shape]
    fault = fault_of(status, response)
    assert isinstance(fault, TokenRefused)
    assert fault.code == code
    assert code in GRANT_GONE


@pytest.mark.parametrize("shape", [name for name, (response, _) in GONE.items() if isinstance(response, dict)])
def test_a_final_error_code_is_recognized_with_status_200_too(shape: str) -> None:
    fault = fault_of(200, GONE[shape][0])
    assert isinstance(fault, TokenRefused)
    assert fault.code == GONE[shape][1]


@pytest.mark.parametrize("shape", UNKNOWN)
@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refusal_of_unknown_meaning_is_not_final_and_counts(shape: str, status: int) -> None:
    fault = fault_of(status, UNKNOWN[shape])
    assert isinstance(fault, TokenUnavailable)
    assert fault.refused_with == status
    assert not fault.maybe_done


@pytest.mark.parametrize("shape", ["another error", "an object"])
def test_an_unknown_error_with_status_200_counts(shape: str) -> None:
    fault = fault_of(200, UNKNOWN[shape])
    assert isinstance(fault, TokenUnavailable)
    assert fault.refused_with == 200


@pytest.mark.parametrize(
    ("status", "response"),
    [
        *((400, response) for response in PASSING.values()),
        *((status, {"error": "invalid_grant"}) for status in (408, 425, 429, 500, 502, 503, 504)),
        (404, {"message": "Not found"}),
        (302, b""),
        (200, b"<html>Sign in</html>"),
        (200, {"message": "odd"}),
    ],
)
def test_an_outage_a_rate_limit_and_a_wrong_url_never_count(status: int, response: Any) -> None:
    fault = fault_of(status, response)
    assert isinstance(fault, TokenUnavailable)
    assert fault.refused_with is None


def test_a_token_next_to_an_error_is_used() -> None:
    body = json.dumps({"access_token": "a", "errors": [], "message": "Invalid refresh token"}).encode()
    assert read_response(provider(), 200, JSON, body)["access_token"] == "a"
