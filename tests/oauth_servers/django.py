"""PyPI `django-oauth-toolkit`, started by `tests.fakes.django_idp`: rotation with reuse protection, PKCE required."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import aiohttp

from gateway.sandbox.visitor import VisitedPage
from tests.fakes.django_idp import DjangoIdp, serving, walk_consent
from tests.oauth_servers.server import USER


@dataclass
class DjangoOAuthToolkit:
    idp: DjangoIdp
    name: ClassVar = "django-oauth-toolkit"
    refresh: ClassVar = "rotates, reuse ends the grant"
    refresh_outlives_access: ClassVar = True
    refusal_names_reason: ClassVar = True

    @property
    def url(self) -> str:
        return self.idp.url

    @property
    def token_url(self) -> str:
        return f"{self.url}/o/token/"

    def entry(self) -> Mapping[str, Any]:
        return {
            "authorization_url": f"{self.url}/o/authorize/",
            "token_request_auth_method": "body",
            "revocation_url": f"{self.url}/o/revoke_token/",
            "refresh": {"rotating": True},
        }

    def integration(self) -> Mapping[str, Any]:
        return {"client_id": self.idp.client_id, "client_secret": self.idp.client_secret, "scopes": ["read", "write"]}

    async def authorize(self, browser: aiohttp.ClientSession, url: str, user: str = USER) -> VisitedPage:
        return await walk_consent(browser, url, user=user)

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        headers = {"Authorization": f"Bearer {access_token}"}
        async with http.get(f"{self.url}/api/whoami", headers=headers) as response:
            return str((await response.json())["user"]) if response.status == 200 else None

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """Withdraw consent at the revocation endpoint, which revokes the access token too."""
        client = {"client_id": self.idp.client_id, "client_secret": self.idp.client_secret}
        async with browser.post(f"{self.url}/o/revoke_token/", data={"token": refresh_token, **client}) as response:
            assert response.status == 200, await response.text()


@asynccontextmanager
async def start(folder: Path, redirect_uri: str, ttl_s: int) -> AsyncIterator[DjangoOAuthToolkit]:
    async with serving(folder, redirect_uri, ttl_s) as idp:
        yield DjangoOAuthToolkit(idp)
