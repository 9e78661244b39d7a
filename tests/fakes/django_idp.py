"""Starts the OAuth server of `django_idp_server.py`, and uses its pages as an end user does."""

import sys
from asyncio import create_subprocess_exec, sleep
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from gateway.sandbox.visitor import VisitedPage, forms, visit
from tests.fakes import django_idp_server as server


@dataclass(frozen=True, slots=True)
class DjangoIdp:
    """A running server: its URL, the user who can log in, and the client ID and secret of the registered application."""

    url: str
    client_id: str = server.CLIENT_ID
    client_secret: str = server.CLIENT_SECRET
    username: str = server.USERNAME
    password: str = server.PASSWORD

    async def token_requests(self, session: aiohttp.ClientSession) -> dict[str, int]:
        """Return the number of token requests so far, by grant type."""
        async with session.get(f"{self.url}/counts") as response:
            counts: dict[str, int] = await response.json()
        return counts

    async def wait_until_dead(self, session: aiohttp.ClientSession, access_token: str) -> None:
        """Send requests with this token until the server responds with 403, its status for invalid tokens."""
        headers = {"Authorization": f"Bearer {access_token}"}
        while True:
            async with session.get(f"{self.url}/api/whoami", headers=headers) as response:
                if response.status == 403:
                    return
            await sleep(0.1)


@asynccontextmanager
async def serving(folder: Path, redirect_uri: str, ttl_s: int = server.TOKEN_TTL_S) -> AsyncIterator[DjangoIdp]:
    """Run the server on a free port, with its database in `folder`. Its access tokens are valid for `ttl_s`."""
    arguments = (server.__file__, str(folder), redirect_uri, str(ttl_s))
    process = await create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("idp ready on "), f"the OAuth server did not start, its first line is {line!r}"
        yield DjangoIdp(line.removeprefix("idp ready on ").strip())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def walk_consent(
    session: aiohttp.ClientSession, url: str, *, allow: bool = True, user: str = server.USERNAME
) -> VisitedPage:
    """Walk from `url` through the login and the consent form. Return the last page.

    `session` must keep cookies of IP addresses (`gateway.sandbox.visitor.browser`).
    """
    responses = {"username": user, "password": server.PASSWORD}
    page = await visit(session, url, responses | ({"allow": "Authorize"} if allow else {}))
    if allow:
        return page
    (consent,) = forms(page)  # the "Cancel" button has no name, so sending only the fields means consent
    async with session.post(consent.action, data=consent.fields) as response:
        return VisitedPage(str(response.url), response.status, await response.text())
