"""The connect page in Chromium: the end user confirms for whom a link is, cancels, or opens a link that does not work."""

from typing import Any

import pytest
from aiohttp import ClientSession

from gateway.client import code_challenge, new_code_verifier
from tests.journeys.connect_page.looks import LOOKS, SHOTS, assert_page_accessible, save_screenshot, sign_in
from tests.journeys.connect_page.site import GOOD_KEY, ConnectSite

pytestmark = pytest.mark.asyncio(loop_scope="module")
OAUTH = {
    "allowed_integrations": ["issues"],
    "integrations_config_defaults": {"issues": {"connection_config": {"subdomain": "acme"}}},
}
KEY = {
    "allowed_integrations": ["northwind"],
    "integrations_config_defaults": {"northwind": {"connection_config": {"region": "eu", "account": "acme"}}},
}


async def connect_by_key(page: Any) -> None:
    await page.fill('[name="credentials[apiKey]"]', GOOD_KEY)
    await page.click("button.main")
    await page.wait_for_selector(".status")


async def test_oauth_connect_shows_a_browser_the_confirmation(page: Any, site: ConnectSite) -> None:
    request_body = {
        "display_name": "invoice agent",
        "scopes": ["environment:connect_sessions:write", "environment:proxy"],
        "limits": {"integrations": ["issues"]},
    }
    minted = await site.gateway.json("POST", "/environment/api-keys", json=request_body)
    headers = {"Authorization": f"Bearer {minted['data']['secret']}"}
    body = {"end_user": {"id": "u1", "display_name": "Ada Lovelace"}}
    async with (
        ClientSession() as agent,
        agent.post(f"{site.gateway.url}/connect/sessions", headers=headers, json=body) as response,
    ):
        token = (await response.json())["data"]["token"]
    await page.goto(f"{site.gateway.url}/oauth/connect/issues?connect_session_token={token}&ws_client_id=w1")
    assert token not in page.url
    assert await page.locator(".whom p").all_inner_texts() == [
        "For Ada Lovelace",
        "Acme Analytics asks for this access",
        "At the request of “invoice agent”",
    ]
    await assert_page_accessible(page, "confirm")


async def test_scopes_can_be_shown_by_keyboard(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(**OAUTH))
    scope = page.locator("code", has_text="write:sandbox-work")
    assert not await scope.is_visible()
    await page.focus("summary")
    await page.keyboard.press("Enter")
    assert await scope.is_visible()
    await assert_page_accessible(page, "grants")


async def test_times_are_shown_in_the_browsers_time_zone(browser: Any, site: ConnectSite) -> None:
    for scripts, zone in ((True, "GMT+9"), (False, "UTC")):
        context = await browser.new_context(locale="en-US", timezone_id="Asia/Tokyo", java_script_enabled=scripts)
        page = await context.new_page()
        await page.goto(await site.link(**KEY))
        assert (await page.inner_text("time")).endswith(zone)
        await context.close()


async def test_button_of_the_last_page_returns_to_the_application(page: Any, site: ConnectSite, embedding: str) -> None:
    await page.goto(await site.link(**KEY, return_url=f"{embedding}?tab=2", state="s1"))
    await connect_by_key(page)
    assert await page.inner_text("h1") == "Northwind CRM is connected"
    await assert_page_accessible(page, "done")
    await page.click("a.main")
    await page.wait_for_url(f"{embedding}?tab=2&state=s1&result=*")


async def test_a_pending_connection_says_that_one_step_is_left(page: Any, site: ConnectSite) -> None:
    before = len(await site.connections())
    await page.goto(await site.link(**KEY, code_challenge=code_challenge(new_code_verifier())))
    await connect_by_key(page)
    assert await page.inner_text("h1") == "One more step"
    assert await page.locator(".status.calm").count() == 1  # not the check mark that shows a successful connection
    await assert_page_accessible(page, "one-more-step")
    assert len(await site.connections()) == before


async def test_intermediate_pages_have_a_button_to_continue(page: Any, site: ConnectSite, embedding: str) -> None:
    await page.route("**/oauth/authorize**", lambda route: route.fulfill(status=204))
    await page.goto(await site.link(**OAUTH))
    await page.click("button.main")
    await page.wait_for_url("**/leave/**")
    assert await page.inner_text("h1") == "Taking you to Sandbox Issues"
    await assert_page_accessible(page, "leaving")
    await page.route(f"{embedding}**", lambda route: route.fulfill(status=204))
    bound = {"return_url": embedding, "code_challenge": code_challenge(new_code_verifier())}
    await page.goto(await site.link(**KEY, **bound))
    await page.fill('[name="credentials[apiKey]"]', GOOD_KEY)
    await page.click("button.main")
    await page.wait_for_selector("a.main")
    assert await page.inner_text("h1") == "Taking you back to Acme Analytics"
    await assert_page_accessible(page, "onward")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("asks_for_a_site", [False, True], ids=["from the consent", "from the choice of a site"])
async def test_the_browser_returns_to_the_application_with_the_result_to_complete(
    browser: Any, site: ConnectSite, embedding: str, scripts: bool, asks_for_a_site: bool
) -> None:
    """The consent page and our pages allow forms only to their own origin and the gateway's, so no redirect can go
    elsewhere.
    """
    context = await browser.new_context(locale="en-US", java_script_enabled=scripts)
    page = await context.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    bound = {"return_url": f"{embedding}?tab=2", "state": "s1", "code_challenge": code_challenge(new_code_verifier())}
    defaults = {} if asks_for_a_site else {"integrations_config_defaults": OAUTH["integrations_config_defaults"]}
    await page.goto(await site.link(allowed_integrations=["issues"], **defaults, **bound))
    await page.click("button.main")
    async with page.expect_request(f"{embedding}?tab=2&state=s1&result=*") as reached:
        await sign_in(page)
        if asks_for_a_site:
            await page.check("#site-1")
            await page.click("button.main")
    assert "referer" not in await (await reached.value).all_headers()
    await page.wait_for_url(f"{embedding}?tab=2&state=s1&result=*")
    assert faults == []
    devtools = await context.new_cdp_session(page)
    past = [entry["url"] for entry in (await devtools.send("Page.getNavigationHistory"))["entries"]][:-1]
    assert not [url for url in past if "result" in url], "the page that continues is not in the history"
    await context.close()


async def test_cancel_ends_cleanly(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(**OAUTH))
    await page.click("text=Cancel")
    await page.wait_for_selector(".status.calm")
    assert await page.inner_text("h1") == "Nothing was shared"
    await assert_page_accessible(page, "cancelled")
    await page.click("text=Try again")
    await page.wait_for_selector("form.entry")


async def test_cancel_closes_the_window_that_the_application_opened(
    page: Any, site: ConnectSite, embedding: str
) -> None:
    await page.goto(embedding)
    url = f"{site.gateway.url}/oauth/connect/issues?connect_session_token={await site.token(**OAUTH)}"
    async with page.context.expect_page() as opening:
        await page.evaluate("(url) => { window.open(url); }", url)
    popup = await opening.value
    async with popup.expect_event("close"):
        await popup.click("text=Cancel")
    await page.wait_for_function("window.events.length > 0")
    assert await page.evaluate("window.events[0].type") == "nango_oauth_callback_error"


async def test_cancel_in_a_frame_lets_the_application_close_the_frame(
    page: Any, site: ConnectSite, embedding: str
) -> None:
    await page.goto(embedding)
    url = f"{site.gateway.url}/connect?apiURL={site.gateway.url}"
    token = await site.token(**{**OAUTH, "return_url": "http://127.0.0.1:9/back"})
    await page.evaluate(
        "([token, url]) => { window.token = token; document.getElementById('ui').src = url; }", [token, url]
    )
    cancel = page.frame_locator("#ui").locator("text=Cancel")
    await cancel.wait_for()
    if SHOTS:
        await save_screenshot(page, "frame-light")
    await cancel.click()
    await page.wait_for_function("window.events.some((event) => event.type === 'close')")
    assert await page.evaluate("window.events.filter((event) => event.type === 'close').length") == 1
    assert page.frames[1].url == url, "Cancel leads nowhere in a frame"


async def test_error_parameters_are_removed_from_the_url(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(**OAUTH))
    await page.click("button.main")
    await sign_in(page, "deny")
    await page.wait_for_selector(".status.bad")
    assert page.url == f"{site.gateway.url}/oauth/callback"
    assert "issues" not in await page.inner_text("main")  # an integration ID means nothing to end users


async def test_list_marks_a_connected_integration(page: Any, site: ConnectSite) -> None:
    link = await site.link(**{**KEY, "allowed_integrations": ["northwind", "issues"]})
    await page.goto(link)
    await page.click("text=Northwind CRM")
    await connect_by_key(page)
    await page.click("text=Connect something else")
    await page.wait_for_selector(".choices")
    assert await page.locator(".choice", has_text="Northwind CRM").locator(".connected").inner_text() == "Connected"
    assert await page.locator(".connected").count() == 1
    await assert_page_accessible(page, "list-connected")
    await page.click("text=Northwind CRM")
    assert await page.inner_text("h1") == "Northwind CRM is already connected"
    await assert_page_accessible(page, "already")


async def test_a_link_that_is_used_up_opens_nothing(page: Any, site: ConnectSite) -> None:
    link = await site.link(**{**KEY, "allowed_integrations": ["northwind", "issues"]}, max_connections=1)
    await page.goto(link)
    await page.click("text=Northwind CRM")
    await connect_by_key(page)
    await page.goto(link)
    await page.click("text=Sandbox Issues")
    assert await page.inner_text("h1") == "This link has been used"
    await assert_page_accessible(page, "used")


async def test_a_link_for_one_use_opens_nothing_in_another_browser(page: Any, browser: Any, site: ConnectSite) -> None:
    link = await site.link(**OAUTH, single_use=True)
    first = await browser.new_context(locale="en-US", **LOOKS["light"])
    other = await first.new_page()
    await other.goto(link)
    await other.click("button.main")
    await other.wait_for_url("**/oauth/**")
    await first.close()
    await page.goto(link)
    assert await page.inner_text("h1") == "This link is already in use in another browser"
    await assert_page_accessible(page, "other-browser")
