"""All providers of the shipped catalog. One local server receives every request that the gateway sends to any of their
URLs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from gateway.egress.client import Egress

ORIGIN = "X-Asked-Origin"  # header with the origin to which the gateway addressed the request
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def divert_requests(monkeypatch: pytest.MonkeyPatch, response: Handler) -> AsyncIterator[int]:
    """Send every outgoing request of the gateway to `response`, over a real connection. Yield the port of the local
    server.

    The header `ORIGIN` contains the origin to which the gateway addressed the request.
    """
    app = web.Application(client_max_size=1 << 20)
    app.router.add_route("*", "/{rest:.*}", response)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]
    real_send = Egress.send

    async def send_to_port(self: Egress, request: Any, *args: Any, **options: Any) -> Any:
        headers = request.headers.copy()
        default = {"https": 443, "http": 80}[request.scheme]
        host = request.host if request.port == default else f"{request.host}:{request.port}"
        headers[ORIGIN] = f"{request.scheme}://{host}"
        diverted = replace(request, scheme="http", host="127.0.0.1", port=port, headers=headers)
        return await real_send(self, diverted, *args, **options)

    monkeypatch.setattr(Egress, "send", send_to_port)
    try:
        yield port
    finally:
        await runner.cleanup()


@dataclass
class Internet:
    """A fake internet. `seen`: the received requests as (method, URL without query)."""

    port: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    _handlers: dict[str, Handler] = field(default_factory=dict)

    def on(self, url: str, handler: Handler) -> None:
        """Use `handler` for all requests to `url`, with any method and query."""
        self._handlers[url] = handler

    async def response(self, request: web.Request) -> web.StreamResponse:
        url = f"{request.headers[ORIGIN]}{request.path}"
        self.seen.append((request.method, url))
        handler = self._handlers.get(url)
        return await handler(request) if handler else web.json_response({"message": "no such URL"}, status=404)


@asynccontextmanager
async def internet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    """Yield a fake internet that responds with 404 to every URL, until the test adds handlers."""
    fake = Internet()
    async with divert_requests(monkeypatch, fake.response) as fake.port:
        yield fake


async def sent(request: web.Request) -> dict[str, str]:
    """Return the parameters of a token request, from its body and its query."""
    body = await request.json() if request.content_type == "application/json" else dict(await request.post())
    return {**dict(request.query), **{name: str(value) for name, value in body.items()}}


class LongLivedTokens:
    """Instagram and Threads: a code returns a token valid for an hour, which can be exchanged for a token valid for
    sixty days.

    The long-lived token can be refreshed when it is at least a day old. `prefix`: first part of the grant types, ``ig``
    or ``th``.
    """

    DAY_S = 86_400

    def __init__(self, providers: Internet, token_url: str, graph: str, prefix: str, now: Callable[[], float]) -> None:
        self._prefix, self._now = prefix, now
        self._made: dict[str, float] = {}  # long-lived token ▸ its creation time
        self.refreshes = 0
        providers.on(token_url, self.exchange_code)
        providers.on(f"{graph}/access_token", self.exchange)
        providers.on(f"{graph}/refresh_access_token", self.refresh)

    async def exchange_code(self, request: web.Request) -> web.Response:
        parameters = await sent(request)
        accepted = (
            request.method == "POST" and parameters["code"] == "c-1" and parameters["client_secret"] == "our secret"
        )
        return web.json_response({"access_token": "short", "user_id": 17841400000000001}) if accepted else _refusal()

    async def exchange(self, request: web.Request) -> web.Response:
        wanted = {
            "grant_type": f"{self._prefix}_exchange_token",
            "client_secret": "our secret",
            "access_token": "short",
        }
        return self._new() if request.method == "GET" and dict(request.query) == wanted else _refusal()

    async def refresh(self, request: web.Request) -> web.Response:
        parameters = dict(request.query)
        created = self._made.get(parameters.get("access_token", ""))
        fits = (
            parameters.keys() == {"grant_type", "access_token"}
            and parameters["grant_type"] == f"{self._prefix}_refresh_token"
        )
        if request.method != "GET" or not fits or created is None or self._now() - created < self.DAY_S:
            return _refusal()
        self.refreshes += 1
        return self._new()

    def _new(self) -> web.Response:
        token = f"long-{len(self._made) + 1}"
        self._made[token] = self._now()
        return web.json_response({"access_token": token, "token_type": "bearer", "expires_in": 60 * self.DAY_S})

    def is_valid_long_lived(self, request: web.Request) -> bool:
        """Return whether the request contains a long-lived token that has not expired."""
        created = self._made.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        return created is not None and self._now() - created < 60 * self.DAY_S


def _refusal() -> web.Response:
    return web.json_response({"error": {"message": "Cannot parse access token", "type": "OAuthException"}}, status=400)


class AccountHosts:
    """Docusign: the user's account is on a host that only ``/oauth/userinfo`` names."""

    def __init__(self, providers: Internet, login: str, host: str) -> None:
        self._host = host
        self.down = False
        providers.on(f"{login}/oauth/token", self.token)
        providers.on(f"{login}/oauth/userinfo", self.userinfo)
        providers.on(f"{host}/restapi/v2.1/accounts/b", self.account)

    async def token(self, _request: web.Request) -> web.Response:
        return web.json_response({"access_token": "t-1", "refresh_token": "r-1", "expires_in": 28_800})

    async def userinfo(self, request: web.Request) -> web.Response:
        if self.down or request.headers.get("Authorization") != "Bearer t-1":
            return web.json_response({}, status=503 if self.down else 401)
        other = {"account_id": "a", "is_default": False, "base_uri": "https://na4.docusign.net"}
        default = {"account_id": "b", "is_default": True, "base_uri": self._host}
        return web.json_response({"sub": "u-1", "email": "ada@example.com", "accounts": [other, default]})

    async def account(self, request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers.get("Authorization") == "Bearer t-1" else 401)


class StateInExchange:
    """Dropbox Sign: the token request must repeat the `state` of the callback."""

    def __init__(self, providers: Internet) -> None:
        self.state = ""
        providers.on("https://app.hellosign.com/oauth/token", self.token)

    async def token(self, request: web.Request) -> web.Response:
        parameters = await sent(request)
        accepted = self.state and parameters.get("state") == self.state
        return web.json_response(
            {"access_token": "t-1", "expires_in": 86_400} if accepted else {"error": "invalid_request"}
        )


class DropsState:
    """Mixcloud: redirects to the callback URL and adds only the code. Mixcloud drops the `state` parameter."""

    def __init__(self, providers: Internet) -> None:
        self.redirect_uri = ""
        providers.on("https://www.mixcloud.com/oauth/access_token", self.token)

    def back(self, query: dict[str, str]) -> str:
        """Return the URL to which the browser is redirected after the consent."""
        self.redirect_uri = query["redirect_uri"]
        return f"{self.redirect_uri}{'&' if '?' in self.redirect_uri else '?'}code=c-1"

    async def token(self, request: web.Request) -> web.Response:
        same = (await sent(request)).get("redirect_uri") == self.redirect_uri
        return web.json_response({"access_token": "t-1"} if same else {"error": "invalid_grant"})


class CompanyPages:
    """Front: the URL of the next page is on `next_host`, a host of the customer's company."""

    def __init__(self, providers: Internet, next_host: str) -> None:
        self._next = f"https://{next_host}/teammates?page=2"
        providers.on("https://api2.frontapp.com/teammates", self.first_page)
        providers.on(f"https://{next_host}/teammates", self.second_page)

    async def first_page(self, _request: web.Request) -> web.Response:
        return web.json_response({"_pagination": {"next": self._next}, "_results": [{"id": "tea_1"}]})

    async def second_page(self, request: web.Request) -> web.Response:
        accepted = request.headers.get("Authorization") == "Bearer the-key"
        results = [{"id": "tea_2"}] if accepted else []
        return web.json_response({"_pagination": {"next": None}, "_results": results})
