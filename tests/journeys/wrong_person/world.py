"""Alice, Bob and their browsers, the application that created Alice's link, and a provider where both have an account."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.client import AsyncClient, ConnectResult, InvalidReturn, code_challenge, new_code_verifier, verify_return
from gateway.events.signatures import signing_keys
from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, write_entry
from tests.fakes.pages import ACTION, BROWSER, hidden_inputs
from tests.journeys.wrong_person.provider import Provider

ONWARD = 'http-equiv="refresh" content="0;url='
OTHER_KEY = "nango_sk_another-environments-key-0123456789"
ALICE = {"id": "alice", "display_name": "Alice Liddell", "email": "alice@example.com"}


class Person:
    """A person with a browser that keeps cookies and follows redirects within the gateway and the provider.

    `signed_in`: this person's user name at the application. `seen`: the pages that the browser showed. `clicks`: number
    of forms that this person sent.
    """

    def __init__(self, signed_in: str | None, application: str) -> None:
        self._application = application
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=BROWSER)
        self.signed_in = signed_in
        self.seen: list[str] = []
        self.clicks = 0
        self.status = 0
        self.error: str | None = None

    async def go(self, url: str, form: Mapping[str, str] | None = None, **options: Any) -> str:
        """Load `url`, follow redirects, and return the last URL. A URL of the application is returned but not loaded."""
        method = "GET" if form is None else "POST"
        for _ in range(10):
            async with self.http.request(method, url, data=form, allow_redirects=False, **options) as response:
                html = await response.text()
                self.status, self.error = response.status, response.headers.get("Gateway-Error")
                if "Location" not in response.headers:
                    self.seen.append(unescape(html))
                    return url
                url, method, form, options = response.headers["Location"], "GET", None, {}
            if url.startswith(self._application):
                return url
        raise AssertionError(f"too many redirects, the last to {url}")

    async def click(self, url: str, typed: Mapping[str, str] | None = None) -> str:
        """Open the page at `url` and send its form. Return the last URL, which can be the provider's."""
        await self.go(url)
        return await self.send(self.seen[-1], typed)

    async def send(self, html: str, typed: Mapping[str, str] | None = None) -> str:
        action = ACTION.search(html)
        assert action is not None, html
        self.clicks += 1
        where = await self.go(unescape(action[1]), {**hidden_inputs(html), **(typed or {})})
        if where.startswith(self._application) or ONWARD not in self.seen[-1]:
            return where
        onward = self.seen[-1].partition(ONWARD)[2].partition('"')[0]
        return onward if onward.startswith(self._application) else await self.go(onward)

    @property
    def saw_alices_name_and_clicked(self) -> bool:
        """Whether a page named Alice, and the person sent its form."""
        return self.clicks > 0 and any("For Alice Liddell" in page for page in self.seen)

    async def sign_in(self, world: "World", person: str) -> None:
        await self.go(f"{world.provider.url}/sign-in/{person}")


@dataclass
class Link:
    """A session that the application created for a user, and the values that the application keeps for it."""

    session: dict[str, Any]
    verifier: str
    state: str

    @property
    def url(self) -> str:
        return str(self.session["connect_link"])

    @property
    def token(self) -> str:
        return str(self.session["token"])

    @property
    def session_id(self) -> str:
        return str(self.session["poll_url"]).rpartition("/")[2]


@dataclass
class World:
    """The people, the application and the provider. `bound`: whether sessions have a code challenge.

    `app`: the application's origin. `returned`: the application's URLs that browsers have loaded.
    """

    gateway: RunningGateway
    provider: Provider
    bound: bool = True
    app: str = ""
    returned: list[str] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    people: list[Person] = field(default_factory=list)

    async def serve_application(self) -> TestServer:
        async def page(request: web.Request) -> web.Response:
            self.returned.append(str(request.url))
            return web.Response(text="<!doctype html><title>application</title>", content_type="text/html")

        app = web.Application()
        app.router.add_get("/back", page)
        server = TestServer(app)
        await server.start_server()
        self.app = f"http://127.0.0.1:{server.port}"
        return server

    def person(self, signed_in: str | None) -> Person:
        self.people.append(Person(signed_in, self.app))
        return self.people[-1]

    async def link(self, user: str = "alice", path: str = "/connect/sessions", **fields: Any) -> Link:
        """Let the application create a link for its signed-in user."""
        verifier, state = new_code_verifier(), secrets.token_urlsafe(8)
        body = {"return_url": f"{self.app}/back", "state": state, **fields}
        if self.bound:
            body["code_challenge"] = code_challenge(verifier)
        if path == "/connect/sessions":
            body = {"allowed_integrations": ["accounts"], **body}
        end_user = ALICE if user == "alice" else {"id": user, "display_name": user.title()}
        made = await self.gateway.json("POST", path, json={"end_user": end_user, **body}, expect=201)
        self.links[user] = Link(made["data"], verifier, state)
        return self.links[user]

    async def pages(self, person: Person, link: Link) -> str:
        """Open the link in this browser and return the URL of its page."""
        return await person.go(link.url)

    async def signing_key(self, environment: str = "dev") -> str:
        runtime = self.gateway.runtime
        return (await signing_keys(runtime.generation.config, runtime.store, environment))[0].reveal()

    async def back(self, person: Person, url: str) -> ConnectResult | None:
        """Load the application's return URL, which completes what the application's signed-in user has connected.

        Return None if the application refuses `url`, or if `url` does not belong to the application.
        """
        link = self.links.get(person.signed_in or "")
        if link is None or not url.startswith(self.app):
            return None
        try:
            result = verify_return(url, await self.signing_key(), audience=self.app, state=link.state)
        except InvalidReturn:
            return None
        if result.session_id != link.session_id:
            return None
        if result.outcome == "pending":
            async with AsyncClient(self.gateway.url, SECRET_KEY) as client:
                await client.complete_connect_session(
                    link.session_id, link.verifier, connection_id=result.connection_id
                )
        return result

    async def complete_status(self, link: Link, verifier: str, key: str | None = SECRET_KEY) -> int:
        """Return the status of the request that completes the session."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"{self.gateway.url}/connect/sessions/{link.session_id}/complete"
        async with self.gateway.http.post(url, json={"code_verifier": verifier}, headers=headers) as response:
            return response.status

    async def accounts(self) -> dict[str, str]:
        """Return the account of each connection by end user."""
        listed = (await self.gateway.json("GET", "/connections"))["connections"]
        return {connection["end_user"]["id"]: connection["account"]["id"] for connection in listed}

    async def pending(self, link: Link) -> list[str]:
        """Return the IDs of the session's pending connections, which the application could complete."""
        body = await self.gateway.json("GET", f"/connect/sessions/{link.session_id}", expect=200)
        connections = body["data"]["connections"]
        return [connection["connection_id"] for connection in connections if connection["is_pending"]]

    async def promise_holds(self, bob: Person | None = None) -> bool:
        """Return whether the promise holds.

        The promise: Bob's account becomes Alice's connection only without a code challenge, and only after a page named
        Alice and Bob clicked.
        """
        if (await self.accounts()).get("alice") != "bob":
            return True
        return not self.bound and bob is not None and bob.saw_alices_name_and_clicked


@asynccontextmanager
async def start_world(folder: Path, *, bound: bool = True) -> AsyncIterator[World]:
    provider = Provider()
    server = await provider.serve()
    common = {
        "display_name": "Accounts",
        "categories": ["crm"],
        "docs": "https://docs.example.com",
        "account": {"endpoint": "/me", "id": "id", "label": ["email"]},
    }
    oauth = {
        **common,
        "auth_mode": "OAUTH2",
        "authorization_url": f"{provider.url}/authorize",
        "token_url": f"{provider.url}/token",
        "proxy": {"base_url": provider.url},
    }
    keyed = {
        **common,
        "auth_mode": "API_KEY",
        "proxy": {"base_url": provider.url, "headers": {"x-api-key": "${apiKey}"}},
    }
    write_entry(folder, "accounts", oauth)
    write_entry(folder, "keyed", keyed)
    configuration = document(
        [f"127.0.0.1/32:{provider.url.rpartition(':')[2]}"],
        accounts={"provider": "accounts", "client_id": "client", "client_secret": "client-secret-0123456789"},
        keyed={"provider": "keyed"},
    )
    del configuration["environments"]["dev"]["integrations"]["tracker"]
    configuration["environments"]["dev"]["connect_links_in_errors"] = True
    configuration["environments"]["prod"] = {"secret_keys": [OTHER_KEY]}
    world = World(RunningGateway(folder, configuration), provider, bound)
    await world.gateway.start()
    application = await world.serve_application()
    try:
        yield world
    finally:
        for person in world.people:
            await person.http.close()
        await world.gateway.stop()
        await application.close()
        await server.close()
