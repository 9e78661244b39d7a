"""The signed result in the return URL: the client accepts only what the gateway signed as a result."""

import base64
import hmac
import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway import clock
from gateway.authorization import return_url as signing
from gateway.authorization.return_url import ReturnResult, signed_return_url
from gateway.client import InvalidReturn, code_challenge, new_code_verifier, verify_return
from gateway.events.signatures import new_signing_key, signature_fields, standard_key
from gateway.oauth.authorize import challenge
from gateway.records.connecting import ConnectSession
from gateway.secret import Secret

KEY = new_signing_key()
APP = "https://app.example.com"
MADE = ReturnResult(outcome="connected", provider_config_key="jira", connection_id="u1")


def session(return_url: str = f"{APP}/back?tab=1", state: str | None = "s 1&x") -> ConnectSession:
    return ConnectSession(
        digest="ab" * 32, environment="dev", expires_at=clock.now(), return_url=return_url, return_state=state
    )


def build_return_url(result: ReturnResult = MADE, key: Secret = KEY, **of: Any) -> str:
    return signed_return_url(session(**of), result, public_url="https://gateway.example.com", signing_key=key)


def test_verified_result_equals_the_signed_result() -> None:
    url = build_return_url()
    assert url.startswith(f"{APP}/back?tab=1&state=s+1%26x&result=")
    result = verify_return(url, KEY.reveal(), audience=APP, state="s 1&x")
    assert (result.outcome, result.provider_config_key, result.connection_id) == ("connected", "jira", "u1")
    assert (result.session_id, result.state, result.error) == ("ab" * 32, "s 1&x", None)
    assert result.id != verify_return(build_return_url(), KEY.reveal(), audience=APP).id


def test_result_without_its_url_is_verified() -> None:
    (result,) = parse_qs(urlsplit(build_return_url()).query)["result"]
    assert verify_return(result, KEY.reveal(), audience=APP).connection_id == "u1"


@pytest.mark.parametrize("return_url", [f"{APP}/back", f"{APP}/back?", APP])
def test_return_url_without_a_query_gets_one(return_url: str) -> None:
    url = build_return_url(ReturnResult(outcome="failed", error="invalid_state"), return_url=return_url, state=None)
    assert list(parse_qs(urlsplit(url).query)) == ["result"]
    result = verify_return(url, KEY.reveal(), audience=APP)
    assert (result.outcome, result.error, result.state, result.connection_id) == ("failed", "invalid_state", None, None)


def test_several_signing_keys_are_accepted() -> None:
    assert verify_return(build_return_url(), [new_signing_key().reveal(), KEY.reveal()], audience=APP)
    with pytest.raises(InvalidReturn, match="signing key"):
        verify_return(build_return_url(), [new_signing_key().reveal(), new_signing_key().reveal()], audience=APP)
    with pytest.raises(InvalidReturn, match="signing key"):
        verify_return(build_return_url(), [], audience=APP)


def test_an_old_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.now() - timedelta(minutes=7)
    monkeypatch.setattr(signing.clock, "now", lambda: before)
    url = build_return_url()
    monkeypatch.undo()
    with pytest.raises(InvalidReturn, match="older than five minutes"):
        verify_return(url, KEY.reveal(), audience=APP)


def test_a_result_for_another_application_is_refused() -> None:
    with pytest.raises(InvalidReturn, match="aud"):
        verify_return(build_return_url(), KEY.reveal(), audience="https://other.example.com")


def test_a_result_of_another_users_session_is_refused() -> None:
    with pytest.raises(InvalidReturn, match="state"):
        verify_return(build_return_url(), KEY.reveal(), audience=APP, state="another")
    with pytest.raises(InvalidReturn, match="state"):
        verify_return(build_return_url(state=None), KEY.reveal(), audience=APP, state="any")


def parts_of(url: str) -> tuple[Any, Any, str]:
    header, claims, signature = parse_qs(urlsplit(url).query)["result"][0].split(".")
    opened = [json.loads(base64.urlsafe_b64decode(item + "=" * (-len(item) % 4))) for item in (header, claims)]
    return opened[0], opened[1], signature


def forged_result(header: Any, claims: Any, key: bytes) -> str:
    payload = ".".join(
        base64.urlsafe_b64encode(json.dumps(item).encode()).rstrip(b"=").decode() for item in (header, claims)
    )
    proof = base64.urlsafe_b64encode(hmac.digest(key, payload.encode(), "sha256")).rstrip(b"=").decode()
    return f"{payload}.{proof}"


def test_token_signed_with_the_signing_key_itself_is_refused() -> None:
    header, claims, _ = parts_of(build_return_url())
    for key in (KEY.reveal().encode(), standard_key(KEY)):
        with pytest.raises(InvalidReturn, match="signing key"):
            verify_return(forged_result(header, claims, key), KEY.reveal(), audience=APP)


def test_signature_of_an_event_is_not_valid_for_a_result() -> None:
    header, claims, _ = parts_of(build_return_url())
    unsigned = forged_result(header, claims, b"").rpartition(".")[0]
    event = signature_fields(unsigned.encode(), "", 0, [KEY])
    for proof in (event["X-Nango-Hmac-Sha256"], event["X-Nango-Signature"]):
        encoded = base64.urlsafe_b64encode(bytes.fromhex(proof)).rstrip(b"=").decode()
        with pytest.raises(InvalidReturn):
            verify_return(f"{unsigned}.{encoded}", KEY.reveal(), audience=APP)


def test_another_algorithm_type_or_content_is_refused() -> None:
    header, claims, signature = parts_of(build_return_url())
    key = signing.result_key(KEY).reveal().encode()
    assert verify_return(forged_result(header, claims, key), KEY.reveal(), audience=APP).connection_id == "u1"
    unsigned = forged_result({**header, "alg": "none"}, claims, b"").rpartition(".")[0] + "."
    wrong = [
        unsigned,
        forged_result({**header, "alg": "none"}, claims, key),
        forged_result({"alg": "HS256", "typ": "JWT"}, claims, key),
        forged_result({"alg": "HS256"}, claims, key),
        forged_result(header, {name: claim for name, claim in claims.items() if name != "exp"}, key),
        forged_result(header, {name: claim for name, claim in claims.items() if name != "aud"}, key),
        forged_result(header, {name: claim for name, claim in claims.items() if name != "session_id"}, key),
        forged_result(header, {**claims, "connection_id": "another"}, b"") + signature,
        "",
        "a.b.c",
        "https://app.example.com/?result=",
        "https://app.example.com/?x=1",
        f"{build_return_url()}&result=x",
    ]
    for item in wrong:
        with pytest.raises(InvalidReturn):
            verify_return(item, KEY.reveal(), audience=APP)


def test_code_challenge_equals_the_example_in_the_rfc() -> None:
    assert (
        code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )
    verifier = new_code_verifier()
    assert (len(verifier), code_challenge(verifier)) == (43, challenge(verifier))
    assert verifier != new_code_verifier()
