"""An OAuth server for the tests: what they need of it, and how it is started as a process of its own."""

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
# A colon, a percent sign and a plus sign are where servers differ when the secret travels as Basic (RFC 6749 §2.3.1).
CLIENT_SECRET = "s3cret:with%41+signs/and=more-0123456789"


def basic(client_id: str, client_secret: str) -> str:
    """The client's Authorization field, its two halves form-encoded first (RFC 6749 §2.3.1)."""
    return aiohttp.encode_basic_auth(quote(client_id, safe=""), quote(client_secret, safe=""))


def environment(server: str) -> Path:
    """An interpreter with that package of requirements.txt. Skips the test where it cannot be installed."""
    lines = (Path(__file__).parent / "requirements.txt").read_text().splitlines()
    return installed.python(server, [line for line in lines if re.match(rf"{server}\W", line)])


class OAuthServer(Protocol):
    """A running OAuth server with the user `USER` and one registered client."""

    name: ClassVar[str]
    refresh: ClassVar[Literal["rotates", "rotates, reuse ends the grant", "none"]]
    refresh_outlives_access: ClassVar[bool]  # whether a refresh token works after the end of its access token
    refusal_names_reason: ClassVar[bool]  # whether the answer to a dead refresh token holds invalid_grant
    url: str
    token_url: str

    def entry(self) -> Mapping[str, Any]:
        """Fields of the catalog entry; `token_url` and `proxy` are added to them."""

    def integration(self) -> Mapping[str, Any]:
        """`client_id`, `client_secret` and `scopes`."""

    async def authorize(self, browser: aiohttp.ClientSession, url: str) -> VisitedPage:
        """Open `url`, a connect link, log in where asked, consent; returns the page where that ends."""

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        """The user that the server says `access_token` is for; None where the server refuses it."""

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """End the user's grant, as the user does it where the server has a page for it."""


@dataclass
class Child:
    """A server process. `log` is where its output goes."""

    process: asyncio.subprocess.Process
    log: Path

    async def line(self, pattern: str) -> str:
        """The first group of the first line of its output that matches `pattern`."""
        wanted = re.compile(pattern, re.MULTILINE)
        async with asyncio.timeout(PATIENCE_S):
            while (found := wanted.search(self.log.read_text(errors="replace"))) is None:
                self._must_run()
                await asyncio.sleep(0.05)
        return found[1]

    async def answers(self, url: str) -> None:
        """Return once `url` answers 200."""
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
            while True:
                self._must_run()
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(url) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.05)

    def _must_run(self) -> None:
        assert self.process.returncode is None, (
            f"the server ended ({self.process.returncode}): {self.log.read_text(errors='replace')[-2000:]}"
        )


@asynccontextmanager
async def running(
    command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """`command` in `folder`; it ends with the block."""
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
