"""The token endpoint: one use per code, client authentication, rotation, and replays."""

from datetime import timedelta

import aiohttp
import pytest

from gateway import clock
from tests.gateway.sandbox.conftest import CLIENT, SECRET, Application

MYSELF = "/oauth/token/accessible-resources"


async def test_a_code_returns_a_working_pair_of_tokens(application: Application) -> None:
    tokens = await application.connect()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 60
    assert tokens["scope"].split() == ["read:sandbox-user", "read:sandbox-work", "write:sandbox-work", "offline_access"]
    assert (await application.get(MYSELF, tokens["access_token"]))[0] == 200


async def test_without_offline_access_there_is_no_refresh_token(application: Application) -> None:
    assert "refresh_token" not in await application.connect(scope="read:sandbox-work")


async def test_a_code_that_is_used_twice_revokes_its_tokens(application: Application) -> None:
    code = (await application.walk())["code"]
    _, tokens = await application.redeem(code)
    status, refusal = await application.redeem(code)
    assert (status, refusal["error"]) == (400, "invalid_grant")
    assert (await application.get(MYSELF, tokens["access_token"]))[0] == 401
    assert (await application.refresh(tokens["refresh_token"]))[0] == 400


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:9/elsewhere"}, "invalid_grant"),
        ({"code": "made-up"}, "invalid_grant"),
        ({"code": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
    ],
)
async def test_an_exchange_that_contradicts_its_authorization_request_is_refused(
    application: Application, changes: dict[str, str], error: str
) -> None:
    code = (await application.walk())["code"]
    status, refusal = await application.redeem(code, **changes)
    assert (status, refusal["error"]) == (400, error)


async def test_a_code_expires_after_a_minute(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (await application.walk())["code"]
    _advance_clock(monkeypatch, seconds=61)
    assert (await application.redeem(code))[1]["error"] == "invalid_grant"


async def test_refresh_rotates_and_a_replay_revokes_the_whole_grant(application: Application) -> None:
    first = await application.connect()
    status, second = await application.refresh(first["refresh_token"])
    assert status == 200
    assert second["refresh_token"] != first["refresh_token"]
    assert (await application.get(MYSELF, second["access_token"]))[0] == 200
    status, refusal = await application.refresh(first["refresh_token"])
    assert (status, refusal["error"]) == (400, "invalid_grant")
    assert (await application.get(MYSELF, second["access_token"]))[0] == 401
    assert (await application.refresh(second["refresh_token"]))[0] == 400


async def test_a_refresh_may_narrow_the_scopes_but_not_widen_them(application: Application) -> None:
    tokens = await application.connect(scope="read:sandbox-work offline_access")
    status, narrow = await application.refresh(tokens["refresh_token"], scope="offline_access")
    assert (status, narrow["scope"]) == (200, "offline_access")
    status, refusal = await application.refresh(narrow["refresh_token"], scope="write:sandbox-work")
    assert (status, refusal["error"]) == (400, "invalid_scope")
    status, again = await application.refresh(narrow["refresh_token"])
    assert (status, again["scope"]) == (200, "read:sandbox-work offline_access")


async def test_an_access_token_expires_on_time(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = await application.connect()
    _advance_clock(monkeypatch, seconds=60)
    assert (await application.get(MYSELF, tokens["access_token"]))[0] == 401
    assert (await application.refresh(tokens["refresh_token"]))[0] == 200


async def test_basic_authentication_works_in_place_of_the_body(application: Application) -> None:
    tokens = await application.connect()
    basic = {"Authorization": aiohttp.encode_basic_auth(CLIENT.client_id, SECRET)}
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    async with application.browser.post(f"{application.base}/oauth/token", data=form, headers=basic) as response:
        assert response.status == 200


async def test_two_client_authentications_in_one_request_are_refused(application: Application) -> None:
    basic = {"Authorization": aiohttp.encode_basic_auth(CLIENT.client_id, SECRET)}
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_secret": SECRET}
    async with application.browser.post(f"{application.base}/oauth/token", data=form, headers=basic) as response:
        assert (response.status, (await response.json())["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "authorization", ["Basic !!!", "Basic bm9jb2xvbg==", "Bearer x", "Basic c2FuZGJveC1kZW1vOndyb25n"]
)
async def test_a_wrong_client_is_401_and_says_how_to_authenticate(application: Application, authorization: str) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "x"}
    headers = {"Authorization": authorization}
    async with application.browser.post(f"{application.base}/oauth/token", data=form, headers=headers) as response:
        assert (response.status, (await response.json())["error"]) == (401, "invalid_client")
        assert response.headers["WWW-Authenticate"].startswith("Basic")


async def test_a_json_body_is_taken_too_but_nothing_else(application: Application) -> None:
    tokens = await application.connect()
    sent = {
        "grant_type": "refresh_token",
        "refresh_token": tokens["refresh_token"],
        "client_id": CLIENT.client_id,
        "client_secret": SECRET,
    }
    url = f"{application.base}/oauth/token"
    async with application.browser.post(url, json=sent) as response:
        assert response.status == 200
    for body, kind in [(b"[]", "application/json"), (b"{", "application/json"), (b"grant_type=x", "text/plain")]:
        async with application.browser.post(url, data=body, headers={"Content-Type": kind}) as response:
            assert (response.status, (await response.json())["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("kind", ["refresh_token", "access_token"])
async def test_revocation_ends_the_token_or_its_grant(application: Application, kind: str) -> None:
    tokens = await application.connect()
    form = {"token": tokens[kind], "client_id": CLIENT.client_id, "client_secret": SECRET}
    async with application.browser.post(f"{application.base}/oauth/revoke", data=form) as response:
        assert response.status == 200
    assert (await application.get(MYSELF, tokens["access_token"]))[0] == 401
    assert (await application.refresh(tokens["refresh_token"]))[0] == (400 if kind == "refresh_token" else 200)


async def test_revoking_an_unknown_token_is_not_an_error(application: Application) -> None:
    form = {"token": "sbx_rt_nobody_knows", "client_id": CLIENT.client_id, "client_secret": SECRET}
    async with application.browser.post(f"{application.base}/oauth/revoke", data=form) as response:
        assert response.status == 200


def _advance_clock(monkeypatch: pytest.MonkeyPatch, *, seconds: int) -> None:
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=seconds))
