"""The client for programs without asyncio: the same one, run by a thread of its own. May be shared between threads."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from gateway.client.aio import AsyncClient
from gateway.client.answer import Answer, AsyncStream
from gateway.client.background import Loop
from gateway.client.blocking_api import OwnApi
from gateway.client.message import Options
from gateway.client.pages import AsyncPages


class Stream:
    """An answer whose head is there. Iterate over it for pieces as they come, over `lines()` for lines."""

    def __init__(self, stream: AsyncStream, loop: Loop) -> None:
        self._stream = stream
        self._loop = loop
        self.status, self.reason, self.headers = stream.status, stream.reason, stream.headers
        self.ok, self.request_id = stream.ok, stream.request_id

    def __iter__(self) -> Iterator[bytes]:
        """Raises CutShort."""
        return self._loop.iterate(aiter(self._stream))

    def lines(self) -> Iterator[bytes]:
        """Without their ends; a last one without an end, too. Raises CutShort."""
        for several in self._loop.iterate(self._stream.several_lines()):
            yield from several

    def whole(self) -> Answer:
        """All of it, or what is left. Raises CutShort."""
        return self._loop.run(self._stream.whole())


class Pages:
    """Records, to be iterated over once. `cursor`, `behind` and `complete` are those of `AsyncPages`."""

    def __init__(self, pages: AsyncPages, loop: Loop) -> None:
        self._pages = pages
        self._loop = loop

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loop.iterate(self._pages.uncounted()):
            for record in batch:
                self._pages.count(1)
                yield record

    @property
    def cursor(self) -> str | None:
        return self._pages.cursor

    @property
    def behind(self) -> int:
        return self._pages.behind

    @property
    def complete(self) -> bool:
        return self._pages.complete


class Client(OwnApi):
    """As `AsyncClient`, without ``async``. Open it with ``with``, or close it when done."""

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
        self._loop = Loop()
        self._client = AsyncClient(
            base_url,
            secret_key,
            provider_config_key=provider_config_key,
            connection_id=connection_id,
            silence_s=silence_s,
            connect_s=connect_s,
        )

    def __repr__(self) -> str:
        return repr(self._client).removeprefix("Async")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections and its thread; calls in other threads break."""
        if self._loop.used_here:
            self._loop.run(self._client.close())
            self._loop.stop()

    # ── a provider's API ────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        """``GET`` the provider's `endpoint`. All of these raise GatewayError, Unreachable and CutShort."""
        return self.request("GET", endpoint, **options)

    def post(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("POST", endpoint, **options)

    def put(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("PUT", endpoint, **options)

    def patch(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("PATCH", endpoint, **options)

    def delete(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("DELETE", endpoint, **options)

    def head(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("HEAD", endpoint, **options)

    def options(self, endpoint: str, **options: Unpack[Options]) -> Answer:
        return self.request("OPTIONS", endpoint, **options)

    def request(self, method: str, endpoint: str, **options: Unpack[Options]) -> Answer:
        """The provider's whole answer, whatever its status. Redirects are not followed."""
        return self._loop.run(self._client.request(method, endpoint, **options))

    @contextmanager
    def stream(self, method: str, endpoint: str, **options: Unpack[Options]) -> Iterator[Stream]:
        """The provider's answer as soon as its head is there; leaving the block before its end breaks it off."""
        opened = self._client.stream(method, endpoint, **options)
        stream = self._loop.run(opened.__aenter__())
        try:
            yield Stream(stream, self._loop)
        finally:
            self._loop.run(opened.__aexit__(None, None, None))

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
    ) -> Pages:
        """The records of a whole list, as `AsyncClient.paginate` has it."""
        asked = self._client.paginate(
            endpoint,
            pages=pages,
            limit=limit,
            way=way,
            since=since,
            behind=behind,
            resumes=resumes,
            longest_wait_s=longest_wait_s,
            loads=loads,
            **options,
        )
        return Pages(asked, self._loop)
