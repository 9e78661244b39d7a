"""The FastAPI application at a real OAuth server: Ada connects her account, and Bob with Ada's link is refused."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from gateway.sandbox.visitor import VisitedPage, browser, visit
from tests.fakes import django_idp_server as server
from tests.fakes.django_idp import DjangoIdp
from tests.fakes.gateways import free_socket
from tests.fakes.pages import BROWSER, to_consent
from tests.journeys.conftest import GatewayServer
from tests.journeys.test_django_oauth import _serve

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def application(gateway_server: GatewayServer, django_idp: DjangoIdp) -> AsyncIterator[str]:
    """The address of the application, which runs under uvicorn in a process of its own."""
    await _serve(gateway_server, django_idp)
    status, told = await gateway_server.call("POST", "/environment/webhook-signing-key/rotate", body={})
    assert status == 200, told
    sock = free_socket()
    sock.listen()  # so that who comes before uvicorn is ready waits
    arguments = ("-m", "uvicorn", "--fd", str(sock.fileno()), "tests.journeys.wrong_person.application:app")
    environ = {
        "GATEWAY_URL": gateway_server.url,
        "SECRET_KEY": gateway_server.secret_key,
        "SIGNING_KEY": told["data"]["webhook_signing_key"],
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
    """`http`: a browser, signed in at the application and, once it is there, at the OAuth server under the same name."""

    name: str
    application: str
    http: aiohttp.ClientSession

    async def link(self) -> str:
        """The link that the application makes for this user."""
        async with self.http.get(f"{self.application}/connect", allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
            return answer.headers["Location"]

    async def connect(self, link: str) -> VisitedPage:
        """Through our page, the server's sign-in and its consent, to where that ends."""
        async with self.http.get(link, headers=BROWSER) as page:
            pages = str(page.url)
        answers = {"username": self.name, "password": server.PASSWORD, "allow": "Authorize"}
        return await visit(self.http, await to_consent(self.http, pages), answers)


@asynccontextmanager
async def user(name: str, application: str) -> AsyncIterator[User]:
    async with browser() as http:
        async with http.post(f"{application}/sign-in/{name}") as answer:
            assert answer.status == 204
        yield User(name, application, http)


@pytest.fixture
async def ada(application: str) -> AsyncIterator[User]:
    async with user(server.USERNAME, application) as one:
        yield one


@pytest.fixture
async def bob(application: str) -> AsyncIterator[User]:
    async with user(server.OTHER_USERNAME, application) as one:
        yield one


async def whose(gateway: GatewayServer) -> dict[str, str]:
    """Whose account each connection is, by its end user, as the OAuth server sees it."""
    _, listed = await gateway.call("GET", "/connections")
    found = {}
    for one in listed["connections"]:
        names = {"Provider-Config-Key": "accounts", "Connection-Id": one["connection_id"]}
        _, told = await gateway.call("GET", "/proxy/api/whoami", headers=names)
        found[one["end_user"]["id"]] = told["user"]
    return found


@pytest.mark.parametrize("django_idp", [60], indirect=True)
async def test_the_right_user_connects_and_another_one_with_the_same_link_is_refused(
    gateway_server: GatewayServer, ada: User, bob: User
) -> None:
    for _ in range(2):  # without a link of his own, then with one
        page = await bob.connect(await ada.link())
        assert page.url.startswith(f"{bob.application}/back")
        assert page.status == 403, page.text
        assert await whose(gateway_server) == {}
        await bob.link()
    page = await ada.connect(await ada.link())
    assert (page.status, json.loads(page.text)["outcome"]) == (200, "pending")
    assert await whose(gateway_server) == {"ada": "ada"}
    async with ada.http.get(page.url) as again:  # loaded again: nothing changes
        assert again.status == 200
    async with bob.http.get(page.url) as forwarded:
        assert forwarded.status == 403
    async with aiohttp.ClientSession() as nobody, nobody.get(page.url) as signed_out:
        assert signed_out.status == 401
    assert await whose(gateway_server) == {"ada": "ada"}
