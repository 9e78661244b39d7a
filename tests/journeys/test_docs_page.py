"""The page ``/docs`` and a provider's guide in a browser: nothing is missing, and a word finds an operation."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway
from tests.journeys.connect_page.browser import launched, violations


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    async with launched() as browser:
        yield await browser.new_page()


@pytest.mark.parametrize("path", ["/docs", "/providers/jira/guide"])
async def test_no_page_asks_for_what_is_not_there(page: Any, running: RunningGateway, path: str) -> None:
    said: list[str] = []
    missed: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    page.on("response", lambda one: missed.append(one.url) if one.status >= 400 else None)
    await page.goto(running.url + path)
    icon = await page.evaluate("document.querySelector('link[rel=icon]').href")
    assert icon == f"{running.url}/connect/assets/icon.svg"
    assert (said, missed) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/docs", "/providers/jira/guide"])
async def test_axe_finds_nothing_wrong(page: Any, running: RunningGateway, path: str, scheme: str) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(running.url + path)
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true;")
    assert await violations(page) == []


async def test_the_operations_are_filtered_by_words(page: Any, running: RunningGateway) -> None:
    await page.goto(f"{running.url}/docs")
    whole = await page.locator("article:visible").count()
    assert whole > 50
    await page.fill("#filter", "Reconnect sessions post")
    shown = await page.locator("article:visible h3").all_inner_texts()
    assert "POST /connect/sessions/reconnect" in shown
    assert 0 < len(shown) < 5
    assert await page.locator("#found").inner_text() == f"{len(shown)} of {whole} fit"
    assert await page.locator("h2:visible").count() == 1
    assert await page.locator("nav li:visible").count() == len(shown)
    await page.locator("article:visible a[href^='#']").first.click()  # its schema, which was filtered out
    assert await page.locator("article:visible").count() == whole
    assert await page.locator("article:target").is_visible()
    await page.fill("#filter", "no such thing")
    assert await page.locator("#found").inner_text() == f"0 of {whole} fit"
    await page.keyboard.press("Escape")
    assert await page.locator("article:visible").count() == whole
