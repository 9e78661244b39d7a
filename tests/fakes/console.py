"""A user of the console, as a browser: signs in by a link, reads pages and their JSON, and submits forms."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import aiohttp

from gateway.config.model import ConsoleConfig
from gateway.records.console import ConsoleRole
from gateway.records.operation import Operation
from gateway.store.console_sessions import new_link
from tests.fakes.gateways import RunningGateway

ONE = "/dev/connection?integration=tracker&id=c1"  # path of the page about connection c1
_FORM = re.compile(r'name="form" value="([0-9a-f]{64})"')


@dataclass
class AtConsole:
    """A signed-in browser. `http` holds the cookie; paths are relative to ``/console``."""

    running: RunningGateway
    http: aiohttp.ClientSession

    async def page(self, path: str, *, expect: int = 200) -> str:
        async with self.http.get(f"{self.running.url}/console{path}") as response:
            text = await response.text()
            assert response.status == expect, (response.status, text)
            return unescape(text)

    async def data(self, path: str, *, expect: int = 200) -> Any:
        async with self.http.get(f"{self.running.url}/console{path}") as response:
            assert response.status == expect, await response.text()
            return await response.json()

    async def send(
        self, path: str, fields: Mapping[str, str], *, expect: int = 200, headers: Mapping[str, str] | None = None
    ) -> str:
        url = f"{self.running.url}/console{path}"
        async with self.http.post(url, data=fields, headers=headers) as response:
            text = await response.text()
            assert response.status == expect, (response.status, text)
            return unescape(text)


def csrf_token(page: str) -> str:
    """Return the CSRF token in the forms of this page."""
    found = _FORM.search(page)
    assert found is not None, page
    return found[1]


def switch_on(running: RunningGateway, *, session_hours: float = 12) -> None:
    running.configure(console=ConsoleConfig(enabled=True, session_hours=session_hours))


@asynccontextmanager
async def at_console(
    running: RunningGateway, role: ConsoleRole = "operator", name: str = "ada"
) -> AsyncIterator[AtConsole]:
    """Yield a console user who has signed in by a link."""
    switch_on(running)
    token, _ = await new_link(running.runtime.store.console_sessions, name, role)
    jar = aiohttp.CookieJar(unsafe=True)  # without `unsafe`, the cookie jar ignores cookies of IP addresses
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        async with http.post(f"{running.url}/console/sign-in", data={"link": token.reveal()}) as response:
            assert response.status == 200, await response.text()
        yield AtConsole(running, http)


def operation(number: int, **fields: Any) -> Operation:
    """Return the call log record of a successful call that began `number` seconds ago. `fields` replace its values."""
    at = datetime.now(UTC) - timedelta(seconds=number)
    plain = Operation("call", at, f"r{number}", "dev", "tracker", "c1", "GET", path=f"/items/{number}", status=200)
    return plain._replace(**fields)
