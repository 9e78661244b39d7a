"""The WebSocket of a browser is on one node, and the callback arrives at another node. The socket receives the result."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.fakes.nodes import Nodes, nodes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gateway.db'}"
    url: str = request.getfixturevalue("database")
    return url


async def authorize(
    cluster: Nodes, socket_on: int, callback_on: int, query: dict[str, str] | None = None
) -> dict[str, Any]:
    """Complete an authorization and return the message that the socket receives."""
    async with cluster.http.post(
        f"{cluster.urls[socket_on]}/connect/sessions", json={"end_user": {"id": "u"}}
    ) as response:
        token = (await response.json())["data"]["token"]
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        aiohttp.ClientSession(cookie_jar=jar) as browser,
        browser.ws_connect(f"{cluster.urls[socket_on]}/", origin="https://app.example.com") as socket,
    ):
        ack = await socket.receive_json(timeout=PATIENCE_S)
        assert ack["message_type"] == "connection_ack"
        parameters = {"connect_session_token": token, "ws_client_id": ack["ws_client_id"], **(query or {})}
        begin = f"{cluster.urls[socket_on]}/oauth/connect/tracker?{urlencode(parameters)}"
        async with browser.get(begin, allow_redirects=False) as response:
            consent = response.headers["Location"]
        async with browser.get(consent, allow_redirects=False) as response:
            callback_url = response.headers["Location"]
        callback = callback_url.replace(cluster.urls[socket_on], cluster.urls[callback_on])
        async with browser.get(callback) as response:
            await response.read()
        message: dict[str, Any] = await socket.receive_json(timeout=PATIENCE_S)
        return message


async def test_a_callback_on_one_node_reaches_the_socket_on_another(
    tracker: Tracker, tmp_path: Path, store_url: str
) -> None:
    async with nodes(tmp_path, tracker.url, store_url, count=2) as cluster:
        message = await authorize(cluster, 0, 1)
        assert (message["message_type"], message["provider_config_key"]) == ("success", "tracker")
        async with cluster.http.get(f"{cluster.urls[1]}/connections") as response:
            listed = (await response.json())["connections"]
        assert [connection["connection_id"] for connection in listed] == [message["connection_id"]]
        result = await authorize(cluster, 1, 0, {"params[subdomain]": "nowhere"})
        assert (result["message_type"], result["error_type"]) == ("error", "connection_validation_failed")
        assert "acme, globex" in result["error_desc"]


async def test_two_workers_on_one_port_deliver_every_result(tracker: Tracker, tmp_path: Path) -> None:
    """The system chooses the worker of each connection. Of eight authorizations, some use both workers."""
    async with nodes(tmp_path, tracker.url, f"sqlite:///{tmp_path / 'gateway.db'}", workers=2) as cluster:
        for _ in range(8):
            assert (await authorize(cluster, 0, 0))["message_type"] == "success"
