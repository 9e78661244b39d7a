"""PyPI `jupyterhub`: the hub as OAuth provider of an external service, behind its own proxy. It issues no refresh
tokens."""

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
from tests.fakes import installed
from tests.fakes.ports import free_port
from tests.oauth_servers.pages import form_with, open_page, submit
from tests.oauth_servers.server import PASSWORD, USER, environment, running_process

HERE = Path(__file__).parent
CLIENT_ID = "service-gateway"  # the hub requires this prefix
CLIENT_SECRET = "jupyterhub-service-token-0123456789"


@dataclass
class JupyterHub:
    url: str
    name: ClassVar = "jupyterhub"
    refresh: ClassVar = "none"
    refresh_outlives_access: ClassVar = False
    refusal_names_reason: ClassVar = False

    @property
    def token_url(self) -> str:
        return f"{self.url}/hub/api/oauth2/token"

    def entry(self) -> Mapping[str, Any]:
        return {"authorization_url": f"{self.url}/hub/api/oauth2/authorize"}

    def integration(self) -> Mapping[str, Any]:
        return {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scopes": ["read:users!user"]}

    async def authorize(self, browser: aiohttp.ClientSession, url: str) -> VisitedPage:
        page = await open_page(browser, url)
        if any("password" in form.fields for form in forms(page)):
            page = await submit(browser, form_with(page, "password"), ("username", USER), ("password", PASSWORD))
        scopes = re.findall(r'name="scopes" value="([^"]*)"', page.text)
        if not scopes:  # JupyterHub asks for consent once per application
            return page
        return await submit(browser, form_with(page, "scopes"), *(("scopes", scope) for scope in scopes))

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        async with http.get(
            f"{self.url}/hub/api/user", headers={"Authorization": f"Bearer {access_token}"}
        ) as response:
            return str((await response.json())["name"]) if response.status == 200 else None

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """Do what the script of the token page does: delete the tokens of one application."""
        page = await open_page(browser, f"{self.url}/hub/token")
        applications = page.text.partition("Authorized Applications")[2]
        (token,) = set(re.findall(r'data-token-id="([^"]+)"', applications))
        url = f"{self.url}/hub/api/users/{USER}/tokens/{token}"
        found = re.search(r'xsrf_token: "([^"]+)"', page.text)
        assert found, page.text
        async with browser.delete(url, params={"_xsrf": found[1]}, headers={"Referer": page.url}) as response:
            assert response.status == 204, await response.text()


@asynccontextmanager
async def start(folder: Path, redirect_uri: str, ttl_s: int) -> AsyncIterator[JupyterHub]:
    interpreter = await asyncio.to_thread(environment, "jupyterhub")
    modules = await asyncio.to_thread(installed.node_modules, "oauth-servers", HERE / "package.json")
    url, hub_url, proxy_api_url = (f"http://127.0.0.1:{free_port()}" for _ in range(3))
    options = {
        "url": url,
        "hub_url": hub_url,
        "proxy": [str(modules / ".bin" / "configurable-http-proxy")],
        "proxy_api_url": proxy_api_url,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "redirect_uri": redirect_uri,
        "ttl_s": ttl_s,
        "user": USER,
        "password": PASSWORD,
    }
    command = [interpreter, "-m", "jupyterhub", "-f", HERE / "starters" / "jupyterhub_config.py"]
    async with running_process(command, folder, {"OPTIONS": json.dumps(options)}) as child:
        await child.wait_until_ready(f"{url}/hub/login")
        yield JupyterHub(url)
