"""A fake gateway with the part of the public API that the demo calls, in front of a real sandbox.

It really connects, with PKCE and the sandbox's own pages, so that the demo's steps are tested on real forms,
independently of the gateway's code. The grants of connections in `dead` have ended; those in `lost` cannot be authorized
again either. `log` records the requests.
"""

import base64
import hashlib
import uuid
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from gateway.sandbox.accounts import ACME

KEY = "gateway-double-key-0123"
CLIENT = ("gateway-demo", "the-client-secret")
_VERIFIER = "v" * 43


class GatewayDouble:
    def __init__(self) -> None:
        self.url = ""
        self.sandbox_url = ""
        self.tokens: dict[str, str] = {}
        self.dead: set[str] = set()
        self.lost: set[str] = set()
        self.reconnects: str | None = None
        self.log: list[str] = []
        self.minted: dict[str, dict[str, Any]] = {}
        self.made = 0

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._record_and_check])
        app.add_routes(
            [
                web.post("/connect/sessions", self._session),
                web.post("/connect/sessions/reconnect", self._reconnect_session),
                web.get("/oauth/connect/sandbox", self._start),
                web.get("/oauth/callback", self._callback),
                web.get("/connections", self._list),
                web.get("/connections/{id}", self._show),
                web.delete("/connections/{id}", self._delete),
                web.get("/proxy/{path:.*}", self._proxy),
                web.get("/environment/api-keys", self._keys),
                web.post("/environment/api-keys", self._mint),
                web.delete("/environment/api-keys/{id}", self._revoke),
            ]
        )
        return app

    @property
    def callback_url(self) -> str:
        return f"{self.url}/oauth/callback"

    @web.middleware
    async def _record_and_check(self, request: web.Request, handler: object) -> web.StreamResponse:
        self.log.append(f"{request.method} {request.path}")
        if not request.path.startswith("/oauth/") and request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"code": "unknown_account"}}, status=401)
        return await handler(request)  # type: ignore[operator, no-any-return]

    async def _session(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["end_user"]["id"] == "demo-user"
        assert body["allowed_integrations"] == ["sandbox"]
        self.reconnects = None
        data = {"token": "session-1", "connect_link": f"{self.url}/connect?session_token=session-1"}
        return web.json_response({"data": data}, status=201)

    async def _reconnect_session(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["integration_id"] == "sandbox"
        if body["connection_id"] in self.lost:
            return web.json_response({"error": {"code": "credential_unreadable"}}, status=500)
        self.reconnects = body["connection_id"]
        return web.json_response({"data": {"token": "session-1"}}, status=201)

    async def _start(self, request: web.Request) -> web.Response:
        assert request.query["connect_session_token"] == "session-1"
        assert self.reconnects or request.query["params[subdomain]"] == "acme"
        hashed = hashlib.sha256(_VERIFIER.encode()).digest()
        query = {
            "client_id": CLIENT[0],
            "redirect_uri": self.callback_url,
            "response_type": "code",
            "scope": "read:sandbox-work offline_access",
            "code_challenge": base64.urlsafe_b64encode(hashed).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        raise web.HTTPFound(f"{self.sandbox_url}/oauth/authorize?{urlencode(query)}")

    async def _callback(self, request: web.Request) -> web.Response:
        form = {
            "grant_type": "authorization_code",
            "code": request.query["code"],
            "redirect_uri": self.callback_url,
            "code_verifier": _VERIFIER,
            "client_id": CLIENT[0],
            "client_secret": CLIENT[1],
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.sandbox_url}/oauth/token", data=form) as response,
        ):
            made = self.reconnects or str(uuid.uuid4())
            self.tokens[made] = (await response.json())["access_token"]
            self.dead.discard(made)
        return web.Response(text="<h1>Connected</h1>", content_type="text/html")

    async def _list(self, request: web.Request) -> web.Response:
        assert dict(request.query) == {"endUserId": "demo-user", "integrationId": "sandbox"}
        return web.json_response({"connections": [{"connection_id": name} for name in self.tokens]})

    async def _show(self, request: web.Request) -> web.Response:
        if request.match_info["id"] in self.dead | self.lost:
            return web.json_response({"error": {"code": "reconnect_needed"}}, status=424)
        return web.json_response({"connection_config": {"cloudId": ACME, "subdomain": "acme"}})

    async def _delete(self, request: web.Request) -> web.Response:
        del self.tokens[request.match_info["id"]]
        return web.json_response({"success": True})

    async def _keys(self, _request: web.Request) -> web.Response:
        shown = [{"id": 7, "display_name": name, **rest} for name, rest in self.minted.items()]
        return web.json_response({"data": shown})

    async def _mint(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["display_name"] not in self.minted
        self.made += 1
        secret = f"gw_sk_agent{self.made}"
        self.minted[body["display_name"]] = {"last_four": secret[-4:], "limits": [body["limits"]]}
        return web.json_response({"data": {"id": 7, "secret": secret}})

    async def _revoke(self, _request: web.Request) -> web.Response:
        self.minted.clear()
        return web.json_response({"success": True, "revoked": 1})

    async def _proxy(self, request: web.Request) -> web.Response:
        assert request.headers["Provider-Config-Key"] == "sandbox"
        token = self.tokens[request.headers["Connection-Id"]]
        url = f"{self.sandbox_url}/{request.match_info['path']}?{request.query_string}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers={"Authorization": f"Bearer {token}"}) as response,
        ):
            return web.json_response(await response.json(), status=response.status)
