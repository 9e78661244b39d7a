"""The console in Chromium: every view in light and dark mode and on a phone, without JavaScript, and by keyboard.

``GATEWAY_SCREENSHOTS=docs/screenshots`` saves the screenshots for docs/console.md.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.console import now_view
from gateway.console.console_page import LivePart
from gateway.errors import Unavailable
from gateway.records.operation import Operation
from gateway.store.console_sessions import ConsoleSessionStore, new_link
from tests.fakes.console import switch_on
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.ports import closed_port
from tests.fakes.tracker import Tracker
from tests.journeys.connect_page.browser import launch_browser, violations

VIEWS = {
    "now": "/dev",
    "connections": "/dev/connections",
    "connection": "/dev/connection?integration=tracker&id=anna",
    "calls": "/dev/calls",
    "live": "/dev/calls?live=1",
    "call": "/dev/call?id={call}",
    "providers": "/dev/providers",
    "integrations": "/dev/integrations",
    "integration": "/dev/integration?key=tracker",
    "keys": "/dev/keys",
    "key": "/dev/key?id=1&method=DELETE&path=/items/1",
    "events": "/dev/events",
    "audit": "/dev/audit",
    "incident": "/dev/incident?key=1&since=2h",
}
SHOTS = os.environ.get("GATEWAY_SCREENSHOTS")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def running(shared_tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """Yield a gateway with an event receiver that does not respond."""
    write_entry(tmp_path, "tracker", tracker_entry(shared_tracker.url))
    configuration = document(["127.0.0.1/32"])
    with closed_port() as port:
        configuration["environments"]["dev"]["webhook_url"] = f"http://127.0.0.1:{port}/events"
        found = RunningGateway(tmp_path, configuration)
        await found.start()
        yield found
        await found.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def busy_gateway(running: RunningGateway, shared_tracker: Tracker) -> RunningGateway:
    """Yield a gateway with data for every view."""
    tracker = shared_tracker
    switch_on(running)
    await running.import_connection(tracker.grant(), "anna", end_user={"id": "u1", "display_name": "Anna"})
    await running.import_connection({**tracker.grant(), "refresh_token": "unknown"}, "ben", end_user={"id": "u2"})
    await running.json("GET", "/connections/ben?provider_config_key=tracker&force_refresh=true")
    body = {"display_name": "agent", "limits": {"rules": ["GET /items/*"], "budget": 100}}
    key = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]["secret"]
    now = datetime.now(UTC)
    rows = []
    for n in reversed(range(200)):
        at = now - timedelta(seconds=n * 7)
        item = Operation("call", at, f"r{n}", "dev", "tracker", "anna", "GET", "127.0.0.1", f"/items/{n}", 200)
        item = item._replace(
            duration_ms=84.0 + n % 9, gateway_ms=0.3, token_ms=0.0, upstream_ms=83.0 + n % 9, bytes_out=512
        )
        if n % 13 == 4:
            item = item._replace(status=502, error_code="upstream_timeout")
        if n % 31 == 7:
            item = item._replace(status=403, error_code="forbidden", key_id=1, rule="rules")
        rows.append(item)
    rows.append(Operation("refresh", now - timedelta(seconds=3), "r0", "dev", "tracker", "anna", duration_ms=41.0))
    await running.runtime.store.call_log.add_many(rows)
    for method in ("GET", "GET", "DELETE"):
        async with running.call_proxy(
            "anna", "/items/1", method, headers={"Authorization": f"Bearer {key}"}
        ) as response:
            assert response.status == (403 if method == "DELETE" else 200)
    await running.runtime.call_queue.flush()
    await running.runtime.audit_keeper.run_once()
    return running


async def open_signed_in_page(context: Any, running: RunningGateway) -> Any:
    """Return the page of a user who opened the sign-in link and pressed its button with the keyboard."""
    token, _ = await new_link(running.runtime.store.console_sessions, "ada", "operator")
    page = await context.new_page()
    await page.goto(f"{running.url}/console/sign-in?link={token.reveal()}")
    await page.locator("button").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/dev")
    return page


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[Any]:
    async with launch_browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Any) -> AsyncIterator[Any]:
    """Yield a browser. Its contexts are closed at the end of the test."""
    yield chromium
    for context in chromium.contexts:
        await context.close()


async def url_of(running: RunningGateway, path: str) -> str:
    from gateway.records.operation import OperationFilter

    page = await running.runtime.store.call_log.find(OperationFilter("dev", kind="call", request_id="r0"))
    return f"{running.url}/console{path.format(call=page.operations[0].id)}"


async def save_screenshot(page: Any, file: Path) -> None:
    devtools = await page.context.new_cdp_session(page)
    wanted = {"format": "webp", "quality": 70, "captureBeyondViewport": False}
    file.write_bytes(base64.b64decode((await devtools.send("Page.captureScreenshot", wanted))["data"]))
    await devtools.detach()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
async def test_every_view_is_complete_and_axe_finds_nothing(
    busy_gateway: RunningGateway, browser: Any, look: str
) -> None:
    size = {"width": 390, "height": 844} if look == "phone" else {"width": 1280, "height": 860}
    context = await browser.new_context(viewport=size, color_scheme="dark" if look == "dark" else "light")
    page = await open_signed_in_page(context, busy_gateway)
    console_messages: list[str] = []
    page.on("console", lambda one: console_messages.append(one.text))
    for name, path in VIEWS.items():
        response = await page.goto(await url_of(busy_gateway, path))
        assert response.status == 200, name
        assert len(await response.body()) <= 40_000, name
        assert await violations(page) == [], name
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        cut = "[...document.querySelectorAll('.wide')].filter(one => one.scrollWidth > one.clientWidth).length"
        assert look != "phone" or await page.evaluate(cut) == 0, f"{name}: a table is cut at the right"
        if SHOTS:
            await save_screenshot(page, Path(SHOTS) / f"console-{name}-{look}.webp")
    assert console_messages == []


async def test_everything_is_done_without_javascript(busy_gateway: RunningGateway, browser: Any) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await open_signed_in_page(context, busy_gateway)
    await page.get_by_role("link", name="tracker/ben").first.click()
    assert "needs reauth" in await page.locator("h1").inner_text()
    await page.get_by_role("button", name="Create a link to connect again").click()
    assert "/connect?session_token=" in await page.locator("pre").inner_text()
    await page.get_by_role("link", name="Back").click()
    await page.locator("summary").click()
    await page.fill("input[name=typed]", "ben")
    await page.get_by_role("button", name="Delete", exact=True).click()
    assert "The connection is deleted" in await page.locator("h1").inner_text()
    await page.get_by_role("link", name="Keys").click()
    await page.get_by_role("link", name="1 agent").click()
    await page.get_by_role("button", name="Revoke this key and all keys that it minted").click()
    assert "The key is revoked" in await page.locator("h1").inner_text()
    await page.get_by_role("link", name="Calls").click()
    await page.fill("input[name=code]", "upstream_timeout")
    await page.get_by_role("button", name="Find").click()
    assert await page.locator("tbody tr").count() == 15
    await page.get_by_role("button", name="Sign out").click()
    assert "gateway console" in await page.locator("main").inner_text()


async def test_a_live_page_warns_while_the_gateway_does_not_respond(
    running: RunningGateway, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(now_view, "LIVE_S", 1)
    monkeypatch.setattr(now_view, "LivePart", partial(LivePart, silent_s=1))
    switch_on(running)
    context = await browser.new_context()
    page = await open_signed_in_page(context, running)
    stale, calm = page.locator("#stale"), page.locator(".calm")
    assert not await stale.is_visible()
    assert await calm.is_visible()
    await context.set_offline(True)
    await stale.wait_for(state="visible")
    assert "did not respond" in await stale.inner_text()
    assert not await calm.is_visible()
    await context.set_offline(False)
    await stale.wait_for(state="hidden")

    async def raise_unavailable(*_: object, **__: object) -> None:
        raise Unavailable("store_unavailable", "The store cannot be reached: no route.", retry_after_s=5)

    with monkeypatch.context() as patched:
        patched.setattr(ConsoleSessionStore, "get", raise_unavailable)
        await stale.wait_for(state="visible")
        assert "The store cannot be reached: no route." in await stale.inner_text()
        assert "did not respond" not in await stale.inner_text()
    await stale.wait_for(state="hidden")
    assert await calm.is_visible()
    goes_on = asyncio.Event()

    async def hangs(*_: object, **__: object) -> None:
        await goes_on.wait()

    with monkeypatch.context() as patched:
        patched.setattr(ConsoleSessionStore, "get", hangs)
        await stale.wait_for(state="visible")
        assert "did not respond" in await stale.inner_text()
        assert not await calm.is_visible()
    goes_on.set()
    await stale.wait_for(state="hidden")


def new_operation(number: int, **fields: Any) -> Operation:
    operation = Operation(
        "call", datetime.now(UTC), f"new{number}", "dev", "tracker", "anna", "GET", path=f"/new/{number}"
    )
    return operation._replace(status=200, **fields)


async def test_a_new_call_shows_without_a_reload(busy_gateway: RunningGateway, browser: Any) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    console_messages: list[str] = []
    page.on("console", lambda one: console_messages.append(one.text))
    await page.goto(f"{busy_gateway.url}/console/dev/calls")
    await page.get_by_role("checkbox", name="live").check()
    await page.get_by_role("button", name="Find").click()
    await page.wait_for_url("**live=1*")
    await page.evaluate("window.notReloaded = true")
    link = page.locator("tbody a[id]").first
    await link.focus()
    held = await link.get_attribute("id")
    for number in range(2):
        await busy_gateway.runtime.store.call_log.add_many([new_operation(number)])
        await page.get_by_text(f"/new/{number}").wait_for()
    assert await page.evaluate("[window.notReloaded, document.activeElement.id]") == [True, held]
    assert await page.locator("tbody tr").count() == 50
    assert await violations(page) == []
    await page.get_by_role("link", name="Stop").click()
    await busy_gateway.runtime.store.call_log.add_many([new_operation(7)])
    assert await page.locator("[hx-get]").count() == await page.locator("script").count() == 0
    assert console_messages == []


async def test_the_now_page_shows_new_data_without_a_reload(
    busy_gateway: RunningGateway, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(now_view, "LIVE_S", 1)
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    await page.evaluate("window.notReloaded = true")
    await busy_gateway.runtime.store.call_log.add_many(
        [new_operation(1, error_code="upstream_tls")._replace(status=502)]
    )
    await page.get_by_text("certificate is not valid").wait_for()
    assert await page.evaluate("window.notReloaded")
    await page.get_by_role("link", name="Stop updates").click()
    assert await page.locator("script").count() == 0


async def test_a_live_page_whose_session_ends_shows_the_sign_in(busy_gateway: RunningGateway, browser: Any) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    await page.goto(f"{busy_gateway.url}/console/dev/calls?live=1")
    await busy_gateway.runtime.store.console_sessions.end_all()
    heading = page.get_by_role("heading", name="Sign in")
    await heading.wait_for()
    assert await heading.is_visible()


async def test_without_javascript_a_live_page_is_loaded_again(busy_gateway: RunningGateway, browser: Any) -> None:
    page = await open_signed_in_page(await browser.new_context(java_script_enabled=False), busy_gateway)
    await page.goto(f"{busy_gateway.url}/console/dev/calls?live=1")
    await busy_gateway.runtime.store.call_log.add_many([new_operation(1)])
    call = page.get_by_text("/new/1")
    await call.wait_for()
    assert await call.is_visible()


async def test_the_first_tab_goes_to_the_content(busy_gateway: RunningGateway, browser: Any) -> None:
    page = await open_signed_in_page(await browser.new_context(), busy_gateway)
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
