"""The client for programs that run on asyncio, and all that `blocking` is made of."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, Unpack

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway.client.aio_api import AsyncOwnApi
from gateway.client.answer import Answer, AsyncStream
from gateway.client.calls import Call
from gateway.client.errors import refusal
from gateway.client.message import Options, below, fields, proxied
from gateway.client.pages import AsyncPages
from gateway.client.upload import Upload, sent_as
from gateway.client.way import checked, unreachable

AGENT: Final = "integration-gateway-python"
ERROR: Final = "Gateway-Error"


class AsyncClient(AsyncOwnApi):
    """`base_url` is the gateway's own address. `provider_config_key` and `connection_id` hold for calls that name none.

    `silence_s`: how long nothing may come before a call is given up; None for any time. Open it with ``async with``, or
    close it when done. Raises ValueError for a `base_url` that is none.
    """

    def __init__(
        self,
        base_url: str,
        secret_key: str,
        *,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        silence_s: float | None = 150.0,
        connect_s: float = 10.0,
    ) -> None:
        self._base_url = checked(base_url)
        self._authorization = f"Bearer {secret_key}"
        self._usual: Options = {}
        if provider_config_key is not None:
            self._usual["provider_config_key"] = provider_config_key
        if connection_id is not None:
            self._usual["connection_id"] = connection_id
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=silence_s)
        # By loop: one that belongs to another, before a fork or a second asyncio.run, must not even be closed here.
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections; those in use break."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    # ── a provider's API ────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        """``GET`` the provider's `endpoint`. All of these raise GatewayError, Unreachable and CutShort."""
        return await self.request("GET", endpoint, **options)

    async def post(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("POST", endpoint, **options)

    async def put(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("PUT", endpoint, **options)

    async def patch(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("PATCH", endpoint, **options)

    async def delete(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("DELETE", endpoint, **options)

    async def head(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("HEAD", endpoint, **options)

    async def options(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return await self.request("OPTIONS", endpoint, **options)

    async def request(self, method: str, endpoint: str, **options: Unpack[Options]) -> Answer:
        """The provider's whole answer, whatever its status. Redirects are not followed."""
        async with self.stream(method, endpoint, **options) as answer:
            return await answer.whole()

    @asynccontextmanager
    async def stream(self, method: str, endpoint: str, **options: Unpack[Options]) -> AsyncIterator[AsyncStream]:
        """The provider's answer as soon as its head is there; leaving the block before its end breaks it off."""
        asked: Options = {**self._usual, **options}
        url = proxied(self._base_url, endpoint, asked.get("params"))
        body: dict[str, Any] = {"json": asked["json"]} if "json" in asked else {}
        if "data" in asked:
            body["data"] = sent_as(asked["data"])
        async with self._sent(method, url, fields(asked), **body) as answer:
            yield answer

    def paginate(
        self,
        endpoint: str,
        *,
        pages: int | None = None,
        limit: int | None = None,
        way: Mapping[str, str | int] | None = None,
        since: str | None = None,
        behind: int = 0,
        resumes: int = 5,
        longest_wait_s: float = 300.0,
        loads: Callable[[bytes], Any] = json.loads,
        **options: Unpack[Options],
    ) -> AsyncPages:
        """The records of a whole list, one after the other, to be iterated over once (docs/pagination.md).

        `pages`: how many at most. `limit`: records a page. `way`: how the list is cut, where the provider's entry does not
        say. `since` and `behind`: those of an earlier one (`cursor`, `behind`), to go on after its last record. What breaks
        off is gone on with, `resumes` times in a row without a new record; a wait that the provider asks for may last
        `longest_wait_s`. `loads` reads each record.

        Raises ValueError for an absolute URL; iterating raises ProviderError, PagingBroken, GatewayError, Unreachable and
        CutShort.
        """
        below(self._base_url, endpoint)

        def ask(headers: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncStream]:
            asked: Options = {**options, "headers": {**options.get("headers", {}), **headers}}
            return self.stream("GET", endpoint, **asked)

        return AsyncPages(
            ask,
            pages=pages,
            limit=limit,
            way=way,
            since=since,
            behind=behind,
            resumes=resumes,
            longest_wait_s=longest_wait_s,
            loads=loads,
        )

    # ── the gateway's own API: aio_api.py ───────────────────────────────────────────────────────────────────────────

    async def _asked(self, call: Call) -> Any:
        body = {} if call.body is None else {"json": call.body}
        async with self._sent(call.method, self._base_url + call.target, {}, **body) as stream:
            answer = await stream.whole()
        if not 200 <= answer.status < 300:
            raise refusal(answer)
        try:
            return answer.json()
        except ValueError as fault:
            raise refusal(answer) from fault

    @asynccontextmanager
    async def _sent(self, method: str, url: str, headers: Mapping[str, str], **body: Any) -> AsyncIterator[AsyncStream]:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = aiohttp.ClientSession(
                headers={"User-Agent": AGENT}, cookie_jar=aiohttp.DummyCookieJar(), timeout=self._timeout
            )
        sent = CIMultiDict(headers)
        sent["Authorization"] = self._authorization
        address = URL(url, encoded=True)
        try:
            response = await session.request(method, address, headers=sent, allow_redirects=False, **body)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as fault:
            upload = body.get("data")
            if isinstance(upload, Upload) and upload.fault is not None:
                raise upload.fault from None
            raise unreachable(self._base_url, fault) from fault
        async with response:
            answer = AsyncStream(response)
            if ERROR in response.headers:
                raise refusal(await answer.whole())
            yield answer
