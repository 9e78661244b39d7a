"""Options of a connect session: lifetime, number of connections, browser, code challenge and return URL."""

from datetime import datetime
from typing import Any

import pytest

from gateway import clock
from gateway.records.connecting import ConnectSession
from gateway.secret import digest
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_connect_endpoints import create_session

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, appendix B


async def stored_session(running: RunningGateway, token: str) -> ConnectSession:
    found = await running.runtime.store.sessions.get(digest(token), now=clock.now())
    assert found is not None
    return found


async def test_session_without_options_has_the_defaults(running: RunningGateway) -> None:
    response = await create_session(running)
    session = await stored_session(running, response["token"])
    assert 1790 < (datetime.fromisoformat(response["expires_at"]) - clock.now()).total_seconds() <= 1800
    assert (session.single_use, session.max_connections, session.needs_completion) == (False, None, False)
    assert (session.return_url, session.return_state, session.browser_digest) == (None, None, None)


@pytest.mark.parametrize("seconds", [60, 604800])
async def test_session_has_the_requested_lifetime(running: RunningGateway, seconds: int) -> None:
    response = await create_session(running, expires_in=seconds)
    remaining_s = (datetime.fromisoformat(response["expires_at"]) - clock.now()).total_seconds()
    assert seconds - 30 < remaining_s <= seconds


async def test_the_options_are_stored(running: RunningGateway) -> None:
    return_url = "http://127.0.0.1:8000/done?tab=1"
    response = await create_session(
        running,
        max_connections=2,
        single_use=True,
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        return_url=return_url,
        state="xyz",
    )
    session = await stored_session(running, response["token"])
    assert (session.max_connections, session.single_use, session.code_challenge) == (2, True, CHALLENGE)
    assert (session.return_url, session.return_state) == (return_url, "xyz")


async def test_single_use_session_creates_one_connection_unless_max_connections_is_set(running: RunningGateway) -> None:
    assert (
        await stored_session(running, (await create_session(running, single_use=True))["token"])
    ).max_connections == 1


async def test_a_reconnect_session_has_the_same_options(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), "u1")
    body = {"connection_id": "u1", "integration_id": "tracker", "expires_in": 90, "code_challenge": CHALLENGE}
    response = await running.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    session = await stored_session(running, response["data"]["token"])
    assert session.needs_completion
    assert (session.expires_at - clock.now()).total_seconds() <= 90


@pytest.mark.parametrize(
    ("options", "path", "says"),
    [
        ({"expires_in": 59}, "expires_in", "60 or more"),
        ({"expires_in": 604801}, "expires_in", "604800 or less"),
        ({"expires_in": "90"}, "expires_in", "whole number"),
        ({"max_connections": 0}, "max_connections", "1 or more"),
        ({"max_connections": 1001}, "max_connections", "1000 or less"),
        ({"single_use": 1}, "single_use", "true or false"),
        ({"code_challenge": CHALLENGE + "="}, "code_challenge", "43 characters"),
        ({"code_challenge": CHALLENGE[:-1] + "+"}, "code_challenge", "43 characters"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "code_challenge_method", "S256"),
        ({"return_url": "http://app.example.com/"}, "return_url", "must be https"),
        ({"return_url": "https://app.example.com/#x"}, "return_url", "'#'"),
        ({"return_url": "https://user@app.example.com/"}, "return_url", "user name"),
        ({"return_url": "javascript:alert(1)"}, "return_url", "https"),
        ({"return_url": "//app.example.com/"}, "return_url", "https"),
        ({"return_url": "https://app.example.com\\@evil.example/"}, "return_url", "https"),
        ({"return_url": "https://app.example.com:0x50/"}, "return_url", "https"),
        ({"return_url": "https://app.example.com/" + "x" * 2048}, "return_url", "2048"),
        ({"return_url": "https://app.example.com/?state=1"}, "return_url", "state"),
        ({"return_url": "https://app.example.com/?x=1&result"}, "return_url", "result"),
        ({"return_url": "https://unregistered.example/"}, "return_url", "connect_origins"),
        ({"return_url": "http://127.0.0.1/", "state": "s" * 513}, "state", "512"),
        (
            {"integrations_config_defaults": {"tracker": {"authorization_params": {"a": "x" * 65_536}}}},
            "integrations_config_defaults",
            "the limit is 65,536",
        ),
        (
            {"integrations_config_defaults": {"tracker": {"connection_config": {"a": ["x"] * 30_000}}}},
            "integrations_config_defaults",
            "the limit is 65,536",
        ),
        (
            {"overrides": {f"t{n}": {"docs_connect": "https://x.example/" + "y" * 2000} for n in range(40)}},
            "overrides",
            "the limit is 65,536",
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_error_names_wrong_options(
    shared_gateway: RunningGateway, options: dict[str, Any], path: str, says: str
) -> None:
    body = {"end_user": {"id": "u1"}, **options}
    response = await shared_gateway.json("POST", "/connect/sessions", json=body, expect=400)
    (fault,) = response["error"]["errors"]
    assert (response["error"]["code"], fault["path"]) == ("invalid_body", [path])
    assert says in fault["message"]


@pytest.mark.parametrize("scopes", [[{}], [["read"]], [1], {"read": True}, 7])
@pytest.mark.asyncio(loop_scope="module")
async def test_error_names_fixed_scopes_that_are_not_text(shared_gateway: RunningGateway, scopes: Any) -> None:
    """Such scopes used to cause a 500, here or when the end user connected."""
    defaults = {"tracker": {"connection_config": {"oauth_scopes_override": scopes}}}
    body = {"end_user": {"id": "u1"}, "integrations_config_defaults": defaults}
    error = (await shared_gateway.json("POST", "/connect/sessions", json=body, expect=400))["error"]
    place = ["integrations_config_defaults", "tracker", "connection_config", "oauth_scopes_override"]
    assert error["code"] == "invalid_body"
    assert all(item["path"][:4] == place for item in error["errors"])


@pytest.mark.parametrize("options", [{"code_challenge_method": "S256"}, {"state": "s"}])
async def test_option_without_its_counterpart_is_refused(running: RunningGateway, options: dict[str, Any]) -> None:
    body = await running.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}, **options}, expect=400)
    assert "send" in body["error"]["message"]


async def test_return_url_may_be_a_page_of_a_registered_origin(running: RunningGateway) -> None:
    running.document["environments"]["dev"]["connect_origins"] = ["https://app.example.com"]
    await running.restart()
    for url in ("https://app.example.com/back", "https://APP.example.com:443/back?x=%20y"):
        assert (
            await stored_session(running, (await create_session(running, return_url=url))["token"])
        ).return_url == url
    body = {"end_user": {"id": "u1"}, "return_url": "https://app.example.com:8443/"}
    await running.json("POST", "/connect/sessions", json=body, expect=400)


async def test_an_environment_may_require_a_code_challenge(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), "u1")
    running.document["environments"]["dev"]["connect_binding"] = "required"
    await running.restart()
    calls = {
        "/connect/sessions": {"end_user": {"id": "u1"}},
        "/connect/sessions/reconnect": {"connection_id": "u1", "integration_id": "tracker"},
    }
    for path, body in calls.items():
        response = await running.json("POST", path, json=body, expect=400)
        (fault,) = response["error"]["errors"]
        assert (response["error"]["code"], fault["path"]) == ("invalid_body", ["code_challenge"])
        assert "connect_binding" in fault["message"]
        await running.json("POST", path, json={**body, "code_challenge": CHALLENGE}, expect=201)
