"""From a connect session to a stored connection, as a browser does it, and every attack that must fail on the way."""

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

UNUSABLE = "the provider has an outage, or token_url of its catalog entry is wrong."
REFUSED = "the integration's client ID, client secret or callback URL is wrong."


async def start_flow(running: RunningGateway, token: str, query: str = "", integration: str = "tracker") -> Any:
    """Start the flow as a browser does. Return the response without following its redirect."""
    url = f"{running.url}/oauth/connect/{integration}?connect_session_token={token}{query}"
    return await running.http.get(url, allow_redirects=False)


async def walk_flow(running: RunningGateway, token: str, query: str = "") -> tuple[int, str]:
    """Walk the whole flow. Return the callback's status and page."""
    url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}{query}"
    async with running.http.get(url) as response:
        return response.status, await response.text()


async def test_end_user_connects_and_the_application_calls_the_api(running: RunningGateway, tracker: Tracker) -> None:
    token = await running.session_token()
    status, html = await walk_flow(running, token)
    assert (status, "is connected" in html) == (200, True)
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    connection_id = listed["connection_id"]
    async with running.call_proxy(connection_id, "/ex/x") as response:
        assert (await response.json())["path"] == "/ex/x"
    connection = await running.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert connection["connection_config"]["cloudId"] == "cloud-1"
    assert connection["connection_config"]["subdomain"] == "acme"
    assert connection["end_user"]["id"] == "u1"
    assert connection["tags"]["end_user_id"] == "u1"


async def test_the_request_to_the_provider_is_complete(running: RunningGateway, tracker: Tracker) -> None:
    await walk_flow(running, await running.session_token())
    query = tracker.authorize_query
    assert query["redirect_uri"] == f"{running.url}/oauth/callback"
    assert query["scope"] == "offline_access"
    assert query["code_challenge_method"] == "S256"
    sent = tracker.token_requests[0]
    assert sent["redirect_uri"] == query["redirect_uri"]
    assert len(sent["code_verifier"]) >= 43
    assert "Authorization" not in tracker.token_headers[0]


async def test_a_chosen_site_is_stored(running: RunningGateway) -> None:
    status, html = await walk_flow(running, await running.session_token(), "&params[subdomain]=GLOBEX")
    assert (status, "globex" in html) == (200, True)
    listed = await running.json("GET", "/connections")
    connection_id = listed["connections"][0]["connection_id"]
    connection = await running.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert connection["connection_config"]["cloudId"] == "cloud-2"


async def test_a_site_that_does_not_exist_refuses_the_connection_and_names_the_sites(running: RunningGateway) -> None:
    status, html = await walk_flow(running, await running.session_token(), "&params[subdomain]=nowhere")
    assert status == 400
    assert "acme, globex" in html
    assert (await running.json("GET", "/connections"))["connections"] == []


async def test_the_sessions_own_settings_win_over_the_browsers(running: RunningGateway) -> None:
    token = await running.session_token(
        integrations_config_defaults={"tracker": {"connection_config": {"subdomain": "globex"}}}
    )
    _, html = await walk_flow(running, token, "&params[subdomain]=acme")
    assert "globex" in html


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", "invalid_connect_session_token_format"),
        ("nonsense", "invalid_connect_session_token_format"),
        ("nango_connect_session_" + "z" * 64, "invalid_connect_session_token_format"),
        ("nango_connect_session_" + "0" * 64, "unknown_connect_session_token"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_flow_without_a_valid_session_is_refused(shared_gateway: RunningGateway, token: str, code: str) -> None:
    response = await start_flow(shared_gateway, token)
    assert (response.status, (await response.json())["error"]["code"]) == (401, code)


async def test_session_starts_flows_only_for_offered_integrations(running: RunningGateway) -> None:
    response = await start_flow(running, await running.session_token(), integration="other")
    assert (response.status, (await response.json())["error"]["code"]) == (404, "unknown_provider_config")
    body = await running.json(
        "POST", "/connect/sessions", json={"end_user": {"id": "u"}, "allowed_integrations": ["other"]}, expect=400
    )
    assert body["error"]["errors"][0]["path"] == ["allowed_integrations", "0"]


async def callback_url(running: RunningGateway, tracker: Tracker) -> str:
    """Return the callback URL of a flow, without opening it."""
    response = await start_flow(running, await running.session_token())
    async with running.http.get(response.headers["Location"], allow_redirects=False) as consent:
        return consent.headers["Location"]


async def test_a_state_can_be_used_only_once(running: RunningGateway, tracker: Tracker) -> None:
    url = await callback_url(running, tracker)
    jar = {c.key: c.value for c in running.http.cookie_jar}

    async def request_callback() -> int:
        jar_of_its_own = aiohttp.CookieJar(unsafe=True)
        async with (
            aiohttp.ClientSession(cookies=jar, cookie_jar=jar_of_its_own) as browser,
            browser.get(url) as response,
        ):
            await response.read()
            return response.status

    statuses = await asyncio.gather(*(request_callback() for _ in range(20)))
    assert sorted(statuses) == [200] + [400] * 19
    assert tracker.calls["authorization_code"] == 1


async def test_another_browser_cannot_finish_or_end_the_flow(running: RunningGateway, tracker: Tracker) -> None:
    url = await callback_url(running, tracker)
    async with aiohttp.ClientSession() as stranger, stranger.get(url) as response:
        assert response.status == 400
        assert "another browser" in await response.text()
    assert tracker.calls["authorization_code"] == 0
    async with running.http.get(url) as response:
        assert response.status == 200


@pytest.mark.parametrize("query", ["", "?code=x", "?state=unknown&code=x", "?state=unknown"])
@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_state_shows_an_error_page(shared_gateway: RunningGateway, query: str) -> None:
    async with shared_gateway.http.get(f"{shared_gateway.url}/oauth/callback{query}") as response:
        assert response.status == 400
        assert response.content_type == "text/html"
        assert response.headers["Gateway-Error"] == "invalid_state"
        assert "tart again" in await response.text()


async def test_the_providers_refusal_is_shown_and_escaped(running: RunningGateway, tracker: Tracker) -> None:
    url = await callback_url(running, tracker)
    state = dict(parse_qsl(urlsplit(url).query))["state"]
    words = "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E"
    async with running.http.get(f"{running.url}/oauth/callback?state={state}&{words}") as response:
        html = await response.text()
        assert response.status == 400
        assert "access_denied" in html
        assert "<dt>Connection</dt>" not in html  # no connection exists
        assert "<script>alert" not in html
        assert "script-src 'nonce-" in response.headers["Content-Security-Policy"]


async def test_a_response_of_another_issuer_is_not_used(running: RunningGateway, tracker: Tracker) -> None:
    tracker.callback_extra = {"iss": "https://evil.example"}
    status, html = await walk_flow(running, await running.session_token())
    assert (status, "another issuer" in html) == (400, True)
    assert tracker.calls["authorization_code"] == 0


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        (web.Response(text="<html>Sign in</html>", content_type="text/html"), UNUSABLE),
        (web.Response(body=b" " * (2 << 20), content_type="application/json"), UNUSABLE),
        (web.json_response({"token_type": "bearer"}), UNUSABLE),
        (web.json_response({"error": "invalid_client", "error_description": "who?"}, status=401), REFUSED),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), UNUSABLE),
        (web.Response(status=500), UNUSABLE),
        (web.Response(status=400), REFUSED),
    ],
    ids=["html", "too large", "no token", "refused", "redirect", "500", "400"],
)
async def test_bad_token_response_shows_an_error_page_and_stores_nothing(
    running: RunningGateway, tracker: Tracker, response: web.Response, cause: str
) -> None:
    tracker.response = response
    status, html = await walk_flow(running, await running.session_token())
    assert (status, "did not exchange the code" in html) == (400, True)
    assert f"if it happens again, {cause}" in unescape(html)
    assert (await running.json("GET", "/connections"))["connections"] == []


async def test_the_state_cookie_is_http_only_and_same_site_lax(running: RunningGateway) -> None:
    response = await start_flow(running, await running.session_token())
    cookie = response.headers["Set-Cookie"]
    assert re.match(r"gw-flow-\d+=", cookie)
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert response.headers["Cache-Control"] == "no-store"


async def test_the_connect_link_lists_the_sessions_integrations(running: RunningGateway) -> None:
    body = await running.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}}, expect=201)
    async with running.http.get(body["data"]["connect_link"]) as response:
        html = await response.text()
    assert response.status == 200
    assert "/i/tracker" in html
    assert "Tracker" in html
    async with running.http.get(f"{running.url}/connect?session_token=nonsense") as response:
        assert (response.status, response.content_type) == (401, "text/html")


async def test_session_needs_an_end_user_or_tags(running: RunningGateway) -> None:
    body = await running.json("POST", "/connect/sessions", json={}, expect=400)
    assert body["error"]["code"] == "invalid_body"
    await running.json("POST", "/connect/sessions", json={"tags": {"team": "x"}}, expect=201)


async def test_nothing_of_a_flow_can_be_read_from_the_database(
    running: RunningGateway, tracker: Tracker, tmp_path: Path
) -> None:
    token = await running.session_token()
    await walk_flow(running, token)
    secrets = [
        token,
        *(sent[name] for sent in tracker.token_requests for name in ("code", "code_verifier", "client_secret")),
        *(grant.refresh_token for grant in tracker.grants),
        *(access for grant in tracker.grants for access in grant.access_tokens),
        tracker.authorize_query["state"],
    ]
    files = [path for path in tmp_path.iterdir() if path.name.startswith("gateway.db")]
    assert files
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in content], path


async def test_browser_gets_a_page_when_a_flow_cannot_start(running: RunningGateway) -> None:
    url = f"{running.url}/oauth/connect/other?connect_session_token={await running.session_token()}"
    async with running.http.get(url, headers={"Accept": "text/html,*/*"}) as response:
        assert (response.status, response.content_type) == (400, "text/html")
        assert response.headers["Gateway-Error"] == "unknown_provider_config"


@pytest.mark.parametrize("name", ["subdomain", "SUBDOMAIN", "Subdomain"])
async def test_no_spelling_of_a_setting_overrides_the_value_of_the_session(running: RunningGateway, name: str) -> None:
    token = await running.session_token(
        integrations_config_defaults={"tracker": {"connection_config": {"subdomain": "globex"}}}
    )
    _, html = await walk_flow(running, token, f"&params[{name}]=acme&params[subdomain]=acme")
    assert "globex" in html


async def test_grant_is_stored_although_the_browser_disconnects(running: RunningGateway, tracker: Tracker) -> None:
    url = await callback_url(running, tracker)
    tracker.hold.clear()
    disconnecting = asyncio.create_task(running.http.get(url))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["authorization_code"] == 0:
            await asyncio.sleep(0)
    disconnecting.cancel()
    await asyncio.gather(disconnecting, return_exceptions=True)
    tracker.hold.set()
    async with asyncio.timeout(PATIENCE_S):
        while not (await running.json("GET", "/connections"))["connections"]:
            await asyncio.sleep(0)
    assert tracker.calls["authorization_code"] == 1


async def test_connection_keeps_the_end_user_of_a_session_that_ends_during_consent(
    running: RunningGateway, tracker: Tracker
) -> None:
    token = await running.session_token(end_user={"id": "u7"}, tags={"team": "x"})
    authorization = await start_flow(running, token)
    async with running.http.get(authorization.headers["Location"], allow_redirects=False) as consent:
        url = consent.headers["Location"]
    await running.runtime.sessions.end(await running.runtime.sessions.find(token))
    async with running.http.get(url) as response:
        assert response.status == 200
    listed = (await running.json("GET", "/connections"))["connections"][0]
    assert (listed["end_user"]["id"], listed["tags"]["team"]) == ("u7", "x")


async def test_a_browser_cannot_set_protocol_parameters_or_scopes(running: RunningGateway, tracker: Tracker) -> None:
    query = "&authorization_params[scope]=admin&authorization_params[redirect_uri]=https://evil.example"
    await walk_flow(running, await running.session_token(), f"{query}&authorization_params[prompt]=login")
    asked = tracker.authorize_query
    assert (asked["scope"], asked["prompt"]) == ("offline_access", "login")
    assert asked["redirect_uri"].startswith(running.url)


@pytest.mark.parametrize("scopes", ["read write", "read,write", ["read", "write"]])
async def test_a_sessions_scopes_replace_the_integrations(
    running: RunningGateway, tracker: Tracker, scopes: Any
) -> None:
    override = {"tracker": {"connection_config": {"oauth_scopes_override": scopes}}}
    await walk_flow(running, await running.session_token(integrations_config_defaults=override))
    assert tracker.authorize_query["scope"] == "read write"


async def test_error_texts_of_the_provider_are_shown_without_our_secrets(
    running: RunningGateway, tracker: Tracker
) -> None:
    secret = running.document["environments"]["dev"]["integrations"]["tracker"]["client_secret"]
    tracker.response = web.json_response({"error": "invalid_client", "error_description": f"bad secret {secret}"})
    status, html = await walk_flow(running, await running.session_token())
    assert status == 400
    assert "bad secret ***" in html
    assert secret not in html


async def test_secret_settings_of_a_session_are_sealed(running: RunningGateway, tmp_path: Path) -> None:
    fixed = {"tracker": {"connection_config": {"pin": "MARKPIN"}}}
    token = await running.session_token(integrations_config_defaults=fixed)
    session = await running.runtime.sessions.find(token)
    assert session.defaults == fixed
    for path in tmp_path.glob("gateway.db*"):
        assert b"MARKPIN" not in path.read_bytes(), path


@pytest.mark.parametrize("token", ["", "x", "nango_connect_session_", "nango_connect_session_" + "0" * 64])
@pytest.mark.asyncio(loop_scope="module")
async def test_invalid_link_shows_an_error_page(shared_gateway: RunningGateway, token: str) -> None:
    async with shared_gateway.http.get(f"{shared_gateway.url}/connect?session_token={token}") as response:
        html = await response.text()
        assert response.status == 401
        assert "This link is not complete or has expired. Ask the application you came from for a new link." in html
        assert "POST" not in html


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("&error=access_denied&error_description=You%20refused%20it.", "access_denied: You refused it. Nothing"),
        ("&error=access_denied&error_description=No...%20", "access_denied: No. Nothing"),
        ("", "neither a code nor an error back. Start again from the application"),
    ],
)
async def test_a_failure_is_reported_in_sentences_with_the_next_step(
    running: RunningGateway, tracker: Tracker, sent: str, expected: str
) -> None:
    state = dict(parse_qsl(urlsplit(await callback_url(running, tracker)).query))["state"]
    async with running.http.get(f"{running.url}/oauth/callback?state={state}{sent}") as response:
        html = await response.text()
    assert expected in html
    assert ".." not in html
