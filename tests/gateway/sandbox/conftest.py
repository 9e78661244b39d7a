"""A running sandbox, an application registered with it, and a browser."""

import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import pytest

from gateway.sandbox.app import running
from gateway.sandbox.state import Sandbox, SandboxClient
from gateway.sandbox.visitor import VisitedPage, browser, forms

CALLBACK = "http://127.0.0.1:9/oauth/callback"
SECRET = "a-secret-of-the-demo"
CLIENT = SandboxClient.register("sandbox-demo", SECRET, CALLBACK, name="Demo <app>")
ALL = "read:sandbox-user read:sandbox-work write:sandbox-work offline_access"


@dataclass
class Application:
    """Acts as the registered application at `base`, with its own browser."""

    base: str
    browser: aiohttp.ClientSession

    def authorize_url(self, **changes: str | None) -> str:
        query: dict[str, str | None] = {
            "client_id": CLIENT.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": ALL,
            "state": "st&te",
            "code_challenge": challenge("v" * 43),
            "code_challenge_method": "S256",
        }
        sent = {name: value for name, value in (query | changes).items() if value is not None}
        return f"{self.base}/oauth/authorize?{urlencode(sent)}"

    async def walk(
        self, *, email: str = "demo@example.com", decision: str = "allow", **changes: str | None
    ) -> dict[str, str]:
        """Walk through the pages. Return the query of the redirect back to the application."""
        async with self.browser.get(self.authorize_url(**changes), allow_redirects=False) as response:
            if response.status == 303:
                return query_of(response)
            page = VisitedPage(str(response.url), response.status, await response.text())
        login = forms(page)[0]
        if "email" in login.fields:
            typed = login.fields | {"email": email, "password": "demo"}
            async with self.browser.post(login.action, data=typed) as response:
                page = VisitedPage(str(response.url), response.status, await response.text())
        consent = forms(page)[0]
        sent = consent.fields | {"decision": decision}
        async with self.browser.post(consent.action, data=sent, allow_redirects=False) as response:
            return query_of(response)

    async def token(self, **form: str) -> tuple[int, dict[str, Any]]:
        sent = {"client_id": CLIENT.client_id, "client_secret": SECRET} | form
        async with self.browser.post(f"{self.base}/oauth/token", data=sent) as response:
            assert response.headers["Cache-Control"] == "no-store"
            return response.status, await response.json()

    async def redeem(self, code: str, /, **changes: str) -> tuple[int, dict[str, Any]]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": "v" * 43}
        return await self.token(**(form | changes))

    async def refresh(self, token: str, /, **changes: str) -> tuple[int, dict[str, Any]]:
        return await self.token(grant_type="refresh_token", refresh_token=token, **changes)

    async def connect(self, **changes: str | None) -> dict[str, Any]:
        """Walk through the whole flow and return the tokens."""
        status, tokens = await self.redeem((await self.walk(**changes))["code"])
        assert status == 200, tokens
        return tokens

    async def get(self, path: str, token: str, **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {token}", **headers}
        async with self.browser.get(self.base + path, headers=sent) as response:
            return response.status, await response.json()


def challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def query_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    assert response.status == 303
    assert response.headers["Location"].startswith(CALLBACK + "?")
    return dict(parse_qsl(urlsplit(response.headers["Location"]).query))


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with running([CLIENT]) as started:
        yield started


@pytest.fixture
async def application(sandbox: Sandbox) -> AsyncIterator[Application]:
    async with browser() as session:
        yield Application(sandbox.issuer, session)
