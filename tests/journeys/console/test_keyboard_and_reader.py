"""The console used only by keyboard or with a screen reader. The tests read Chromium's accessibility tree."""

import itertools
from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway
from tests.journeys.console.test_in_chromium import (
    VIEWS,
    browser,
    busy_gateway,
    chromium,
    open_signed_in_page,
    running,
    url_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

__all__ = ["browser", "busy_gateway", "chromium", "running"]  # fixtures

REACHABLE = """[...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
    .filter(one => one.checkVisibility())"""
NAMED = {"link", "button", "textbox", "combobox", "checkbox", "image", "navigation", "region", "columnheader"}
# The actions of each view, by the names that a screen reader announces.
OFFERED = {
    "connections": {"Find", "not active"},
    "connection": {"Refresh the token now", "Create a link to connect again", "Delete the connection"},
    "calls": {"Find", "failed", "live", "Older calls"},
    "call": {"Repeat as a dry run"},
    "integration": {"Create a link to connect an account", "Step-by-step guide"},
    "keys": {"Mint", "Show ended keys"},
    "key": {"Check", "Revoke this key and all keys that it minted"},
    "audit": {"Find"},
}


async def press_tab_until(page: Any, name: str) -> None:
    """Press Tab until the element with this text has the focus."""
    for _ in range(120):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


@pytest.mark.parametrize("name", ["now", "connection", "call", "integration", "keys", "key", "events", "incident"])
async def test_tab_reaches_everything_and_the_focus_is_visible(
    busy_gateway: RunningGateway, browser: Any, name: str
) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    await page.goto(await url_of(busy_gateway, "/dev?still=1" if name == "now" else VIEWS[name]))
    count = await page.evaluate(f"(window.there = {REACHABLE}).length")
    reached = set()
    for _ in range(count):
        await page.keyboard.press("Tab")
        place, outline = await page.evaluate(
            "[there.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert outline != "none", await page.evaluate("document.activeElement.outerHTML")
        reached.add(place)
    assert reached == set(range(count))


async def test_a_connection_is_refreshed_and_deleted_by_the_keyboard(
    busy_gateway: RunningGateway, browser: Any
) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    await page.goto(await url_of(busy_gateway, VIEWS["connection"]))
    async with page.expect_navigation():
        await press_tab_until(page, "Refresh the token now")
        await page.keyboard.press("Enter")
    assert "tracker/anna" in await page.locator("h1").inner_text()
    await press_tab_until(page, "Delete the connection")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.type("anna")
    async with page.expect_navigation():
        await page.keyboard.press("Enter")
    assert "The connection is deleted" in await page.locator("h1").inner_text()


async def test_a_screen_reader_gets_names_one_heading_and_every_act(busy_gateway: RunningGateway, browser: Any) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    devtools = await page.context.new_cdp_session(page)
    for view, path in VIEWS.items():
        await page.goto(await url_of(busy_gateway, path))
        nodes = (await devtools.send("Accessibility.getFullAXTree"))["nodes"]
        announced = [
            (node["role"]["value"], node.get("name", {}).get("value", ""), node)
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]
        nameless = [role for role, text, _ in announced if role in NAMED and not text.strip()]
        assert nameless == [], view
        levels = [
            next(prop["value"]["value"] for prop in item["properties"] if prop["name"] == "level")
            for role, _, item in announced
            if role == "heading"
        ]
        assert levels.count(1) == 1, view
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), (view, levels)
        assert OFFERED.get(view, set()) <= {text for _, text, _ in announced}, view
        assert "main" in {role for role, _, _ in announced}, view
