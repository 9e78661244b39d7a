"""An OpenID provider in this process. It logs in `user` without a page, and can send wrong responses on demand."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID = "console"
CLIENT_SECRET = "console-secret-0123456789"


@cache
def shared_key() -> RSAKey:
    """Return the key of all providers of this process: to create an RSA key takes as long as a test."""
    return RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})


@dataclass
class IdentityProvider:
    """An OpenID provider. `change`: changes the claims before they are signed. `sign`: creates the ID token instead of
    the default.

    `metadata_changes`: members that replace members of the metadata. `key_set`: the body of the key set; None: the set
    with `key`. `authorize_queries`: the query parameters of each request to ``/authorize``.
    """

    url: str = ""
    user: str = "ada"
    groups: list[str] = field(default_factory=lambda: ["platform"])
    key: RSAKey = field(default_factory=shared_key)
    change: Callable[[dict[str, Any]], Any] = lambda claims: None
    sign: Callable[["IdentityProvider", dict[str, Any]], str] | None = None
    issuer: str | None = None
    metadata_changes: dict[str, Any] = field(default_factory=dict)
    key_set: Any = None
    authorize_queries: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def metadata(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                **self.metadata_changes,
            }
        )

    async def jwks(self, _request: web.Request) -> web.Response:
        own = {"keys": [self.key.as_dict(private=False)]}
        return web.json_response(own if self.key_set is None else self.key_set)

    async def authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        self.authorize_queries.append(query)
        code = f"code-{len(self.authorize_queries)}"
        self.codes[code] = query
        callback_query = urlencode({"code": code, "state": query["state"], "iss": self.url})
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{callback_query}"})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        query = self.codes.pop(str(form["code"]), None)
        if query is None or not _proves(query["code_challenge"], str(form["code_verifier"])):
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "sub": self.user,
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
            "preferred_username": self.user,
            "groups": self.groups,
        }
        self.change(claims)
        return web.json_response(
            {"access_token": "at-0123456789", "token_type": "Bearer", "id_token": self.sign_claims(claims)}
        )

    def sign_claims(self, claims: dict[str, Any]) -> str:
        if self.sign is not None:
            return self.sign(self, claims)
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)


def _proves(challenge: str, verifier: str) -> bool:
    from gateway.oauth.authorize import challenge as of

    return of(verifier) == challenge


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.metadata)
    app.router.add_get("/jwks", provider.jwks)
    app.router.add_get("/authorize", provider.authorize)
    app.router.add_post("/token", provider.token)
    server = TestServer(app)
    await server.start_server()
    provider.url = str(server.make_url("")).rstrip("/")
    try:
        yield provider
    finally:
        await server.close()
