"""The unchanged browser SDK `@nangohq/frontend` with a gateway and a Django OAuth server. Only its host is configured."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from gateway.client import code_challenge, new_code_verifier
from tests.fakes import django_idp_server
from tests.fakes.django_idp import DjangoIdp
from tests.fakes.patience import PATIENCE_S
from tests.journeys.conftest import GatewayServer
from tests.journeys.connect_page.browser import launch_browser, npm
from tests.journeys.test_django_oauth import _serve

APP = """<!doctype html><title>The application</title><h1>The application</h1>
<script type="module">
import Nango from "/sdk/index.js";
window.Nango = Nango;
window.events = [];
window.outcome = async (promise) => {
  try { return {ok: await promise}; } catch (e) { return {type: e.type, message: e.message}; }
};
document.title = "ready";
</script>"""


@pytest.fixture
async def app_page(aiohttp_server: AiohttpServer) -> str:
    """Return a page of the customer's application, at its own origin, that has loaded the SDK."""
    modules = await asyncio.to_thread(npm, "@nangohq/frontend@0.71.10")
    app = web.Application()

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=APP, content_type="text/html")

    app.router.add_get("/", page)
    app.router.add_static("/sdk", modules / "@nangohq" / "frontend" / "dist")
    server = await aiohttp_server(app)
    return f"http://127.0.0.1:{server.port}/"


async def sign_in(popup: Any) -> None:
    """Sign in as the end user at the OAuth server. If the user is already signed in, only give consent if asked."""
    async with asyncio.timeout(PATIENCE_S):
        while not popup.is_closed():
            try:
                if await popup.locator("[name=username]").count():
                    await popup.fill("[name=username]", django_idp_server.USERNAME)
                    await popup.fill("[name=password]", django_idp_server.PASSWORD)
                    await popup.locator("[type=submit], button").first.click()
                elif await popup.locator("form.entry button.main").count():  # a form of the gateway's own page
                    assert "For ada" in await popup.inner_text("main")
                    await popup.locator("form.entry button.main").click()
                elif await popup.locator("[name=allow][type=submit]").count():
                    await popup.locator("[name=allow][type=submit]").click()
                else:
                    await asyncio.sleep(0.05)
            except Exception:  # noqa: BLE001 (it navigates, or closes, whenever it likes)
                if not popup.is_closed():
                    await asyncio.sleep(0.05)


async def token(server: GatewayServer, path: str = "/connect/sessions", **body: Any) -> str:
    request_body = {"end_user": {"id": "ada"}, **body}
    status, made = await server.call("POST", path, body=request_body)
    assert status == 201, made
    text: str = made["data"]["token"]
    return text


async def test_auth_reconnect_and_connect_ui_work_unchanged(
    gateway_server: GatewayServer, django_idp: DjangoIdp, app_page: str
) -> None:
    await _serve(gateway_server, django_idp)
    host = gateway_server.url
    async with launch_browser() as browser:
        context = await browser.new_context()
        page = await context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda fault: errors.append(str(fault)))
        signing: list[asyncio.Task[None]] = []
        context.on("page", lambda popup: signing.append(asyncio.create_task(sign_in(popup))))
        await page.goto(app_page)
        await page.wait_for_function("document.title === 'ready'")

        session = await token(gateway_server, allowed_integrations=["accounts"])
        made = await page.evaluate(
            "([host, token]) => outcome(new Nango({host, connectSessionToken: token})"
            ".auth('accounts', {detectClosedAuthWindow: true}))",
            [host, session],
        )
        assert made["ok"]["providerConfigKey"] == "accounts", made
        connection_id = made["ok"]["connectionId"]
        _, stored = await gateway_server.call("GET", f"/connections/{connection_id}?provider_config_key=accounts")
        first = stored["credentials"]["access_token"]

        session = await token(
            gateway_server, "/connect/sessions/reconnect", connection_id=connection_id, integration_id="accounts"
        )
        again = await page.evaluate(
            "([host, token]) => outcome(new Nango({host, connectSessionToken: token}).reconnect('accounts', {}))",
            [host, session],
        )
        assert again["ok"] == {"providerConfigKey": "accounts", "connectionId": connection_id, "isPending": False}, (
            again
        )
        _, stored = await gateway_server.call("GET", f"/connections/{connection_id}?provider_config_key=accounts")
        assert stored["credentials"]["access_token"] != first

        bound = {"code_challenge": code_challenge(new_code_verifier()), "return_url": f"{app_page}back"}
        session = await token(gateway_server, allowed_integrations=["accounts"], **bound)
        pending = await page.evaluate(
            "([host, token]) => outcome(new Nango({host, connectSessionToken: token}).auth('accounts', {}))",
            [host, session],
        )
        assert pending["ok"]["isPending"], pending
        assert page.url == app_page, "only the window continues"

        refused = await page.evaluate(
            "([host, token]) => outcome(new Nango({host, connectSessionToken: token}).auth('nothing', {}))",
            [host, await token(gateway_server)],
        )
        assert refused["type"] == "unknown_config_key", refused

        session = await token(gateway_server, allowed_integrations=["accounts"])
        await page.evaluate(
            """([host, token]) => {
                const ui = new Nango({host}).openConnectUI({
                    baseURL: host + "/connect", apiURL: host, lang: "en", onEvent: (event) => window.events.push(event)});
                ui.setSessionToken(token);
                ui.open && ui.open();
            }""",
            [host, session],
        )
        frame = page.frame_locator("iframe#connect-ui")
        await frame.locator("button.main").click(timeout=15_000)
        await page.wait_for_function("window.events.some((event) => event.type === 'connect')", timeout=20_000)
        events = await page.evaluate("window.events")
        assert {"ready", "settings_changed", "connect"} <= {event["type"] for event in events}
        connected = next(event for event in events if event["type"] == "connect")
        assert connected["payload"]["providerConfigKey"] == "accounts"
        assert "is connected" in await frame.locator("h1").inner_text()
        await frame.locator("button.close").click()
        await page.wait_for_function("window.events.some((event) => event.type === 'close')")
        assert errors == []
        for task in signing:
            task.cancel()
        await asyncio.gather(*signing, return_exceptions=True)
    _, listed = await gateway_server.call("GET", "/connections?endUserId=ada")
    assert {connection["connection_id"] for connection in listed["connections"]} == {
        connection_id,
        connected["payload"]["connectionId"],
    }
