"""An OAuth server for the tests: its interface, and how it is started in its own process."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol
from urllib.parse import quote

import aiohttp

from gateway.sandbox.visitor import VisitedPage
from tests.fakes import installed
from tests.fakes.patience import PATIENCE_S

USER, PASSWORD = "ada", "correct horse battery staple"
CLIENT_ID = "gateway under test"
# Servers treat a colon, a percent sign and a plus sign differently in Basic credentials (RFC 6749 §2.3.1).
CLIENT_SECRET = "s3cret:with%41+signs/and=more-0123456789"


def basic(client_id: str, client_secret: str) -> str:
    """Return the client's Authorization field; both halves are form-encoded first (RFC 6749 §2.3.1)."""
    return aiohttp.encode_basic_auth(quote(client_id, safe=""), quote(client_secret, safe=""))


def environment(server: str) -> Path:
    """Return an interpreter with that package of requirements.txt. Skip the test if it cannot be installed."""
    lines = (Path(__file__).parent / "requirements.txt").read_text().splitlines()
    return installed.python(server, [line for line in lines if re.match(rf"{server}\W", line)])


class OAuthServer(Protocol):
    """A running OAuth server with the user `USER` and one registered client."""

    name: ClassVar[str]
    refresh: ClassVar[Literal["rotates", "rotates, reuse ends the grant", "none"]]
    refresh_outlives_access: ClassVar[bool]  # whether a refresh token is valid after its access token expires
    refusal_names_reason: ClassVar[bool]  # whether the response to a dead refresh token contains invalid_grant
    url: str
    token_url: str

    def entry(self) -> Mapping[str, Any]:
        """Return the fields of the catalog entry, without `token_url` and `proxy`."""

    def integration(self) -> Mapping[str, Any]:
        """Return `client_id`, `client_secret` and `scopes`."""

    async def authorize(self, browser: aiohttp.ClientSession, url: str) -> VisitedPage:
        """Open `url`, a connect link, log in if necessary, consent, and return the last page."""

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        """Return the user of `access_token` according to the server, or None if the server rejects the token."""

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """End the user's grant, on the server's page for users if it has one."""


@dataclass
class Child:
    """A server process. `log`: file with its output."""

    process: asyncio.subprocess.Process
    log: Path

    async def line(self, pattern: str) -> str:
        """Wait for an output line that matches `pattern`, and return its first group."""
        wanted = re.compile(pattern, re.MULTILINE)
        async with asyncio.timeout(PATIENCE_S):
            while (found := wanted.search(self.log.read_text(errors="replace"))) is None:
                self._must_run()
                await asyncio.sleep(0.05)
        return found[1]

    async def wait_until_ready(self, url: str) -> None:
        """Return when `url` returns 200."""
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
            while True:
                self._must_run()
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(url) as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)

    def _must_run(self) -> None:
        assert self.process.returncode is None, (
            f"the server ended ({self.process.returncode}): {self.log.read_text(errors='replace')[-2000:]}"
        )


@asynccontextmanager
async def running_process(
    command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Run `command` in `folder` for the duration of the block."""
    log = folder / "server.log"
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *map(str, command), cwd=folder, stdout=sink, stderr=sink, env={**inherited, **(environ or {})}
        )
    try:
        yield Child(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
