"""PyPI `canaille`: requires a nonce, rotates refresh tokens, and expires them together with their access tokens."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import aiohttp

from gateway.sandbox.visitor import VisitedPage, forms
from tests.oauth_servers.pages import form_with, open_page, submit
from tests.oauth_servers.server import CLIENT_ID, CLIENT_SECRET, PASSWORD, USER, basic, environment, running_process

HERE = Path(__file__).parent


@dataclass
class Canaille:
    url: str
    name: ClassVar = "canaille"
    refresh: ClassVar = "rotates"
    refresh_outlives_access: ClassVar = False
    refusal_names_reason: ClassVar = True

    @property
    def token_url(self) -> str:
        return f"{self.url}/oauth/token"

    def entry(self) -> Mapping[str, Any]:
        return {
            "authorization_url": f"{self.url}/oauth/authorize",
            "token_request_auth_method": "basic",
            "revocation_url": f"{self.url}/oauth/revoke",
            "refresh": {"rotating": True},
            # Half of the lifetime is the maximum. A refresh after the expiry is refused, so a window of a tenth of the
            # lifetime would be too short.
            "token_expiration_buffer": 300,
        }

    def integration(self) -> Mapping[str, Any]:
        return {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scopes": ["openid", "profile"]}

    async def authorize(self, browser: aiohttp.ClientSession, url: str) -> VisitedPage:
        page = await open_page(browser, url)
        if any("login" in form.fields for form in forms(page)):
            page = await submit(browser, form_with(page, "login"), ("login", USER))
            page = await submit(browser, form_with(page, "password"), ("password", PASSWORD))
        return await submit(browser, form_with(page, "answer"), ("answer", "accept"))

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        headers = {"Authorization": basic(CLIENT_ID, CLIENT_SECRET)}
        async with http.post(f"{self.url}/oauth/introspect", data={"token": access_token}, headers=headers) as response:
            assert response.status == 200, await response.text()
            found = await response.json()
            return str(found["sub"]) if found["active"] else None

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """Withdraw consent on the page that lists a user's consents."""
        page = await open_page(browser, f"{self.url}/consent/")
        (link,) = set(re.findall(r'href="(/consent/revoke/[^"]+)"', page.text))
        page = await open_page(browser, f"{self.url}{link}")
        assert "The access has been revoked" in page.text


@asynccontextmanager
async def start(folder: Path, redirect_uri: str, ttl_s: int) -> AsyncIterator[Canaille]:
    interpreter = await asyncio.to_thread(environment, "canaille")
    options = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "redirect_uri": redirect_uri,
        "ttl_s": ttl_s,
        "user": USER,
        "password": PASSWORD,
    }
    command = [interpreter, HERE / "starters" / "canaille_server.py", json.dumps(options)]
    async with running_process(command, folder) as child:
        yield Canaille(await child.line(r"^ready on (http://\S+)$"))
