"""The FastAPI application with real OAuth servers: Ada connects her account, and Bob is refused with Ada's link.

`make oauth-servers` runs the test with both servers. `make test` runs it only with the server that is a test
dependency.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from gateway.sandbox.visitor import VisitedPage, browser
from tests.fakes.gateways import free_socket
from tests.fakes.pages import BROWSER, consent_url
from tests.journeys.conftest import GatewayServer
from tests.oauth_servers import api, django, oidc_provider
from tests.oauth_servers.django import DjangoOAuthToolkit
from tests.oauth_servers.oidc_provider import OidcProvider

ROOT = Path(__file__).parents[3]
ALL = os.environ.get("GATEWAY_OAUTH_SERVERS") == "all"
TTL_S = 60
Server = DjangoOAuthToolkit | OidcProvider


@pytest.fixture(params=["django-oauth-toolkit", "oidc-provider"])
async def server(
    request: pytest.FixtureRequest, gateway_server: GatewayServer, tmp_path: Path
) -> AsyncIterator[Server]:
    """Yield an OAuth server, and the gateway that has integration ``accounts`` for it."""
    if request.param == "oidc-provider" and not ALL:
        pytest.skip("needs packages from a registry; `make oauth-servers` runs it")
    start = {"django-oauth-toolkit": django.start, "oidc-provider": oidc_provider.start}[request.param]
    folder = tmp_path / "server"
    folder.mkdir()
    async with start(folder, gateway_server.callback, TTL_S) as oauth_server, api.serving(oauth_server) as behind:
        entry = {
            "display_name": oauth_server.name,
            "categories": ["other"],
            "docs": "https://docs.example.com",
            "auth_mode": "OAUTH2",
            **oauth_server.entry(),
            "token_url": behind.token_url,
            "proxy": {"base_url": behind.url},
        }
        gateway_server.configure(
            providers={"server": entry},
            integrations={"accounts": {"provider": "server", **oauth_server.integration()}},
            allow=[f"127.0.0.1/32:{urlsplit(url).port}" for url in (oauth_server.url, behind.url)],
        )
        await gateway_server.start()
        yield oauth_server


@pytest.fixture
async def application(gateway_server: GatewayServer, server: Server) -> AsyncIterator[str]:
    """Yield the URL of the application. The application runs under uvicorn in its own process."""
    status, response = await gateway_server.call("POST", "/environment/webhook-signing-key/rotate", body={})
    assert status == 200, response
    sock = free_socket()
    sock.listen()  # so that requests wait until uvicorn is ready
    arguments = ("-m", "uvicorn", "--fd", str(sock.fileno()), "tests.journeys.wrong_person.application:app")
    environ = {
        "GATEWAY_URL": gateway_server.url,
        "SECRET_KEY": gateway_server.secret_key,
        "SIGNING_KEY": response["data"]["webhook_signing_key"],
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env={**os.environ, **environ},
        pass_fds=[sock.fileno()],
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    sock.close()
    process.terminate()
    await process.wait()


@dataclass
class User:
    """A user. `http`: a browser that is signed in at the application. The user has the same `name` at the OAuth server."""

    name: str
    application: str
    server: Server
    http: aiohttp.ClientSession

    async def link(self) -> str:
        """Return the link that the application creates for this user."""
        async with self.http.get(f"{self.application}/connect", allow_redirects=False) as response:
            assert response.status == 303, await response.text()
            return response.headers["Location"]

    async def connect(self, link: str) -> VisitedPage:
        """Walk through the gateway's page, the server's sign-in and the consent. Return the last page."""
        async with self.http.get(link, headers=BROWSER) as page:
            connect_page = str(page.url)
        return await self.server.authorize(self.http, await consent_url(self.http, connect_page), self.name)


@asynccontextmanager
async def user(name: str, application: str, server: Server) -> AsyncIterator[User]:
    async with browser() as http:
        async with http.post(f"{application}/sign-in/{name}") as response:
            assert response.status == 204
        yield User(name, application, server, http)


@pytest.fixture
async def ada(application: str, server: Server) -> AsyncIterator[User]:
    async with user("ada", application, server) as signed_in:
        yield signed_in


@pytest.fixture
async def bob(application: str, server: Server) -> AsyncIterator[User]:
    async with user("bob", application, server) as signed_in:
        yield signed_in


async def accounts(gateway: GatewayServer) -> dict[str, str]:
    """Return the account of each connection by end user, as the OAuth server reports the account."""
    _, listed = await gateway.call("GET", "/connections")
    found = {}
    for connection in listed["connections"]:
        names = {"Provider-Config-Key": "accounts", "Connection-Id": connection["connection_id"]}
        _, response = await gateway.call("GET", "/proxy/whoami", headers=names)
        found[connection["end_user"]["id"]] = response["user"]
    return found


async def test_the_right_user_connects_and_another_one_with_the_same_link_is_refused(
    gateway_server: GatewayServer, ada: User, bob: User
) -> None:
    for _ in range(2):  # first without a link of Bob's own, then with one
        page = await bob.connect(await ada.link())
        assert page.url.startswith(f"{bob.application}/back")
        assert page.status == 403, page.text
        assert await accounts(gateway_server) == {}
        await bob.link()
    page = await ada.connect(await ada.link())
    assert (page.status, json.loads(page.text)["outcome"]) == (200, "pending")
    assert await accounts(gateway_server) == {"ada": "ada"}
    async with ada.http.get(page.url) as again:  # loading the page again changes nothing
        assert again.status == 200
    async with bob.http.get(page.url) as forwarded:
        assert forwarded.status == 403
    async with aiohttp.ClientSession() as nobody, nobody.get(page.url) as signed_out:
        assert signed_out.status == 401
    assert await accounts(gateway_server) == {"ada": "ada"}
