"""npm `oidc-provider`: a certified OpenID provider with its development pages. A replayed refresh token ends the
grant."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import aiohttp

from gateway.sandbox.visitor import VisitedPage, forms
from tests.fakes import installed
from tests.oauth_servers.pages import form_with, open_page, submit
from tests.oauth_servers.server import CLIENT_ID, CLIENT_SECRET, PASSWORD, USER, basic, running_process

HERE = Path(__file__).parent


@dataclass
class OidcProvider:
    url: str
    name: ClassVar = "oidc-provider"
    refresh: ClassVar = "rotates, reuse ends the grant"
    refresh_outlives_access: ClassVar = True
    refusal_names_reason: ClassVar = True

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def entry(self) -> Mapping[str, Any]:
        return {
            "authorization_url": f"{self.url}/auth",
            # Without it, the server does not grant offline_access (OpenID Connect Core §11).
            "authorization_params": {"prompt": "consent"},
            "issuer": self.url,
            "token_request_auth_method": "basic",
            "revocation_url": f"{self.url}/token/revocation",
            "refresh": {"rotating": True, "requires_scope": "offline_access"},
        }

    def integration(self) -> Mapping[str, Any]:
        return {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scopes": ["openid", "offline_access"]}

    async def authorize(self, browser: aiohttp.ClientSession, url: str, user: str = USER) -> VisitedPage:
        page = await open_page(browser, url)
        if any("password" in form.fields for form in forms(page)):
            page = await submit(browser, form_with(page, "password"), ("login", user), ("password", PASSWORD))
        return await submit(browser, form_with(page, "prompt"))

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        async with http.get(f"{self.url}/me", headers={"Authorization": f"Bearer {access_token}"}) as response:
            return str((await response.json())["sub"]) if response.status == 200 else None

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """Withdraw consent at the revocation endpoint, which ends the whole grant.

        A page for this would be part of a deployment.
        """
        form = {"token": refresh_token or "", "token_type_hint": "refresh_token"}
        headers = {"Authorization": basic(CLIENT_ID, CLIENT_SECRET)}
        async with browser.post(f"{self.url}/token/revocation", data=form, headers=headers) as response:
            assert response.status == 200, await response.text()


@asynccontextmanager
async def start(folder: Path, redirect_uri: str, ttl_s: int) -> AsyncIterator[OidcProvider]:
    modules = await asyncio.to_thread(installed.node_modules, "oauth-servers", HERE / "package.json")
    (folder / "node_modules").symlink_to(modules)
    script = folder / "oidc_provider.mjs"
    script.write_text((HERE / "starters" / "oidc_provider.mjs").read_text())
    options = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "redirect_uri": redirect_uri, "ttl_s": ttl_s}
    async with running_process(["node", script, json.dumps(options)], folder) as child:
        yield OidcProvider(await child.line(r"^ready on (http://\S+)$"))
