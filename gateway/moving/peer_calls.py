"""One request after the other to the other gateway's API: patient where it says wait, plain where it says no."""

import random
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

from gateway import clock
from gateway.api.json_text import parse
from gateway.config.values import is_loopback
from gateway.errors import GatewayError
from gateway.moving.moved import SourceRefused
from gateway.secret import Secret
from gateway.wire.moment import seconds_until

TRIES: Final = 6
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
MOST_ASKED_S: Final = 900.0  # however long it asks us to wait
LIMIT_BYTES: Final = 64 << 20
TIMEOUT: Final = aiohttp.ClientTimeout(total=120, sock_connect=15)
TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})


class Answered(Exception):
    """It answered with an error that is about this one request. `code` and `message` are its own."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Unreached(Exception):
    """It gave no usable answer, however often it was asked."""


class PeerCalls:
    """Its key goes to `base` and nowhere else: redirects are not followed. A 429 holds up all calls, not one alone."""

    def __init__(self, session: aiohttp.ClientSession, base: str, key: Secret, *, plain_http: bool = False) -> None:
        """Raises SourceRefused for an address that the key should not be sent to."""
        self._session = session
        self._base = checked_base(base, plain_http=plain_http)
        self._key = key
        self._not_before = 0.0

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON of a GET. `path` is percent-encoded. Raises Answered, Unreached, and SourceRefused for what no other
        request would fare better with."""
        why = ""
        for attempt in range(TRIES):
            await self._wait()
            try:
                status, headers, raw = await self._ask(path, query or {})
            except (aiohttp.ClientError, TimeoutError) as fault:
                why = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
                await self._pause(attempt, None)
                continue
            if status == 200:
                return self._read(raw)
            code, message = _error(raw)
            self._check_key(status, code, message, headers)
            if status not in TRANSIENT or code == "invalid_credentials":
                raise Answered(status, code, message or f"it answered {status}")
            why = f"it answered {status} {code}".rstrip()
            await self._pause(attempt, headers.get("Retry-After"))
        raise Unreached(f"{self._base} gave no usable answer to {path.partition('?')[0]} in {TRIES} tries: {why}")

    async def _ask(self, path: str, query: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        url = URL(self._base + path, encoded=True).update_query(query)
        headers = {"Authorization": f"Bearer {self._key.reveal()}", "Accept": "application/json"}
        async with self._session.get(url, headers=headers, allow_redirects=False, timeout=TIMEOUT) as answer:
            raw = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                raw += piece
                if len(raw) > LIMIT_BYTES:
                    raise SourceRefused(f"{self._base}{path} answers with more than {LIMIT_BYTES >> 20} MiB.")
            return answer.status, answer.headers, bytes(raw)

    def _read(self, raw: bytes) -> Any:
        try:
            return parse(raw)
        except GatewayError:
            raise SourceRefused(
                f"{self._base} answers with something else than JSON: give the address of its API, not of its dashboard."
            ) from None

    def _check_key(self, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        if status == 401:
            raise SourceRefused(f"{self._base} does not take this key ({code or 401}): {message}".rstrip(": "))
        if status == 403:
            raise SourceRefused(f"{self._base} lets this key see too little ({code or 403}): {message}".rstrip(": "))
        if 300 <= status < 400:
            place = headers.get("Location", "another place")
            raise SourceRefused(f"{self._base} redirects to {place[:200]}: give the address of its API itself.")

    async def _wait(self) -> None:
        while (left := self._not_before - clock.monotonic()) > 0:
            await clock.sleep(left)

    async def _pause(self, attempt: int, asked: str | None) -> None:
        if attempt == TRIES - 1:
            return
        told = seconds_until(asked, clock.now()) if asked else None
        if told is not None:
            self._not_before = max(self._not_before, clock.monotonic() + min(told, MOST_ASKED_S))
            return
        longest = min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S)
        await clock.sleep(random.uniform(longest / 2, longest))  # noqa: S311 (spreads load, guards nothing)


def checked_base(base: str, *, plain_http: bool) -> str:
    """`base` without a final slash. Raises SourceRefused where it is no address, or the key would travel in the clear."""
    try:
        url = URL(base)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment or url.user:
        raise SourceRefused(f"'{base}' is not the address of an API, such as https://api.example.com.")
    if url.scheme == "http" and not plain_http and not is_loopback(url.host):
        raise SourceRefused(
            f"{base} is plain http: the key and every token would travel in the clear. Give its https address, or "
            "--plain-http where the way there is private."
        )
    return str(url).rstrip("/")


def _error(raw: bytes) -> tuple[str, str]:
    """Code and message of an error body; empty where it has none."""
    try:
        told = parse(raw)
    except GatewayError:
        return "", ""
    error = told.get("error") if isinstance(told, dict) else None
    if isinstance(error, str):
        return error[:64], ""
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("code") or "")[:64], str(error.get("message") or "")[:500]


def session_for(at_once: int) -> aiohttp.ClientSession:
    """A session for `PeerCalls`, to be closed by the caller; it keeps no cookies."""
    connector = aiohttp.TCPConnector(limit=at_once)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
