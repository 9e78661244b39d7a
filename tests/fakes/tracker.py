"""A provider that a test controls: an OAuth 2.0 issue tracker. Its API accepts only tokens that the tracker issued.

Refresh tokens rotate. If a refresh token is sent twice, the tracker revokes the whole grant.
"""

import asyncio
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway import clock

SITES = [
    {"id": "cloud-1", "url": "https://acme.tracker.example", "name": "Acme", "scopes": ["read"]},
    {"id": "cloud-2", "url": "https://globex.tracker.example", "name": "Globex", "scopes": ["read"]},
]


@dataclass
class Grant:
    """The consent of an end user, with all tokens that were issued for it."""

    refresh_token: str
    access_tokens: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)
    revoked: bool = False
    scopes: frozenset[str] = frozenset()


@dataclass
class Tracker:
    """An issue tracker with an OAuth 2.0 server.

    `response`: the response of the token endpoint, instead of the tracker's own. While `hold` is unset, token requests
    wait. While `hold_response` is unset, refreshes are processed but their responses wait. While `hold_api` is unset,
    API requests wait.

    `refusal`: the API's status for an unknown token, and for every token on the paths in `forbidden`. With `expires`,
    every access token is valid until it expires; the time is rounded down to a whole second, as on servers with integer
    timestamps. Without `expires`, only the last token of each grant is valid.

    `scopes_of`: path ▸ the scope that the API requires there. A token without this scope gets the response of RFC 6750
    §3.1. If `scopes_of` is set, responses to a code list the requested scopes.
    """

    url: str = ""
    ttl_s: float | None = 3600
    rotate: bool = True
    refusal: int = 403
    forbidden: set[str] = field(default_factory=set)
    scopes_of: dict[str, str] = field(default_factory=dict)
    expires: bool = False
    response: web.Response | None = None
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    hold_response: asyncio.Event = field(default_factory=asyncio.Event)
    hold_api: asyncio.Event = field(default_factory=asyncio.Event)
    calls: Counter[str] = field(default_factory=Counter)
    grants: list[Grant] = field(default_factory=list)
    token_requests: list[dict[str, str]] = field(default_factory=list)
    token_headers: list[dict[str, str]] = field(default_factory=list)
    authorize_query: dict[str, str] = field(default_factory=dict)
    seen: list[web.BaseRequest] = field(default_factory=list)
    sites: list[dict[str, Any]] = field(default_factory=lambda: [dict(site) for site in SITES])
    callback_extra: dict[str, str] = field(default_factory=dict)
    token_extra: dict[str, Any] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hold.set()
        self.hold_response.set()
        self.hold_api.set()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        app.router.add_get("/oauth/token/accessible-resources", self._accessible)
        app.router.add_route("*", "/{path:.*}", self.api)
        return app

    async def serve(self) -> TestServer:
        server = TestServer(self.app())
        await server.start_server()
        return server

    def grant(self) -> dict[str, Any]:
        """Create a grant. Return the token endpoint's response for it, for an import."""
        made = Grant(f"refresh-{next(self._numbers)}")
        self.grants.append(made)
        return self._issued(made)

    def _issued(self, grant: Grant) -> dict[str, Any]:
        token = f"access-{next(self._numbers)}"
        grant.access_tokens = {token}
        if self.ttl_s is not None:
            self._ends[token] = math.floor(clock.now().timestamp() + self.ttl_s)
        result: dict[str, Any] = {"access_token": token, "refresh_token": grant.refresh_token, "token_type": "Bearer"}
        if self.ttl_s is not None:
            result["expires_in"] = self.ttl_s
        return {**result, **self.token_extra}

    async def _authorize(self, request: web.Request) -> web.Response:
        self.authorize_query = dict(request.query)
        code = f"code-{next(self._numbers)}"
        self._codes[code] = dict(request.query)
        callback_query = {"code": code, "state": request.query["state"], **self.callback_extra}
        query = "&".join(f"{name}={text}" for name, text in callback_query.items())
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{query}")

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(text) for name, text in (await request.post()).items()}
        self.calls[form.get("grant_type", "")] += 1
        self.token_requests.append(form)
        self.token_headers.append(dict(request.headers))
        await self.hold.wait()
        if self.response is not None:
            return web.Response(
                status=self.response.status, body=self.response.body, headers=self.response.headers.copy()
            )
        if form.get("grant_type") == "authorization_code":
            query = self._codes.pop(form.get("code", ""), None)
            if query is None:
                return web.json_response({"error": "invalid_grant"}, status=400)
            tokens = self.grant()
            if self.scopes_of:
                self.grants[-1].scopes = frozenset(query.get("scope", "").split())
                tokens["scope"] = query.get("scope", "")
            return web.json_response(tokens)
        response = self.refreshed(form.get("refresh_token", ""))
        await self.hold_response.wait()
        return response

    def refreshed(self, token: str) -> web.Response:
        for grant in self.grants:
            if token in grant.spent:
                grant.revoked = True
                grant.access_tokens = set()
            if token == grant.refresh_token and not grant.revoked:
                if self.rotate:
                    grant.spent.add(token)
                    grant.refresh_token = f"refresh-{next(self._numbers)}"
                return web.json_response(self._issued(grant))
        return web.json_response({"error": "invalid_grant", "error_description": "Unknown token"}, status=400)

    def _is_known(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.expires:
            return clock.now().timestamp() < self._ends.get(token, 0)
        return any(token in grant.access_tokens for grant in self.grants)

    def _has(self, request: web.Request, scope: str) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return any(scope in grant.scopes for grant in self.grants if token in grant.access_tokens)

    async def _accessible(self, request: web.Request) -> web.Response:
        self.calls["sites"] += 1
        if not self._is_known(request):
            return web.json_response({"code": 401}, status=401)
        return web.json_response(self.sites)

    async def api(self, request: web.Request) -> web.Response:
        self.calls["api"] += 1
        self.seen.append(request)
        await self.hold_api.wait()
        if request.path in self.forbidden or not self._is_known(request):
            return web.json_response({"message": "dead token"}, status=self.refusal)
        if (scope := self.scopes_of.get(request.path)) is not None and not self._has(request, scope):
            challenge = f'Bearer realm="tracker", error="insufficient_scope", scope="{scope}"'
            return web.json_response({"missing": scope}, status=403, headers={"WWW-Authenticate": challenge})
        return web.json_response({"path": request.raw_path, "token": request.headers["Authorization"]})
