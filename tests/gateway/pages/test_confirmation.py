"""Nothing is sent to a provider, and nothing is stored, before a user has seen in this browser whom it is for."""

import re
import uuid
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import aiohttp
import pytest

from gateway.pages.frame import LANGUAGES, PageWords
from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway
from tests.fakes.pages import BROWSER, consent_url, hidden_inputs, submit
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow

CHROME = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0"}
ADA = {"id": "u-1", "display_name": "Ada Lovelace", "email": "ada@example.com"}


@pytest.fixture
async def bob() -> AsyncIterator[aiohttp.ClientSession]:
    """Another user's browser."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield http


async def link(running: RunningGateway, **session: Any) -> tuple[str, str]:
    """Open a session's link in the first browser. Return the URL of the session's pages, and the token."""
    token = await running.session_token(**{"end_user": ADA, "allowed_integrations": ["tracker"], **session})
    return await open_connect_page(running, running.http, token), token


async def open_connect_page(running: RunningGateway, http: aiohttp.ClientSession, token: str) -> str:
    async with http.get(f"{running.url}/connect?session_token={token}", headers=BROWSER) as response:
        return str(response.url)


async def connections(running: RunningGateway) -> list[Any]:
    found: list[Any] = (await running.json("GET", "/connections"))["connections"]
    return found


@pytest.mark.parametrize("headers", [BROWSER, CHROME, {"Sec-Fetch-Mode": "navigate"}])
async def test_page_shows_who_connects_before_the_redirect_to_the_provider(
    running: RunningGateway, tracker: Tracker, headers: dict[str, str]
) -> None:
    token = await running.session_token(end_user=ADA)
    url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(url, headers=headers) as page:
        html = await page.text()
        assert (page.status, page.history[0].status) == (200, 303)
        assert token not in str(page.url)
    assert "For Ada Lovelace" in unescape(html)
    assert "authorize" not in tracker.calls
    consent = await consent_url(running.http, str(page.url), {"asked": hidden_inputs(html)["asked"]})
    async with running.http.get(consent, headers=BROWSER) as response:
        assert (response.status, "is connected" in await response.text()) == (200, True)
        assert "code=" not in str(response.url)
    assert len(await connections(running)) == 1


async def test_program_without_cookies_is_redirected(running: RunningGateway, tracker: Tracker) -> None:
    token = await running.session_token(end_user=ADA)
    url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(url, allow_redirects=False) as response:
        assert response.status == 302
        assert response.headers["Location"].startswith(f"{tracker.url}/authorize?")


async def test_options_of_the_url_apply_after_the_confirmation(running: RunningGateway, tracker: Tracker) -> None:
    token = await running.session_token(end_user=ADA)
    options = (
        "&params[subdomain]=globex&authorization_params[prompt]=consent&user_scope=read:mail"
        "&credentials[oauth_client_id_override]=own&credentials[oauth_client_secret_override]=own-secret-01"
    )
    url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}{options}"
    async with running.http.get(url, headers=BROWSER) as page:
        html, where = await page.text(), str(page.url)
    assert "own-secret-01" not in html + where
    assert "read:mail" in html
    consent = await consent_url(running.http, where)
    assert "prompt=consent" in consent
    assert "client_id=own" in consent
    async with running.http.get(consent):
        pass
    (listed,) = await connections(running)
    connection = await running.json("GET", f"/connections/{listed['connection_id']}?provider_config_key=tracker")
    assert connection["connection_config"]["subdomain"] == "globex"
    assert connection["credentials"]["config_override"]["client_secret"] == "own-secret-01"


async def test_an_authorization_that_cannot_begin_is_refused_before_the_confirmation(running: RunningGateway) -> None:
    token = await running.session_token(allowed_integrations=["tracker"])
    url = f"{running.url}/oauth/connect/nothing?connect_session_token={token}"
    async with running.http.get(url, headers=BROWSER) as page:
        assert (page.status, page.headers["Gateway-Error"]) == (400, "unknown_provider_config")


@pytest.mark.parametrize("confirmation", [None, "", "0" * 64, "ü" * 64])
async def test_form_not_shown_in_this_browser_is_refused(
    running: RunningGateway, tracker: Tracker, confirmation: str | None
) -> None:
    url, _ = await link(running)
    form = {} if confirmation is None else {"confirmation": confirmation}
    async with running.http.post(f"{url}/i/tracker", data=form, allow_redirects=False) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")
        again = await response.text()
    assert hidden_inputs(again)["confirmation"]  # the page itself, where one click is enough
    assert "gw-flow" not in str(response.cookies)
    assert not tracker.calls


async def test_a_confirmation_of_another_browser_is_refused(
    running: RunningGateway, tracker: Tracker, bob: aiohttp.ClientSession
) -> None:
    url, token = await link(running)
    async with running.http.get(url, headers=BROWSER) as page:
        hidden = hidden_inputs(await page.text())
    await open_connect_page(running, bob, token)
    async with bob.post(f"{url}/i/tracker", data=hidden, allow_redirects=False) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")
    assert not tracker.calls


async def test_confirmation_is_valid_for_one_integration_only(running: RunningGateway) -> None:
    environment = running.document["environments"]["dev"]
    environment["integrations"]["second"] = dict(environment["integrations"]["tracker"])
    await running.restart()
    url, _ = await link(running, allowed_integrations=["tracker", "second"])
    async with running.http.get(f"{url}/i/tracker", headers=BROWSER) as page:
        hidden = hidden_inputs(await page.text())
    async with running.http.post(f"{url}/i/second", data=hidden, allow_redirects=False) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")


async def test_two_tabs_of_one_browser_can_both_be_confirmed(running: RunningGateway) -> None:
    url, _ = await link(running)
    tabs = []
    for _ in range(2):
        async with running.http.get(url, headers=BROWSER) as page:
            tabs.append(hidden_inputs(await page.text()))
    for hidden in tabs:
        async with running.http.post(f"{url}/i/tracker", data=hidden, allow_redirects=False) as response:
            assert (response.status, "/leave/" in response.headers["Location"]) == (303, True)


async def test_a_single_use_link_serves_only_the_browser_that_began(
    running: RunningGateway, bob: aiohttp.ClientSession
) -> None:
    url, token = await link(running, single_use=True)
    bobs = await open_connect_page(running, bob, token)  # viewing the page does not use up the link
    consent = await consent_url(running.http, url)
    async with bob.get(bobs, headers=BROWSER) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_in_use")
        assert "another browser" in await response.text()
    for path in ("/connect?session_token=", "/oauth/connect/tracker?connect_session_token="):
        async with bob.get(f"{running.url}{path}{token}", headers=BROWSER) as response:
            assert response.headers["Gateway-Error"] == "connect_session_in_use"
    async with bob.get(
        f"{running.url}/oauth/connect/tracker?connect_session_token={token}", allow_redirects=False
    ) as response:
        assert response.status == 403
    async with running.http.get(consent, headers=BROWSER) as response:
        assert "is connected" in await response.text()
    async with running.http.get(url, headers=BROWSER) as response:
        assert "is already connected" in await response.text()
        assert "Connect another" not in await response.text()
    assert len(await connections(running)) == 1


async def test_only_one_of_several_browsers_that_confirm_together_continues(
    running: RunningGateway, bob: aiohttp.ClientSession
) -> None:
    url, token = await link(running, single_use=True)
    await open_connect_page(running, bob, token)
    forms = []
    for http in (running.http, bob):
        async with http.get(url, headers=BROWSER) as page:
            forms.append((http, hidden_inputs(await page.text())))
    statuses = []
    for http, hidden in forms:
        async with http.post(f"{url}/i/tracker", data=hidden, allow_redirects=False) as response:
            statuses.append(response.status)
    assert statuses == [303, 403]


async def test_unconfirmed_form_in_a_frame_is_accepted_only_from_its_own_origin(
    running: RunningGateway, tracker: Tracker
) -> None:
    token = await running.session_token(end_user=ADA)
    form = {"connect_session_token": token, "ws_client_id": "w"}
    url = f"{running.url}/connect/s/embedded/i/tracker"
    for headers in ({}, {"Origin": "null"}):
        async with running.http.post(url, data=form, headers=headers, allow_redirects=False) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")
    ours = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    async with running.http.post(url, data=form, headers=ours, allow_redirects=False) as response:
        assert (response.status, "/leave/" in response.headers["Location"]) == (303, True)


async def test_the_page_names_the_agent_that_requests_access(running: RunningGateway) -> None:
    body = {
        "display_name": "invoice agent",
        "scopes": ["environment:connect_sessions:write", "environment:proxy"],
        "limits": {"integrations": ["tracker"]},
    }
    minted = await running.json("POST", "/environment/api-keys", json=body)
    headers = {"Authorization": f"Bearer {minted['data']['secret']}"}
    body = {"end_user": ADA}
    async with running.http.post(f"{running.url}/connect/sessions", headers=headers, json=body) as response:
        made = await response.json()
    async with running.http.get(made["data"]["connect_link"], headers=BROWSER) as page:
        html = unescape(await page.text())
    assert "At the request of “invoice agent”" in html
    assert "For Ada Lovelace" in html


@pytest.mark.parametrize("lang", LANGUAGES)
async def test_a_reconnect_shows_no_uuid(running: RunningGateway, lang: str) -> None:
    """Only a UUID identifies the end user, and the gateway generated the connection's id."""
    end_user = {"id": str(uuid.uuid4())}
    await walk_flow(running, await running.session_token(end_user=end_user))
    (row,) = await connections(running)
    connection = await running.runtime.store.connections.get(ConnectionRef("dev", "tracker", row["connection_id"]))
    assert connection is not None
    body = {"connection_id": row["connection_id"], "integration_id": "tracker"}
    session = (await running.json("POST", "/connect/sessions/reconnect", json=body))["data"]
    async with running.http.get(f"{session['connect_link']}&lang={lang}", headers=BROWSER) as page:
        html = unescape(await page.text())
    shown = re.sub(r"<[^>]+>", " ", html.partition("<main")[2])
    assert PageWords(lang)("for_one_connection", app=PageWords(lang).plain("the_app"), name="Tracker") in shown
    assert connection.account.label is None or connection.account.label in shown
    for unseen in (row["connection_id"], end_user["id"]):
        assert unseen not in shown


async def test_an_id_that_people_may_know_is_shown(running: RunningGateway) -> None:
    url, _ = await link(running, end_user={"id": "ada"})
    async with running.http.get(url, headers=BROWSER) as page:
        assert "For ada" in await page.text()


async def test_tags_are_enough_to_show_the_persons_name(running: RunningGateway) -> None:
    url, _ = await link(running, end_user=None, tags={"end_user_display_name": "Ada by tag"})
    async with running.http.get(url, headers=BROWSER) as page:
        assert "For Ada by tag" in await page.text()


async def test_url_of_the_provider_is_for_the_browser_that_began(
    running: RunningGateway, tracker: Tracker, bob: aiohttp.ClientSession
) -> None:
    url, token = await link(running)
    response = await submit(running.http, f"{url}/i/tracker")
    leave_url = str(response.url)
    async with running.http.get(leave_url, headers=BROWSER) as again:  # loaded again: the same authorization
        assert re.findall(r"state=[^&]+", await again.text())[0] in await response.text()
    await open_connect_page(running, bob, token)
    async with bob.get(leave_url, headers=BROWSER) as page:
        assert tracker.url not in await page.text()
        assert str(page.url) == url
