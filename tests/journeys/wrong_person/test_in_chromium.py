"""Alice's link in Bob's Chromium: frames, windows, pages of other sites, no JavaScript, and the Back button."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.fakes.patience import PATIENCE_S
from tests.journeys.connect_page.browser import launch_browser
from tests.journeys.wrong_person.world import World, start_world

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", params=[True, False], ids=["bound", "unbound"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The world of `conftest.py`, on the browser's loop."""
    async with start_world(tmp_path, bound=request.param) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def other_site() -> AsyncIterator[str]:
    """Yield the URL of another site. Tests fill in its pages."""

    async def empty(_request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>evil</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", empty)
    server = TestServer(app)
    await server.start_server()
    yield f"http://evil.example:{server.port}/"
    await server.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[Any]:
    """Yield one Chromium for all tests. Each test opens its own profile."""
    async with launch_browser() as browser:
        yield browser


async def page_of_bob(chromium: Any, world: World, **options: Any) -> Any:
    """Return a page of a browser in which Bob is signed in at the provider."""
    context = await chromium.new_context(locale="en-US", **options)
    context.set_default_timeout(PATIENCE_S * 1000)
    page = await context.new_page()
    await page.goto(f"{world.provider.url}/sign-in/bob")
    return page


async def confirm(page: Any) -> None:
    assert "For Alice Liddell" in await page.inner_text("main")
    await page.click("form.entry button.main")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_a_forwarded_link_in_chromium_connects_bob_only_without_a_code_challenge(
    world: World, chromium: Any, scripts: bool
) -> None:
    link = await world.link()
    page = await page_of_bob(chromium, world, java_script_enabled=scripts)
    await page.goto(link.url)
    await confirm(page)
    if world.bound:
        await page.wait_for_url(f"{world.app}/**")
        bob = world.person("bob")
        assert await world.back(bob, world.returned[-1]) is None
        assert await world.accounts() == {}
        assert len(await world.pending(link)) == 1
    else:
        await page.wait_for_url("**/result*")
        assert await world.accounts() == {"alice": "bob"}  # the page named Alice, and Bob clicked anyway
    await page.context.close()


async def test_the_back_button_starts_no_second_authorization(world: World, chromium: Any) -> None:
    link = await world.link(max_connections=2)
    page = await page_of_bob(chromium, world)
    await page.goto(link.url)
    form = page.url
    await confirm(page)
    await page.wait_for_url(f"{world.app}/**" if world.bound else "**/result*")
    made = len(await world.pending(link)) + len(await world.accounts())
    assert made == 1
    authorizations = world.provider.authorizations
    for _ in range(4):
        if page.url == form:
            break
        await page.go_back()
    assert world.provider.authorizations == authorizations  # the Back button starts no authorization
    bob = world.person("bob")
    for url in world.returned:
        assert await world.back(bob, url) is None
    assert len(await world.pending(link)) + len(await world.accounts()) == 1
    assert await world.accounts() == ({} if world.bound else {"alice": "bob"})
    await page.context.close()


async def test_another_site_cannot_frame_the_connect_page(world: World, chromium: Any, other_site: str) -> None:
    link = await world.link()
    page = await page_of_bob(chromium, world)
    oauth = f"{world.gateway.url}/oauth/connect/accounts?connect_session_token={link.token}"
    for url in (link.url, oauth, f"{world.gateway.url}/connect?apiURL={world.gateway.url}"):
        await page.goto(other_site)
        await page.evaluate(
            """url => new Promise(done => { const frame = document.createElement("iframe"); frame.src = url;
            frame.onload = frame.onerror = () => done(); document.body.append(frame); })""",
            url,
        )
        assert all("connect" not in frame.url for frame in page.frames), url
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}
    await page.context.close()


async def test_requests_from_another_site_start_no_authorization(world: World, chromium: Any, other_site: str) -> None:
    """The other site's page tries an image, fetch, and forms that submit themselves. Bob does not click."""
    link = await world.link()
    page = await page_of_bob(chromium, world)
    await page.goto(link.url)  # his browser gets the session's cookies
    form = page.url
    await page.goto(other_site)
    oauth = f"{world.gateway.url}/oauth/connect/accounts?connect_session_token={link.token}"
    await page.evaluate(
        """async ([oauth, form]) => {
            await new Promise(done => { const image = new Image(); image.onload = image.onerror = done; image.src = oauth; });
            const tries = [[oauth, {mode: "no-cors", credentials: "include"}], [oauth, {credentials: "include"}],
                [oauth, {headers: {"User-Agent": "curl/8", "Accept": "application/json"}, credentials: "include"}],
                [form, {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({a: "b"})}]];
            for (const [url, options] of tries) { try { await fetch(url, options); } catch (e) {} }
        }""",
        [oauth, form],
    )
    assert world.provider.authorizations == 0
    for url in (form, f"{world.gateway.url}/connect/s/embedded/i/accounts"):
        await page.goto(other_site)
        async with page.expect_navigation():
            await page.evaluate(
                """([url, token]) => { const form = document.createElement("form"); form.method = "post"; form.action = url;
                form.innerHTML = `<input name="connect_session_token" value="${token}">`;
                document.body.append(form); form.submit(); }""",
                [url, link.token],
            )
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}
    assert await world.pending(link) == []
    await page.context.close()


async def test_a_window_that_another_site_opens_shows_the_page_first(
    world: World, chromium: Any, other_site: str
) -> None:
    link = await world.link()
    page = await page_of_bob(chromium, world)
    await page.goto(other_site)
    oauth = f"{world.gateway.url}/oauth/connect/accounts?connect_session_token={link.token}&ws_client_id=mallory"
    async with page.context.expect_page() as opening:
        await page.evaluate("url => { window.popup = window.open(url); }", oauth)
    popup = await opening.value
    await popup.wait_for_selector("form.entry")
    assert "For Alice Liddell" in await popup.inner_text("main")
    assert world.provider.authorizations == 0
    reached = await page.evaluate(
        "(() => { try { return window.popup.document.title; } catch (e) { return null; } })()"
    )
    assert reached is None
    if world.bound:
        await confirm(popup)
        await popup.wait_for_url(f"{world.app}/**")
        assert await world.accounts() == {}
        assert len(await world.pending(link)) == 1
    await page.context.close()
