"""The page ``/docs`` and a provider's guide in a browser: nothing is missing, and the search finds operations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.gateways import RunningGateway, in_front_of
from tests.journeys.connect_page.browser import launch_browser, violations
from tests.journeys.console.test_in_chromium import SHOTS, save_screenshot

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Any]:
    async with launch_browser() as chromium:
        yield chromium


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """Yield one gateway for all tests. This is possible, because the tests only read pages and call no provider."""
    async with in_front_of("http://127.0.0.1:9", tmp_path_factory.mktemp("docs-page")) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Any) -> AsyncIterator[Any]:
    """A page in its own browser profile."""
    context = await browser.new_context()
    yield await context.new_page()
    await context.close()


@pytest.mark.parametrize("path", ["/docs", "/providers/jira/guide", "/", "/guides"])
async def test_no_page_requests_a_missing_file(page: Any, running: RunningGateway, path: str) -> None:
    messages: list[str] = []
    missing: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("response", lambda response: missing.append(response.url) if response.status >= 400 else None)
    await page.goto(running.url + path)
    icon = await page.evaluate("document.querySelector('link[rel=icon]').href")
    assert icon == f"{running.url}/connect/assets/icon.svg"
    assert (messages, missing) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/docs", "/providers/jira/guide", "/", "/guides", "/nowhere"])
async def test_axe_finds_nothing_wrong(page: Any, running: RunningGateway, path: str, scheme: str) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(running.url + path)
    await page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true;")
    assert await violations(page) == []


async def test_the_operations_are_filtered_by_words(page: Any, running: RunningGateway) -> None:
    await page.goto(f"{running.url}/docs")
    whole = await page.locator("article:visible").count()
    assert whole > 50
    await page.fill("#filter", "Reconnect sessions post")
    shown = await page.locator("article:visible h3").all_inner_texts()
    assert "POST /connect/sessions/reconnect" in shown
    assert 0 < len(shown) < 5
    assert await page.locator("#found").inner_text() == f"{len(shown)} of {whole} match"
    assert await page.locator("h2:visible").count() == 1
    assert await page.locator("nav li:visible").count() == len(shown)
    # the link leads to a schema that the filter had hidden
    await page.locator("article:visible a[href^='#']").first.click()
    assert await page.locator("article:visible").count() == whole
    assert await page.locator("article:target").is_visible()
    await page.fill("#filter", "no such thing")
    assert await page.locator("#found").inner_text() == f"0 of {whole} match"
    await page.keyboard.press("Escape")
    assert await page.locator("article:visible").count() == whole


@pytest.mark.parametrize("path", ["/docs", "/providers/jira/guide", "/"])
async def test_the_copy_button_copies_its_code_block(page: Any, running: RunningGateway, path: str) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(running.url + path)
    block = page.locator("pre:visible").first
    await page.locator(".copy:visible").first.get_by_role("button", name="Copy").click()
    await page.get_by_text("Copied", exact=True).wait_for()
    assert await page.evaluate("navigator.clipboard.readText()") == await block.evaluate(
        "element => element.textContent"
    )


async def test_pages_without_javascript_have_no_copy_button(browser: Any, running: RunningGateway) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    for path in ("/docs", "/providers/jira/guide", "/"):
        await page.goto(running.url + path)
        assert await page.locator(".copy button").count() == 0
        assert await page.locator("pre").count() > 0
    await page.goto(f"{running.url}/docs")
    await page.locator("nav a", has_text="List connections").first.click()
    assert await page.locator("article:target h3").inner_text() == "GET /connections"
    await context.close()


@pytest.mark.parametrize("width", [390, 1280])
async def test_the_pages_fit_the_width_of_the_screen(page: Any, running: RunningGateway, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 860})
    for path in ("/docs", "/providers/jira/guide", "/", "/guides", "/nowhere"):
        await page.goto(running.url + path)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if SHOTS and path != "/nowhere":
            name = {"/docs": "docs", "/": "start", "/guides": "guides"}.get(path, "guide")
            await save_screenshot(page, Path(SHOTS) / f"{name}-{'phone' if width == 390 else 'light'}.webp")
