"""Result pages can be reloaded, show no ids, and link back to the application."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from yarl import URL

from gateway.client import code_challenge, new_code_verifier, verify_return
from gateway.errors import InvalidRequest, Unavailable
from gateway.events.signatures import signing_keys
from gateway.pages.error_page import advice
from gateway.pages.frame import LANGUAGES, PageWords
from tests.fakes.gateways import RunningGateway
from tests.fakes.pages import BROWSER, consent_url, submit
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_completion import declare_key_integration
from tests.gateway.pages.test_confirmation import ADA, connections, link, open_connect_page

APP = "http://127.0.0.1:9/back?tab=2"


def browser() -> aiohttp.ClientSession:
    """Return a browser with its own cookies."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def last_page_of_flow(
    running: RunningGateway, url: str, headers: Mapping[str, str] = BROWSER
) -> aiohttp.ClientResponse:
    """Return the last page of the flow, or the redirect out of the gateway. `headers`: for the provider's callback."""
    consent = await consent_url(running.http, url)
    async with running.http.get(consent, headers=BROWSER, allow_redirects=False) as granted:
        callback = granted.headers["Location"]
    async with running.http.get(callback, headers=headers, allow_redirects=False) as response:
        await response.read()
        return response


async def text_of(running: RunningGateway, url: str) -> str:
    async with running.http.get(url, headers=BROWSER) as response:
        return await response.text()


def result_in(url: str, key: str, state: str | None = None) -> Any:
    return verify_return(url, key, audience="http://127.0.0.1:9", state=state)


async def test_result_has_its_own_url_without_ids(running: RunningGateway) -> None:
    url, _ = await link(running)
    response = await last_page_of_flow(running, url)
    assert (response.status, response.headers["Location"]) == (303, f"{url}/i/tracker/result")
    html = await text_of(running, response.headers["Location"])
    assert "is connected" in html
    (connection,) = await connections(running)
    visible = html.partition("<h1")[2]
    assert connection["connection_id"] not in visible
    assert "u-1" not in visible
    assert html.partition("<h1")[2] == (await text_of(running, response.headers["Location"])).partition("<h1")[2]
    assert len(await connections(running)) == 1


async def test_a_callback_that_is_loaded_again_shows_its_result(running: RunningGateway, tracker: Tracker) -> None:
    url, _ = await link(running)
    consent = await consent_url(running.http, url)
    async with running.http.get(consent, headers=BROWSER, allow_redirects=False) as granted:
        callback = granted.headers["Location"]
    for _ in range(3):
        async with running.http.get(callback, headers=BROWSER) as response:
            assert (response.status, "is connected" in await response.text()) == (200, True)
            assert "code=" not in str(response.url)
    async with aiohttp.ClientSession() as stranger, stranger.get(callback, headers=BROWSER) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_state")
    assert tracker.calls["authorization_code"] == 1


async def test_a_link_that_is_opened_again_shows_already_connected(running: RunningGateway) -> None:
    url, token = await link(running)
    await last_page_of_flow(running, url)
    html = await text_of(running, f"{running.url}/connect?session_token={token}")
    assert "is already connected" in html
    assert "Connect another account" in html
    again = await text_of(running, f"{url}/i/tracker?again=1")
    assert 'name="confirmation"' in again


async def test_page_of_a_used_link_says_that_the_link_was_used(running: RunningGateway) -> None:
    environment = running.document["environments"]["dev"]
    environment["integrations"]["second"] = dict(environment["integrations"]["tracker"])
    await running.restart()
    url, _ = await link(running, max_connections=1, allowed_integrations=["tracker", "second"])
    await last_page_of_flow(running, f"{url}/i/tracker")
    async with running.http.get(f"{url}/i/second", headers=BROWSER) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_used")
        assert "has been used" in await response.text()
    assert "is already connected" in await text_of(running, f"{url}/i/tracker?again=1")


async def test_done_button_returns_to_the_application_with_a_signed_result(running: RunningGateway) -> None:
    url, _ = await link(running, return_url=APP, state="s 1&x")
    await last_page_of_flow(running, url)
    html = await text_of(running, f"{url}/i/tracker/result")
    assert f'href="{url}/return?i=tracker"' in html
    async with running.http.get(f"{url}/return?i=tracker", headers=BROWSER, allow_redirects=False) as response:
        assert response.status == 303
        return_url = response.headers["Location"]
    query = parse_qs(urlsplit(return_url).query)
    assert (query["tab"], query["state"]) == (["2"], ["s 1&x"])
    (connection,) = await connections(running)
    result = result_in(return_url, await signing_key(running), "s 1&x")
    assert (result.outcome, result.connection_id) == ("connected", connection["connection_id"])
    assert result.provider_config_key == "tracker"


async def signing_key(running: RunningGateway) -> str:
    runtime = running.runtime
    return (await signing_keys(runtime.generation.config, runtime.store, "dev"))[0].reveal()


async def test_cancel_button_returns_to_the_application(running: RunningGateway, tracker: Tracker) -> None:
    url, _ = await link(running, return_url=APP)
    html = await text_of(running, url)
    assert f'href="{url}/return?i=tracker"' in html
    async with running.http.get(f"{url}/return?i=tracker", headers=BROWSER, allow_redirects=False) as response:
        result = result_in(response.headers["Location"], await signing_key(running))
    assert (result.outcome, result.provider_config_key, result.connection_id) == ("cancelled", "tracker", None)
    assert not tracker.calls


async def test_cancel_without_a_return_url_ends_cleanly(running: RunningGateway) -> None:
    url, _ = await link(running)
    html = await text_of(running, f"{url}/return?i=tracker")
    assert "Nothing was shared" in html
    assert 'role="alert"' not in html


async def test_a_program_is_redirected_to_the_application_with_a_pending_connection(running: RunningGateway) -> None:
    verifier = new_code_verifier()
    url, _ = await link(running, return_url=APP, state="mine", code_challenge=code_challenge(verifier))
    response = await last_page_of_flow(running, url)
    assert response.status == 303
    result = result_in(response.headers["Location"], await signing_key(running), "mine")
    assert result.outcome == "pending"
    assert await connections(running) == []
    path = f"/connect/sessions/{result.session_id}/complete"
    done = await running.json("POST", path, json={"code_verifier": verifier})
    assert done["data"]["status"] == "connected"
    assert len(await connections(running)) == 1


@pytest.mark.parametrize("mark", [{"Sec-Fetch-Mode": "navigate"}, {"User-Agent": "Mozilla/5.0 (X11)"}])
async def test_a_browser_continues_to_the_application_from_a_page(
    running: RunningGateway, mark: Mapping[str, str]
) -> None:
    """No redirect leads there: a consent page with ``form-action 'self' <gateway>`` would block it."""
    url, _ = await link(running, return_url=APP, state="mine", code_challenge=code_challenge(new_code_verifier()))
    response = await last_page_of_flow(running, url, {**BROWSER, **mark})
    assert (response.status, response.headers["Location"]) == (303, f"{url}/i/tracker/result")
    async with running.http.get(response.headers["Location"], headers=BROWSER, allow_redirects=False) as page:
        assert (page.status, page.headers["Cache-Control"]) == (200, "no-store")
        assert page.headers["Referrer-Policy"] == "no-referrer"
        onward = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', await page.text())
    assert onward is not None
    assert result_in(unescape(onward[1]), await signing_key(running), "mine").outcome == "pending"


async def test_pending_result_without_a_return_url_says_that_a_step_is_left(running: RunningGateway) -> None:
    verifier = new_code_verifier()
    url, _ = await link(running, code_challenge=code_challenge(verifier))
    response = await last_page_of_flow(running, url)
    html = await text_of(running, response.headers["Location"])
    assert "One more step" in html
    assert "is connected" not in html


async def test_only_the_browser_with_the_session_sees_the_result(running: RunningGateway) -> None:
    url, _ = await link(running)
    await last_page_of_flow(running, url)
    async with aiohttp.ClientSession() as stranger:
        for page in (f"{url}/i/tracker/result", f"{url}/return"):
            async with stranger.get(page, headers=BROWSER) as response:
                assert response.status == 401


async def test_a_result_outlives_its_session(running: RunningGateway) -> None:
    url, token = await link(running)
    await last_page_of_flow(running, url)
    async with running.http.delete(
        f"{running.url}/connect/session", headers={"Authorization": f"Bearer {token}"}
    ) as response:
        assert response.status == 204
    assert "is connected" in await text_of(running, f"{url}/i/tracker/result")
    async with running.http.get(url, headers=BROWSER) as response:
        assert response.status == 401


@pytest.mark.parametrize("path", ["/i/tracker/result", "/i/tracker"])
async def test_the_result_page_shows_the_form_as_long_as_there_is_no_result(running: RunningGateway, path: str) -> None:
    url, _ = await link(running)
    assert 'name="confirmation"' in await text_of(running, url + path)


async def test_a_failure_is_shown_with_a_link_to_try_again(running: RunningGateway, tracker: Tracker) -> None:
    url, _ = await link(running)
    consent = await consent_url(running.http, url)
    state = parse_qs(urlsplit(consent).query)["state"][0]
    refusal = f"{running.url}/oauth/callback?state={state}&error=access_denied"
    async with running.http.get(refusal, headers=BROWSER) as response:
        assert response.status == 400
    html = await text_of(running, f"{url}/i/tracker/result")
    assert "was not connected" in html
    assert f'href="{url}/i/tracker"' in html
    assert ADA["display_name"] not in html


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_failure_shows_first_the_advice_and_then_the_details_for_support(
    shared_gateway: RunningGateway, shared_tracker: Tracker, lang: str
) -> None:
    url, _ = await link(shared_gateway)
    consent = await consent_url(shared_gateway.http, url)
    state = parse_qs(urlsplit(consent).query)["state"][0]
    refusal = f"{shared_gateway.url}/oauth/callback?state={state}&error=access_denied&lang={lang}"
    async with shared_gateway.http.get(refusal, headers={**BROWSER, "Accept-Language": lang}) as response:
        html = unescape(await response.text())
    words = PageWords(lang)
    advice_text = words("advice_authorization_refused", name="Tracker")
    above, _, below = html.partition("<main")[2].partition('<p class="support soft middle" lang="en">')
    assert f'role="alert">{advice_text}</p>' in above.partition("<a ")[0]
    assert f">{words('again')}</a>" in above
    assert "access_denied" in below
    assert "authorization_refused" in below


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_form_that_needs_another_confirmation_shows_that_first(
    shared_gateway: RunningGateway, lang: str
) -> None:
    url, _ = await link(shared_gateway)
    body = {"confirmation": "0" * 64}
    async with shared_gateway.http.post(f"{url}/i/tracker?lang={lang}", data=body) as response:
        html = unescape(await response.text())
        assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")
    assert f"<p>{PageWords(lang)('advice_not_confirmed')}</p>" in html
    below = html.partition('<p class="support" lang="en">')[2]
    assert below.startswith("This form was not sent from its own page")
    assert "not_confirmed" in below.partition("</div>")[0]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_advice_with_the_providers_name_is_not_used_without_that_name(lang: str) -> None:
    words = PageWords(lang)
    texts = {
        key: advice(InvalidRequest(key.removeprefix("advice_"), "x"), words, None)  # type: ignore[arg-type]
        for key in words.keys("advice_")
    }
    assert "None" not in " ".join(texts.values())
    assert texts["advice_upstream_unreachable"] == words("advice_other")
    assert texts["advice_invalid_state"] == words("advice_invalid_state") != words("advice_other")


async def test_reloading_the_page_after_a_form_creates_no_second_connection(
    running: RunningGateway, tracker: Tracker
) -> None:
    await declare_key_integration(running, tracker)
    url, _ = await link(running, allowed_integrations=["keyed"])
    response = await submit(running.http, f"{url}/i/keyed", {"credentials[apiKey]": "right"})
    assert (response.status, response.history[0].status) == (200, 303)
    for _ in range(2):
        assert "is connected" in await text_of(running, str(response.url))
    assert len(await connections(running)) == 1


@pytest.mark.parametrize("flow", ["0", "zz", "-1"])
async def test_unknown_authorization_is_redirected_to_the_first_page(running: RunningGateway, flow: str) -> None:
    token = await running.session_token(end_user=ADA, allowed_integrations=["tracker"])
    async with browser() as ada:
        url = await open_connect_page(running, ada, token)
        async with ada.get(
            URL(f"{url}/leave/{flow}", encoded=True), headers=BROWSER, allow_redirects=False
        ) as response:
            assert response.status == 303, await response.text()
            assert response.headers["Location"].startswith(url)


@pytest.mark.parametrize("way", ["return?i=tracker", "i/tracker/result", "i/tracker", "leave/0"])
async def test_a_browser_does_not_return_with_the_connection_of_another_browser(
    running: RunningGateway, way: str
) -> None:
    """Alice forwards her link. Bob authorizes his account, and Alice then goes to the application."""
    verifier = new_code_verifier()
    options = {"return_url": APP, "state": "alice", "code_challenge": code_challenge(verifier)}
    token = await running.session_token(end_user=ADA, allowed_integrations=["tracker"], **options)
    async with browser() as bob:
        url = await open_connect_page(running, bob, token)
        async with bob.get(await consent_url(bob, url), headers=BROWSER, allow_redirects=False) as granted:
            callback = granted.headers["Location"]
        async with bob.get(callback, headers=BROWSER, allow_redirects=False) as response:
            assert "result=" in response.headers["Location"]
    async with browser() as alice:
        await open_connect_page(running, alice, token)
        async with alice.get(f"{url}/{way}", headers=BROWSER, allow_redirects=False) as response:
            assert "result=" not in response.headers.get("Location", "") + await response.text()
            assert response.headers["Gateway-Error"] == "connect_session_in_use"
    assert await connections(running) == []


@pytest.mark.parametrize("way", ["return?i=tracker", "i/tracker/result"])
async def test_a_single_use_link_shows_its_result_only_in_its_own_browser(running: RunningGateway, way: str) -> None:
    token = await running.session_token(return_url=APP, single_use=True, allowed_integrations=["tracker"])
    async with browser() as first, browser() as other:
        url = await open_connect_page(running, first, token)
        await open_connect_page(running, other, token)
        async with first.get(await consent_url(first, url), headers=BROWSER) as response:
            assert "is connected" in await response.text()
        async with other.get(f"{url}/{way}", headers=BROWSER, allow_redirects=False) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_in_use")


async def test_a_claimed_link_accepts_no_typed_credential_from_another_browser(
    running: RunningGateway, tracker: Tracker
) -> None:
    await declare_key_integration(running, tracker)
    token = await running.session_token(single_use=True, max_connections=5)
    async with browser() as first:
        url = await open_connect_page(running, first, token)
        assert (await submit(first, f"{url}/i/keyed", {"credentials[apiKey]": "k"})).status == 200
    frame = {
        "Authorization": f"Bearer {token}",
        "Gateway-Embedder": "http://127.0.0.1:9",
        "Sec-Fetch-Site": "same-origin",
    }
    form = {"credentials[apiKey]": "k2"}
    async with running.http.post(
        f"{running.url}/connect/s/embedded/i/keyed", data=form, headers=frame, allow_redirects=False
    ) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_in_use")
    typed = f"{running.url}/api-auth/api-key/keyed?connect_session_token={token}"
    async with running.http.post(typed, json={"apiKey": "k3"}) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_in_use")
    assert len(await connections(running)) == 1


async def test_a_failure_returns_to_the_application_as_a_failed_result(running: RunningGateway) -> None:
    url, _ = await link(running, return_url=APP)
    consent = await consent_url(running.http, url)
    state = parse_qs(urlsplit(consent).query)["state"][0]
    html = await text_of(running, f"{running.url}/oauth/callback?error=access_denied&state={state}")
    assert f'href="{url}/return?i=tracker"' in html
    async with running.http.get(f"{url}/return?i=tracker", headers=BROWSER, allow_redirects=False) as response:
        result = result_in(response.headers["Location"], await signing_key(running))
    assert (result.outcome, result.error) == ("failed", "authorization_refused")


async def test_only_the_connection_of_the_result_can_be_completed(running: RunningGateway, tracker: Tracker) -> None:
    await declare_key_integration(running, tracker)
    verifier = new_code_verifier()
    request_body = {"end_user": ADA, "code_challenge": code_challenge(verifier)}
    session = (await running.json("POST", "/connect/sessions", json=request_body))["data"]
    typed = f"/api-auth/api-key/keyed?connect_session_token={session['token']}"
    connection_ids = [(await running.json("POST", typed, json={"apiKey": key}))["connectionId"] for key in ("k1", "k2")]
    path = f"/connect/sessions/{session['session_id']}/complete"
    body = {"code_verifier": verifier, "connection_id": connection_ids[1]}
    done = (await running.json("POST", path, json=body))["data"]
    assert [connection["connection_id"] for connection in done["connections"]] == [connection_ids[1]]
    assert [connection["connection_id"] for connection in await connections(running)] == [connection_ids[1]]
    await running.json("POST", path, json={**body, "connection_id": "another"}, expect=409)


async def test_the_redirect_page_to_the_provider_keeps_the_language(running: RunningGateway) -> None:
    url, _ = await link(running)
    response = await submit(running.http, f"{url}/i/tracker?lang=de&theme=dark")
    assert '<html lang="de" data-theme="dark">' in await response.text()


async def test_page_for_an_unavailable_store_says_when_to_retry(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise Unavailable("store_unavailable", "The database is not reachable.", retry_after_s=5)

    url, _ = await link(running)
    monkeypatch.setattr(type(running.runtime.sessions), "find", fail)
    async with running.http.get(f"{url}/i/tracker", headers=BROWSER) as response:
        assert (response.status, response.content_type) == (503, "text/html")
        assert response.headers["Retry-After"] == "5"
