"""The WebSocket on which the Nango browser SDKs wait (docs/compatibility.md#browser-sdk)."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpClient

import gateway
from gateway.config import ConnectConfig
from tests.fakes.gateways import RunningGateway, document
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow


async def open_socket(running: RunningGateway, path: str = "/") -> tuple[aiohttp.ClientWebSocketResponse, str]:
    socket = await running.http.ws_connect(running.url + path, origin="https://app.example.com")
    ack = await socket.receive_json(timeout=PATIENCE_S)
    assert ack["message_type"] == "connection_ack"
    return socket, ack["ws_client_id"]


async def open_socket_if_allowed(running: RunningGateway) -> aiohttp.ClientWebSocketResponse | None:
    try:
        return (await open_socket(running))[0]
    except aiohttp.WSServerHandshakeError as refused:
        if refused.status != 429:
            raise
        return None


async def message_after_flow(running: RunningGateway, query: str = "", **session: Any) -> dict[str, Any]:
    socket, client = await open_socket(running)
    await walk_flow(running, await running.session_token(**session), f"&ws_client_id={client}{query}")
    message: dict[str, Any] = await socket.receive_json(timeout=PATIENCE_S)
    await socket.close()
    return message


async def test_socket_reports_the_new_connection(running: RunningGateway, tracker: Tracker) -> None:
    message = await message_after_flow(running)
    listed = (await running.json("GET", "/connections"))["connections"]
    assert message == {
        "message_type": "success",
        "provider_config_key": "tracker",
        "connection_id": listed[0]["connection_id"],
        "is_pending": False,
    }


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("&params[subdomain]=nowhere", "connection_validation_failed"),
        ("&params[subdomian]=x", "connection_validation_failed"),
        ("&connection_id=mine", "url_param_err"),
    ],
)
async def test_socket_reports_why_an_authorization_failed(
    running: RunningGateway, tracker: Tracker, query: str, kind: str
) -> None:
    message = await message_after_flow(running, query)
    assert (message["message_type"], message["error_type"]) == ("error", kind)
    assert message["provider_config_key"] == "tracker"
    assert message["error_desc"]


async def test_socket_reports_a_bad_token_response(running: RunningGateway, tracker: Tracker) -> None:
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    assert (await message_after_flow(running))["error_type"] == "token_err"


@pytest.mark.parametrize(("query", "kind"), [("&error=access_denied", "callback_err"), ("", "callback_err")])
async def test_socket_reports_a_refusal_by_the_provider(
    running: RunningGateway, tracker: Tracker, query: str, kind: str
) -> None:
    socket, client = await open_socket(running)
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}&ws_client_id={client}"
    async with running.http.get(begin, allow_redirects=False) as response:
        state = response.headers["Location"].partition("state=")[2].partition("&")[0]
    async with running.http.get(f"{running.url}/oauth/callback?state={state}{query}") as response:
        assert response.status == 400
    assert (await socket.receive_json(timeout=PATIENCE_S))["error_type"] == kind
    await socket.close()


async def test_socket_reports_a_callback_in_another_browser_and_the_flow_continues(
    running: RunningGateway, tracker: Tracker
) -> None:
    socket, client = await open_socket(running)
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}&ws_client_id={client}"
    async with running.http.get(begin, allow_redirects=False) as response:
        consent = response.headers["Location"]
    async with running.http.get(consent, allow_redirects=False) as response:
        callback_url = response.headers["Location"]
    async with aiohttp.ClientSession() as stranger, stranger.get(callback_url) as response:
        assert response.status == 400
    assert (await socket.receive_json(timeout=PATIENCE_S))["error_type"] == "state_cookie_err"
    async with running.http.get(callback_url) as response:
        assert response.status == 200
    await socket.close()


async def test_socket_reports_that_the_integration_was_removed_during_the_flow(
    running: RunningGateway, tracker: Tracker
) -> None:
    integration = {"unique_key": "made", "provider": "tracker", "credentials": {"type": "OAUTH2", "client_id": "c"}}
    integration["credentials"]["client_secret"] = "s-0123456789"
    await running.json("POST", "/integrations", json=integration, expect=200)
    socket, client = await open_socket(running)
    token = await running.session_token(allowed_integrations=["made"])
    begin = f"{running.url}/oauth/connect/made?connect_session_token={token}&ws_client_id={client}"
    async with running.http.get(begin, allow_redirects=False) as response:
        consent = response.headers["Location"]
    await running.json("DELETE", "/integrations/made", expect=200)
    async with running.http.get(consent) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "unknown_provider_config")
    assert (await socket.receive_json(timeout=PATIENCE_S))["error_type"] == "unknown_config_key"
    await socket.close()


async def test_only_the_named_window_gets_the_result(running: RunningGateway, tracker: Tracker) -> None:
    other, _ = await open_socket(running)
    assert (await message_after_flow(running))["message_type"] == "success"
    with pytest.raises(TimeoutError):
        await other.receive(timeout=0.05)
    await other.close()


async def test_stored_result_does_not_contain_the_sockets_client_id(running: RunningGateway, tracker: Tracker) -> None:
    socket, client = await open_socket(running)
    await walk_flow(running, await running.session_token(), f"&ws_client_id={client}")
    await socket.close()
    stored = (await running.runtime.store.flow_results.list_since(running.runtime.started_at))[0]
    assert client not in repr(stored)


async def test_messages_of_clients_are_ignored(running: RunningGateway, tracker: Tracker) -> None:
    socket, client = await open_socket(running)
    await socket.send_str('{"message_type":"success"}')
    await walk_flow(running, await running.session_token(), f"&ws_client_id={client}")
    assert (await socket.receive_json(timeout=PATIENCE_S))["message_type"] == "success"
    await socket.close()


async def test_socket_path_is_configurable(running: RunningGateway) -> None:
    running.document["server"]["websocket_path"] = "/ws"
    await running.restart()
    socket, _ = await open_socket(running, "/ws")
    await socket.close()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await running.http.ws_connect(running.url + "/")
    assert refused.value.status == 404


async def test_socket_path_without_an_upgrade_is_404(running: RunningGateway) -> None:
    async with running.http.get(running.url + "/", headers=running.headers) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("first", ["host", "gateway"])
async def test_host_page_at_the_socket_path_is_still_served(
    running: RunningGateway, first: str, aiohttp_client: AiohttpClient
) -> None:
    async def serve_host_page(_request: web.Request) -> web.Response:
        return web.Response(text="the host's own")

    host = web.Application()
    if first == "host":
        host.router.add_get("/", serve_host_page)
    running.document["server"]["port"] = 0
    gateway.setup(host, document([]) | {"catalog": []} | {"environments": {}} | {"store": running.document["store"]})
    if first == "gateway":
        host.router.add_get("/", serve_host_page)
    client = await aiohttp_client(host)
    async with client.get("/") as response:
        assert await response.text() == "the host's own"
    if first == "gateway":
        async with client.ws_connect("/") as socket:
            assert (await socket.receive_json(timeout=PATIENCE_S))["message_type"] == "connection_ack"


async def test_sockets_are_closed_when_the_gateway_stops(running: RunningGateway) -> None:
    socket, _ = await open_socket(running)
    running.runtime.serving = False
    async with asyncio.timeout(PATIENCE_S):
        assert (await socket.receive()).type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}


async def test_too_many_sockets_are_refused(running: RunningGateway) -> None:
    running.configure(connect=ConnectConfig(result_sockets=1))
    socket, _ = await open_socket(running)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await open_socket(running)
    assert refused.value.status == 503
    await socket.close()
    async with asyncio.timeout(PATIENCE_S):
        while running.runtime.outcomes.is_full(1):
            await asyncio.sleep(0)
    socket, _ = await open_socket(running)
    await socket.close()


async def test_sockets_of_one_ip_address_are_limited(running: RunningGateway) -> None:
    running.configure(connect=ConnectConfig(result_sockets_per_address=1))
    socket, _ = await open_socket(running)
    async with running.http.get(running.url, headers=UPGRADE) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"], response.headers["Retry-After"]) == (429, "too_many_request", "10")
        assert "connect.result_sockets_per_address" in error["message"]
    await socket.close()
    async with asyncio.timeout(PATIENCE_S):
        while (socket := await open_socket_if_allowed(running)) is None:
            await asyncio.sleep(0.001)
    await socket.close()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
