"""Fixtures that all tests of a module share: one browser, one gateway and one set of pages."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.journeys.connect_page.browser import launch_browser
from tests.journeys.connect_page.looks import LOOKS
from tests.journeys.connect_page.site import ConnectSite, connect_site

EMBEDDING = """<!doctype html><iframe id="ui" style="width:600px;height:740px;border:0"></iframe><script>
window.events = [];
window.addEventListener("message", (event) => {
  window.events.push(event.data);
  if (event.data.type === "ready") event.source.postMessage({type: "session_token", sessionToken: window.token}, event.origin);
});
</script>"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Any]:
    async with launch_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConnectSite]:
    async with connect_site(tmp_path_factory.mktemp("connect")) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Any) -> AsyncIterator[Any]:
    context = await browser.new_context(locale="en-US", **LOOKS["light"])
    page = await context.new_page()
    page.faults = []
    page.on("pageerror", lambda fault: page.faults.append(str(fault)))
    page.on("console", lambda said: page.faults.append(said.text) if "Content Security" in said.text else None)
    yield page
    assert page.faults == []
    await context.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def embedding() -> AsyncIterator[str]:
    """Return a page of the customer's application that embeds the connect page and gives it `window.token`."""
    app = web.Application()

    async def serve_application_page(_request: web.Request) -> web.Response:
        return web.Response(text=EMBEDDING, content_type="text/html")

    app.router.add_get("/", serve_application_page)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/"
