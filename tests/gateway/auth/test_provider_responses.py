"""Error messages of providers are made safe to show, and the response to a login request is checked."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.auth.provider_responses import accepted_response, jwt_ends_at, refusal_text, safe_text, token_at
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.provider_call import Reply


def reply(body: Any, status: int = 400, **headers: str) -> Reply:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, {"content-type": "application/json", **headers}, text, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ({"error": "invalid_grant", "error_description": "Token expired."}, "invalid_grant: Token expired"),
        ({"error": {"Message": "no access"}}, "no access"),
        ({"errors": [{"detail": "first"}, {"detail": "second"}]}, "first"),
        ({"error": "same", "message": "same"}, "same"),
        ({"data": {"result": {"msg": "deep"}}}, "deep"),
        (["only text"], "only text"),
        ({"unknown": "member"}, ""),
        (b"  plain\n text ", "plain text"),
        (b"<html>down</html>", ""),
        (b"", ""),
    ],
)
def test_error_text_is_read_from_the_usual_members(body: Any, expected_text: str) -> None:
    assert refusal_text(reply(body)) == expected_text


def test_provider_message_is_limited_and_on_one_line() -> None:
    assert safe_text("a\x00b\nc\u2028 .") == "a b c"
    assert len(safe_text("x" * 1000)) == 500


def test_only_a_json_object_with_2xx_is_accepted() -> None:
    assert accepted_response(reply({"token": "t"}, 200)) == {"token": "t"}
    with pytest.raises(TokenRefused, match="it returned 401: wrong password"):
        accepted_response(reply({"message": "wrong password"}, 401))
    for status in (408, 425, 429, 500, 503, 199, 301, 302, 304, 307):
        with pytest.raises(TokenUnavailable, match=f"returned {status}"):
            accepted_response(reply({}, status))
    with pytest.raises(TokenUnavailable, match="not a JSON object"):
        accepted_response(reply([1], 200))


def test_token_is_read_at_the_first_path_that_has_one() -> None:
    response = {"data": {"token": "t1"}, "token": ""}
    assert token_at(response, ("token", "data.token")) == "t1"
    with pytest.raises(TokenRefused, match="its response has no token: locked"):
        token_at({"message": "locked"}, ("token",))
    with pytest.raises(TokenUnavailable, match="characters that no token may have"):
        token_at({"token": "a\nb"}, ("token",))


def jwt(**claims: Any) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return ".".join((*parts, "signature"))


def test_a_jwt_expires_at_its_exp_claim() -> None:
    assert jwt_ends_at(jwt(exp=1_767_225_600)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert jwt_ends_at(jwt(exp=1e15)) is None
    assert jwt_ends_at(jwt(sub="ada")) is None
    assert jwt_ends_at("opaque") is None
