"""Connections at third-party OAuth servers, each in its own process, with `gateway serve` in front of an API.

`make oauth-servers` runs all of them and installs their packages outside the repository. `make test` runs the one that
is a test dependency anyway.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from gateway.sandbox.visitor import browser
from tests.fakes.commands import command_output
from tests.fakes.ports import free_port
from tests.journeys.conftest import GatewayServer
from tests.oauth_servers import api, canaille, django, glewlwyd, jupyterhub, oidc_provider
from tests.oauth_servers.api import Api
from tests.oauth_servers.server import USER, OAuthServer, basic

ALL = os.environ.get("GATEWAY_OAUTH_SERVERS") == "all"
Start = Callable[[Path, str, int], AbstractAsyncContextManager[OAuthServer]]
SERVERS: dict[str, Start] = {
    "django-oauth-toolkit": django.start,
    "oidc-provider": oidc_provider.start,
    "canaille": canaille.start,
    "glewlwyd": glewlwyd.start,
    "jupyterhub": jupyterhub.start,
}
REFRESHING = tuple(name for name in SERVERS if name != "jupyterhub")
TTL_S = 20  # so long that even on a busy machine 300 calls end before the second token expires
SHORT_TTL_S = 6  # for tests that wait for the expiry of a token without a crowd
CALLS = 300 if ALL else 60


@dataclass
class Journey:
    """A gateway with integration ``accounts`` for `server`, and the browser of one end user."""

    gateway: GatewayServer
    server: OAuthServer
    api: Api
    end_user: aiohttp.ClientSession
    connection_id: str = ""

    async def connect(self) -> None:
        """Connect as the end user does."""
        page = await self.server.authorize(self.end_user, await self.gateway.connect_url("accounts"))
        assert (page.status, page.url.startswith(self.gateway.callback)) == (200, True), (page.url, page.text)
        _, listed = await self.gateway.call("GET", "/connections")
        (connection,) = listed["connections"]
        self.connection_id = connection["connection_id"]

    async def reconnect(self) -> None:
        """Authorize the same connection again, by the link that the application requests."""
        reference = {"connection_id": self.connection_id, "integration_id": "accounts"}
        status, session = await self.gateway.call("POST", "/connect/sessions/reconnect", body=reference)
        assert status == 201, session
        url = f"{self.gateway.url}/oauth/connect/accounts?connect_session_token={session['data']['token']}"
        page = await self.server.authorize(self.end_user, url)
        assert (page.status, page.url.startswith(self.gateway.callback)) == (200, True), (page.url, page.text)
        _, listed = await self.gateway.call("GET", "/connections")
        assert [connection["connection_id"] for connection in listed["connections"]] == [self.connection_id]

    async def call(self) -> tuple[int, Any]:
        """Make a proxied call to the API."""
        names = {"Provider-Config-Key": "accounts", "Connection-Id": self.connection_id}
        return await self.gateway.call("GET", "/proxy/whoami", headers=names)

    async def credentials(self) -> dict[str, Any]:
        """Return the credentials that the gateway has, with the refresh token."""
        path = f"/connections/{self.connection_id}?provider_config_key=accounts&refresh_token=true"
        status, connection = await self.gateway.call("GET", path)
        assert status == 200, connection
        credential: dict[str, Any] = connection["credentials"]
        return credential

    async def renewed(self) -> dict[str, Any]:
        """Call until the gateway has refreshed the token by time. Return its credentials."""
        before = self.api.refreshes()
        while self.api.refreshes() == before:
            assert (await self.call())[0] == 200
            await asyncio.sleep(0.2)
        assert (await self.call())[0] == 200
        return await self.credentials()

    async def refused(self, access_token: str) -> None:
        """Return once the server refuses this access token."""
        while await self.server.user_of(self.gateway.session, access_token) is not None:
            await asyncio.sleep(0.2)

    async def why(self) -> dict[str, Any]:
        """Return the diagnosis by ``gateway connections why``."""
        file = str(self.gateway.folder / "gateway.yaml")
        output = await command_output(
            "connections", "why", "-c", file, "--integration", "accounts", "--json", self.connection_id
        )
        assert output.code == 0, output
        explained: dict[str, Any] = json.loads(output.out)["diagnosis"]
        return explained


@pytest.fixture
async def journey(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journey]:
    """A started journey without a connection. Parameter: name of the server, lifetime of access tokens in seconds."""
    name, ttl_s = request.param
    if not ALL and (name, ttl_s) != ("django-oauth-toolkit", SHORT_TTL_S):
        pytest.skip("slow, or needs packages from a registry; `make oauth-servers` runs it")
    gateway_folder, server_folder = tmp_path / "gateway", tmp_path / "server"
    gateway_folder.mkdir()
    server_folder.mkdir()
    async with AsyncExitStack() as stack:
        connector = aiohttp.TCPConnector(limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        gateway = GatewayServer(gateway_folder, free_port(), session)
        server = await stack.enter_async_context(SERVERS[name](server_folder, gateway.callback, ttl_s))
        behind = await stack.enter_async_context(api.serving(server))
        entry = {
            "display_name": server.name,
            "categories": ["other"],
            "docs": "https://docs.example.com",
            "auth_mode": "OAUTH2",
            **server.entry(),
            "token_url": behind.token_url,
            "proxy": {"base_url": behind.url},
        }
        ports = sorted({urlsplit(url).port for url in (server.url, behind.url)})
        gateway.configure(
            providers={"server": entry},
            integrations={"accounts": {"provider": "server", **server.integration()}},
            allow=[f"127.0.0.1/32:{port}" for port in ports],
        )
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        end_user = await stack.enter_async_context(browser())
        yield Journey(gateway, server, behind, end_user)


def on_servers(*names: str, ttl_s: int) -> pytest.MarkDecorator:
    """Run the test once for each of these servers, with access tokens valid for `ttl_s`."""
    return pytest.mark.parametrize("journey", [pytest.param((name, ttl_s), id=name) for name in names], indirect=True)


@on_servers(*REFRESHING, ttl_s=TTL_S)
async def test_300_calls_with_an_expired_token_take_one_token_request(journey: Journey) -> None:
    await journey.connect()
    assert await journey.call() == (200, {"user": USER})
    first = await journey.credentials()
    if journey.server.refresh_outlives_access:
        journey.api.open.clear()  # the refresh, which begins shortly before the expiry, lasts beyond it
    before = journey.api.arrived
    while journey.api.arrived == before:
        await asyncio.sleep(0.01)
    if journey.server.refresh_outlives_access:
        await journey.refused(first["access_token"])
    calls = [asyncio.create_task(journey.call()) for _ in range(CALLS)]
    await asyncio.sleep(0)  # all of them have been sent
    journey.api.open.set()
    responses = await asyncio.gather(*calls)
    assert Counter(status for status, _ in responses) == {200: CALLS}
    assert {response["user"] for _, response in responses} == {USER}
    assert journey.api.refreshes() == 1
    assert (await journey.credentials())["access_token"] != first["access_token"]
    await journey.gateway.restart()
    assert await journey.call() == (200, {"user": USER})


@on_servers(*REFRESHING, ttl_s=SHORT_TTL_S)
async def test_a_rotated_refresh_token_is_replaced_and_a_replay_is_explained(journey: Journey) -> None:
    await journey.connect()
    first = await journey.credentials()
    second = await journey.renewed()
    assert second["refresh_token"] != first["refresh_token"]
    sent = journey.api.token_requests[-1]
    assert (sent.form["grant_type"], sent.form["refresh_token"]) == ("refresh_token", first["refresh_token"])
    assert await replay(journey, sent.form) == 400
    if journey.server.refresh != "rotates, reuse ends the grant":
        assert (await journey.renewed())["refresh_token"] != second["refresh_token"]
        return
    if not journey.server.refusal_names_reason:
        await refused_without_reason(journey)
        return
    status, refusal = await wait_until_not_served(journey)
    assert (status, refusal["error"]["code"]) == (424, "reconnect_needed")
    explained = await journey.why()
    assert {"access_taken_back", "used_elsewhere"} <= {cause["cause"] for cause in explained["causes"]}


@on_servers(*REFRESHING, ttl_s=SHORT_TTL_S)
async def test_a_withdrawn_grant_needs_a_reconnect_which_keeps_the_connection_id(journey: Journey) -> None:
    await journey.connect()
    credential = await journey.credentials()
    await journey.server.withdraw(journey.end_user, credential.get("refresh_token"))
    await journey.refused(credential["access_token"])
    if journey.server.refusal_names_reason:
        status, refusal = await wait_until_not_served(journey)
        assert (status, refusal["error"]["code"]) == (424, "reconnect_needed")
        explained = await journey.why()
        assert explained["state"] == "needs_reauth"
        assert explained["causes"][0]["cause"] == "access_taken_back"
        assert "revoked the access" in explained["causes"][0]["why"]
        assert "POST /connect/sessions/reconnect" in explained["action"]["how"]
    else:
        await refused_without_reason(journey)

    await journey.reconnect()
    assert (await journey.renewed())["refresh_token"] != credential["refresh_token"]
    assert (await journey.call())[0] == 200


@on_servers("jupyterhub", ttl_s=SHORT_TTL_S)
async def test_without_a_refresh_token_the_expiry_is_explained_and_a_reconnect_helps(
    journey: Journey,
) -> None:
    await journey.connect()
    assert await journey.call() == (200, {"user": USER})
    first = await journey.credentials()
    assert "refresh_token" not in first
    assert first["expires_at"]
    explained = await journey.why()
    assert (explained["state"], explained["causes"][0]["cause"]) == ("active", "no_refresh_token")
    await journey.refused(first["access_token"])
    await wait_until_not_served(journey)
    responses = await asyncio.gather(*(journey.call() for _ in range(CALLS)))
    assert Counter((status, response["error"]["code"]) for status, response in responses) == {
        (424, "reconnect_needed"): CALLS
    }
    assert [request.form["grant_type"] for request in journey.api.token_requests] == ["authorization_code"]
    explained = await journey.why()
    assert (explained["state"], explained["causes"][0]["cause"]) == ("needs_reauth", "no_refresh_token")
    assert "the provider gave no refresh token" in explained["causes"][0]["why"]
    assert explained["action"]["do"] == "reconnect"

    await journey.reconnect()
    assert await journey.call() == (200, {"user": USER})


@on_servers("jupyterhub", ttl_s=TTL_S)
async def test_connection_with_a_withdrawn_token_and_no_refresh_token_is_degraded_until_a_reconnect(
    journey: Journey,
) -> None:
    await journey.connect()
    assert await journey.call() == (200, {"user": USER})
    await journey.server.withdraw(journey.end_user, None)
    assert [(await journey.call())[0] for _ in range(3)] == [401] * 3
    while (explained := await journey.why())["state"] == "active":  # the count is stored in the background
        await asyncio.sleep(0.2)
    assert (explained["state"], explained["causes"][0]["cause"]) == ("degraded", "credential_rejected")
    assert "may have been revoked" in explained["causes"][0]["why"]

    await journey.reconnect()
    assert await journey.call() == (200, {"user": USER})
    assert (await journey.why())["state"] == "active"


@on_servers("django-oauth-toolkit", "oidc-provider", "canaille", ttl_s=TTL_S)
async def test_a_deleted_connection_ends_its_tokens_at_the_server(journey: Journey) -> None:
    await journey.connect()
    credential = await journey.credentials()
    path = f"/connections/{journey.connection_id}?provider_config_key=accounts"
    status, deleted = await journey.gateway.call("DELETE", path)
    assert (status, {outcome["outcome"] for outcome in deleted["revocation"]}) == (200, {"revoked"})
    assert await journey.server.user_of(journey.gateway.session, credential["access_token"]) is None
    assert await replay(journey, {"grant_type": "refresh_token", "refresh_token": credential["refresh_token"]}) == 400


async def replay(journey: Journey, form: Mapping[str, str]) -> int:
    """Send a token request directly to the server and return the response's status."""
    client, headers = journey.server.integration(), dict[str, str]()
    if "client_secret" not in form:
        headers["Authorization"] = basic(client["client_id"], client["client_secret"])
    async with journey.end_user.post(journey.server.token_url, data=dict(form), headers=headers) as response:
        return response.status


async def wait_until_not_served(journey: Journey) -> tuple[int, Any]:
    """Call until the gateway itself responds to a proxied call; return its response. Until the token expires, the
    gateway sends it and passes on the API's response.
    """
    while True:
        status, response = await journey.call()
        if status not in {200, 401}:
            return status, response
        await asyncio.sleep(0.2)


async def refused_without_reason(journey: Journey) -> None:
    """Check the state after the server returned 400 without a reason.

    The error may be temporary, so the gateway tries again. Only refusals that repeat for minutes end a connection
    (tests/gateway/connections tests that rule).
    """
    status, refusal = await wait_until_not_served(journey)
    assert (status, refusal["error"]["code"]) == (503, "token_endpoint_unavailable")
    assert (journey.api.token_requests[-1].status, journey.api.token_requests[-1].response) == (400, b"")
    explained = await journey.why()
    assert (explained["state"], explained["causes"][0]["cause"]) == ("degraded", "refused_without_reason")
    assert "revoked the access" in explained["causes"][1]["why"]
