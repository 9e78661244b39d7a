"""A provider that identifies its users by a cookie. So a connection shows to whose account it belongs."""

import asyncio
import base64
import hashlib
import secrets
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.test_utils import TestServer

SIGNED_IN = "at-provider"


class Provider:
    """The provider. `authorizations`: how often a browser opened the authorization page.

    `held`: events by user; the API responds to this user only when the event is set. `waiting`: set when a call of such
    a user waits.
    """

    def __init__(self) -> None:
        self.url = ""
        self.authorizations = 0
        self.held: dict[str, asyncio.Event] = {}
        self.waiting = asyncio.Event()
        self._codes: dict[str, tuple[str, str]] = {}
        self._tokens: dict[str, str] = {}

    async def serve(self) -> TestServer:
        app = web.Application()
        app.router.add_get("/authorize", self._authorize)
        app.router.add_get("/sign-in/{person}", self._sign_in)
        app.router.add_post("/token", self._token)
        app.router.add_get("/me", self._me)
        server = TestServer(app)
        await server.start_server()
        self.url = f"http://127.0.0.1:{server.port}"
        return server

    async def _sign_in(self, request: web.Request) -> web.Response:
        response = web.Response(text="signed in")
        response.set_cookie(SIGNED_IN, request.match_info["person"], path="/")
        return response

    async def _authorize(self, request: web.Request) -> web.Response:
        self.authorizations += 1
        person = request.cookies.get(SIGNED_IN)
        if person is None:
            return web.Response(text="<h1>Sign in first</h1>", content_type="text/html")
        code = secrets.token_urlsafe(8)
        self._codes[code] = (person, request.query["code_challenge"])
        callback_query = {"code": code, "state": request.query["state"]}
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{urlencode(callback_query)}")

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        person, challenge = self._codes.pop(str(form.get("code")), ("", ""))
        verifier = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        if not person or base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() != challenge:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = secrets.token_urlsafe(8)
        self._tokens[token] = person
        return web.json_response({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    async def _me(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        person = self._tokens.get(token) or request.headers.get("x-api-key", "").removeprefix("key-of-")
        if not person:
            return web.json_response({"error": "unknown token"}, status=401)
        if person in self.held:
            self.waiting.set()
            await self.held[person].wait()
        return web.json_response({"id": person, "email": f"{person}@example.com"})
