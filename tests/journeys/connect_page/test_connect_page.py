"""The connect page in Chromium, in every state: its texts, its actions, and no accessibility problems found by axe.

`CONNECT_SCREENSHOTS=docs/screenshots` saves each state as images: light, dark and at phone width.
"""

import re
from typing import Any

import pytest

from gateway.pages.frame import PageWords
from tests.journeys.connect_page.browser import violations
from tests.journeys.connect_page.looks import SHOTS, assert_page_accessible, save_screenshot, sign_in
from tests.journeys.connect_page.site import GOOD_KEY, ConnectSite

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_list_is_searched_by_name(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link())
    assert "session_token" not in page.url
    assert await page.locator(".choice").count() == 8
    await assert_page_accessible(page, "list")
    await page.fill("[type=search]", "vault")
    assert await page.locator("li:visible").all_inner_texts() == ["Two Step Vault\nAPI key or password"]
    assert await page.locator("#live").inner_text() == "1 found"
    await page.fill("[type=search]", "no such thing")
    assert await page.locator(".none").is_visible()


async def test_a_choice_is_possible_with_only_the_keyboard(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link())
    await page.keyboard.press("Tab")
    await page.keyboard.type("north")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("form.entry")
    assert await page.locator("h1").inner_text() == "Connect Northwind CRM"


async def test_end_user_chooses_a_site_after_oauth(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(allowed_integrations=["issues"]))
    granted = await page.locator(".granted").inner_text()
    assert "Create and change sandbox work" in granted
    assert "Keep this access while you are away" in granted
    await assert_page_accessible(page, "oauth")
    await page.click("button.main")
    await sign_in(page)
    await page.wait_for_selector("[name=site]")
    assert await page.locator(".site strong").all_inner_texts() == ["Acme", "Globex"]
    await assert_page_accessible(page, "sites")
    await page.check("#site-2")
    await page.click("button.main")
    await page.wait_for_selector("dl")
    assert "demo@example.com · globex.sandbox.example" in await page.locator("dl").inner_text()
    await assert_page_accessible(page, "connected")
    assert (await site.connections())[0]["account"]["label"] == "demo@example.com · globex.sandbox.example"


async def test_a_denied_consent_is_reported_with_a_way_back(page: Any, site: ConnectSite) -> None:
    before = len(await site.connections())
    await page.goto(await site.link(allowed_integrations=["issues"]))
    await page.click("button.main")
    await sign_in(page, "deny")
    await page.wait_for_selector(".status.bad")
    assert (await page.inner_text("[role=alert]")).startswith("You or Sandbox Issues did not allow the access")
    assert "The user did not allow it" in await page.locator(".support").first.inner_text()
    await assert_page_accessible(page, "denied")
    await page.click("text=Try again")
    await page.wait_for_selector("form.entry")
    assert len(await site.connections()) == before


async def test_a_form_without_its_cookie_asks_to_confirm_again(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(allowed_integrations=["issues"]))
    await page.context.clear_cookies(name=re.compile("gw-confirm-.*"))
    await page.click("button.main")
    await page.wait_for_selector(".fault")
    lines = (await page.inner_text(".fault")).splitlines()
    assert [line for line in lines if line][1].startswith("Please confirm again")
    assert "not_confirmed" in lines[-1]
    await assert_page_accessible(page, "not-confirmed")
    await page.click("button.main")
    await page.wait_for_url("**/oauth/authorize**")


async def test_a_failure_in_the_window_of_a_frame_is_shown_in_the_frame(
    page: Any, site: ConnectSite, embedding: str
) -> None:
    await page.goto(embedding)
    token = await site.token(allowed_integrations=["issues"])
    url = f"{site.gateway.url}/connect?apiURL={site.gateway.url}&lang=de"
    await page.evaluate(
        "([token, url]) => { window.token = token; document.getElementById('ui').src = url; }", [token, url]
    )
    frame = page.frame_locator("#ui")
    await frame.locator("button.main").wait_for()
    async with page.context.expect_page() as opened:
        await frame.locator("button.main").click()
    await sign_in(await opened.value, "deny")
    await frame.locator("#fault p.support").wait_for()
    assert (await frame.locator("#fault p").first.inner_text()) == PageWords("de")(
        "advice_authorization_refused", name="Sandbox Issues"
    )


async def test_a_wrong_key_is_reported_in_the_providers_words_and_nothing_typed_is_lost(
    page: Any, site: ConnectSite
) -> None:
    await page.goto(await site.link(allowed_integrations=["northwind"]))
    await assert_page_accessible(page, "key")
    await page.select_option("select", "eu")
    await page.fill('[name="params[account]"]', "https://acme.northwind.example")
    key = '[name="credentials[apiKey]"]'
    await page.fill(key, "wrong-key-000000")
    assert await page.get_attribute(key, "type") == "password"
    await page.click("[data-reveal]")
    assert await page.get_attribute(key, "type") == "text"
    await page.click("button.main")
    await page.wait_for_selector(".fault")
    assert "API key <b>invalid</b> or revoked" in await page.locator(".fault").inner_text()
    assert await page.input_value("select") == "eu"
    assert await page.input_value(key) == ""
    await assert_page_accessible(page, "wrong-key")
    await page.fill(key, GOOD_KEY)
    await page.click("button.main")
    await page.wait_for_selector("dl")
    stored = (await site.connections())[0]
    assert stored["account"] == {"id": "7", "label": "ada@example.com"}
    connection = await site.gateway.json("GET", f"/connections/{stored['connection_id']}?provider_config_key=northwind")
    assert connection["connection_config"] == {"region": "eu", "account": "acme"}


async def test_the_fault_of_a_field_is_shown_beside_it(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(allowed_integrations=["northwind"]))
    await page.evaluate("document.querySelector('form.entry').noValidate = true")
    await page.select_option("select", "us")
    await page.fill('[name="params[account]"]', "Not/This")
    await page.fill('[name="credentials[apiKey]"]', GOOD_KEY)
    await page.click("button.main")
    wrong = page.locator("[aria-invalid]")
    await wrong.wait_for()
    assert await wrong.get_attribute("name") == "params[account]"
    assert await page.evaluate("document.activeElement.name") == "params[account]"
    assert await page.locator(".wrong").inner_text() != ""
    await assert_page_accessible(page, "wrong-field")


async def test_a_two_step_sign_in_is_one_form(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(allowed_integrations=["vault"]))
    await assert_page_accessible(page, "two-step")
    await page.fill('[name="credentials[user]"]', "ada")
    await page.fill('[name="credentials[secret]"]', "open sesame")
    await page.click("button.main")
    await page.wait_for_url("**/i/vault/result")
    assert "is connected" in await page.inner_text("h1")
    assert (await site.connections())[0]["provider_config_key"] == "vault"


async def test_an_expired_link_shows_the_next_step(page: Any, site: ConnectSite) -> None:
    link = await site.link()
    await page.goto(link)
    runtime = site.gateway.runtime
    await runtime.sessions.end(await runtime.sessions.find(link.rpartition("=")[2]))
    await page.reload()
    assert "Ask the application you came from for a new link." in await page.locator("main").inner_text()
    await assert_page_accessible(page, "expired")


async def test_a_reconnected_connection_keeps_its_id(page: Any, site: ConnectSite) -> None:
    await page.goto(await site.link(allowed_integrations=["northwind"]))
    await page.select_option("select", "us")
    await page.fill('[name="params[account]"]', "acme")
    await page.fill('[name="credentials[apiKey]"]', GOOD_KEY)
    await page.click("button.main")
    await page.wait_for_selector("dl")
    stored = (await site.connections())[0]
    body = {"connection_id": stored["connection_id"], "integration_id": "northwind"}
    response = await site.gateway.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    await page.goto(response["data"]["connect_link"])
    assert await page.input_value('[name="params[account]"]') == "acme"
    assert await page.locator("h1").inner_text() == "Reconnect Northwind CRM"
    assert "ada@example.com" in await page.locator(".whom").inner_text()
    await assert_page_accessible(page, "reconnect")
    await page.fill('[name="credentials[apiKey]"]', GOOD_KEY)
    await page.click("button.main")
    await page.wait_for_selector("dl")
    assert [connection["id"] for connection in await site.connections()].count(stored["id"]) == 1


@pytest.mark.parametrize(("lang", "said"), [("de", "Northwind CRM verbinden"), ("ja", "Northwind CRM を接続")])
async def test_the_page_is_in_the_browsers_language(browser: Any, site: ConnectSite, lang: str, said: str) -> None:
    context = await browser.new_context(locale=lang)
    page = await context.new_page()
    await page.goto(await site.link(allowed_integrations=["northwind"]))
    assert await page.locator("h1").inner_text() == said
    assert await page.get_attribute("html", "lang") == lang
    assert await violations(page) == []
    await context.close()


async def test_everything_works_without_scripts(browser: Any, site: ConnectSite) -> None:
    context = await browser.new_context(java_script_enabled=False, locale="en-US")
    page = await context.new_page()
    await page.goto(await site.link())
    await page.fill("[type=search]", "sandbox")
    await page.click("[data-search] button")
    assert await page.locator(".choice").count() == 1
    await page.click(".choice")
    await page.click("button.main")
    await sign_in(page)
    await page.check("#site-1")
    await page.click("button.main")
    assert "acme.sandbox.example" in await page.locator("dl").inner_text()
    await page.goto(await site.link(allowed_integrations=["vault"]))
    await page.fill('[name="credentials[user]"]', "ada")
    await page.fill('[name="credentials[secret]"]', "not this")
    await page.click("button.main")
    assert "Unknown user or wrong secret" in await page.locator(".fault").inner_text()
    await context.close()


async def test_in_a_frame_a_window_is_opened_for_the_provider(page: Any, site: ConnectSite, embedding: str) -> None:
    await page.goto(embedding)
    token = await site.token(allowed_integrations=["issues"])
    url = f"{site.gateway.url}/connect?apiURL={site.gateway.url}"
    await page.evaluate(
        "([token, url]) => { window.token = token; document.getElementById('ui').src = url; }", [token, url]
    )
    frame = page.frame_locator("#ui")
    await frame.locator("button.main").wait_for()
    async with page.context.expect_page() as opening:
        await frame.locator("button.main").click()
    popup = await opening.value
    await frame.locator("text=Finish in the other window").wait_for()
    if SHOTS:
        await save_screenshot(page, "waiting-light")
    await sign_in(popup)
    await popup.check("#site-1")
    await popup.click("button.main")
    await frame.locator("dl").wait_for()
    events = await page.evaluate("window.events")
    assert [event["type"] for event in events] == ["ready", "settings_changed", "connect"]
    assert events[-1]["payload"]["connectionId"] == (await site.connections())[0]["connection_id"]
    assert token not in await page.content()


async def test_a_page_that_is_not_registered_cannot_embed_it(page: Any, site: ConnectSite, embedding: str) -> None:
    await page.goto(embedding.replace("127.0.0.1", "evil.example"))
    async with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
        source = f"{site.gateway.url}/connect?apiURL=x"
        await page.evaluate("(url) => { document.getElementById('ui').src = url; }", source)
    assert await page.evaluate("window.events") == []
    page.faults.clear()
