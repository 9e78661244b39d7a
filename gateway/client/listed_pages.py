"""Reads a list through ``Gateway-Paginate``, and continues the list automatically after an interruption."""

import json
import random
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Final

from gateway.client.calls import paginate_header
from gateway.client.client_errors import (
    CallFailed,
    CutShort,
    GatewayError,
    PagingBroken,
    ProviderError,
    retry_after_seconds,
)
from gateway.client.client_response import AsyncStream

TRAILER: Final = b'{"gateway_trailer":'
MARK: Final = b'{"gateway_page":'
_TEMPORARY_CODES: Final = frozenset(
    {"upstream_unreachable", "upstream_timeout", "upstream_protocol", "busy", "token_endpoint_unavailable"}
    | {"store_unavailable"}
)
_TEMPORARY_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

SendRequest = Callable[[Mapping[str, str]], AbstractAsyncContextManager[AsyncStream]]


class AsyncPages:
    """The records of a list. An instance can be iterated over only once.

    `cursor`: the value of `since` with which another call continues the list; None at the beginning and at the end.
    `behind`: the number of records after `cursor` that were already returned; another call with the same `behind` skips
    these records. `complete`: whether the provider has no more records.
    """

    def __init__(
        self,
        send: SendRequest,
        *,
        pages: int | None,
        limit: int | None,
        way: Mapping[str, str | int] | None,
        since: str | None,
        behind: int,
        resumes: int,
        longest_wait_s: float,
        loads: Callable[[bytes], Any],
    ) -> None:
        self.cursor = since
        self.behind = behind
        self.complete = False
        self._send = send
        self._pages, self._limit, self._way = pages, limit, way
        self._resumes, self._longest_wait_s = resumes, longest_wait_s
        self._loads = loads
        self._pages_before = self._pages_read = 0
        self._interruptions = 0
        self._started = False

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for batch in self.uncounted_batches():
            for record in batch:
                self.count(1)
                yield record

    async def batches(self) -> AsyncIterator[list[Any]]:
        """Yield lists of records. Each list has the records received after the previous list.

        All records of a list count as returned to the caller.
        """
        async for batch in self.uncounted_batches():
            self.count(len(batch))
            yield batch

    def count(self, records: int) -> None:
        """Count records as returned to the caller, so that a call that continues the list skips these records."""
        self.behind += records
        self._interruptions = 0

    async def uncounted_batches(self) -> AsyncIterator[list[Any]]:
        """Yield batches of records. The caller calls `count` for each batch before it takes the next batch."""
        while True:
            self._pages_before += self._pages_read
            self._pages_read = 0
            try:
                trailer = None
                async with self._send(self._headers()) as response:
                    if "Gateway-Paginate" not in response.headers:
                        raise ProviderError(await response.whole())
                    self._started = True
                    async for batch in self._batches_in(response):
                        if isinstance(batch, dict):
                            trailer = batch
                        else:
                            yield batch
                    if trailer is None:
                        raise CutShort("the list was interrupted: it has no trailer")
                    request_id = response.request_id
                if self._store_trailer(trailer):
                    return
                fault: CallFailed = PagingBroken(trailer["error"], self.cursor, request_id)
            except CallFailed as failure:
                if not self._started:
                    raise
                fault = failure
            await self._wait_after(fault)

    def _headers(self) -> dict[str, str]:
        pages_left = None if self._pages is None else self._pages - self._pages_before
        headers = {"Gateway-Paginate": paginate_header(pages_left, self._limit, self._way)}
        return headers if self.cursor is None else {**headers, "Gateway-Paginate-From": self.cursor}

    async def _batches_in(self, response: AsyncStream) -> AsyncIterator[list[Any] | dict[str, Any]]:
        """Yield batches of records that were not returned before, then the trailer.

        A batch ends at the mark of a page, so that all its records are after the same cursor.
        """
        records_to_skip = self.behind
        async for lines in response.several_lines():
            batch: list[Any] = []
            for line in lines:
                if not line.startswith((TRAILER, MARK)):
                    if records_to_skip:
                        records_to_skip -= 1
                    else:
                        batch.append(self._loads(line))
                    continue
                if batch:
                    yield batch
                    batch = []
                if line.startswith(TRAILER):
                    trailer: dict[str, Any] = json.loads(line)["gateway_trailer"]
                    yield trailer
                    return
                mark = json.loads(line)["gateway_page"]
                self._pages_read = mark["pages"]
                if "cursor" in mark:
                    self.cursor, self.behind, records_to_skip = mark["cursor"], 0, 0
            if batch:
                yield batch

    def _store_trailer(self, trailer: Mapping[str, Any]) -> bool:
        """Store the values in the trailer of the list; return whether the list ended without an error."""
        self.complete = bool(trailer["complete"])
        self._pages_read = trailer["pages"]
        self.cursor, self.behind = trailer.get("cursor"), 0
        return "error" not in trailer

    async def _wait_after(self, fault: CallFailed) -> None:
        """Wait until the list can be continued.

        Raises `fault` if the list cannot be continued, or if there were too many interruptions.
        """
        self._interruptions += 1
        cannot_resume = isinstance(fault, PagingBroken) and fault.cursor is None
        if self._interruptions > self._resumes or cannot_resume or not _is_temporary(fault):
            raise fault
        wait_s = _stated_wait_s(fault)
        if wait_s is None:
            wait_s = min(2.0 ** (self._interruptions - 1), 30.0) * random.uniform(0.5, 1.0)  # noqa: S311 (spreads load only)
        if wait_s > self._longest_wait_s:
            raise fault
        await sleep(wait_s)


def _is_temporary(fault: CallFailed) -> bool:
    if isinstance(fault, ProviderError):
        return fault.status in _TEMPORARY_STATUSES
    if not isinstance(fault, GatewayError):
        return True
    if fault.code == "page_failed":
        return fault.payload.get("status") in _TEMPORARY_STATUSES
    return fault.code in _TEMPORARY_CODES or (not fault.code and fault.status in _TEMPORARY_STATUSES)


def _stated_wait_s(fault: CallFailed) -> float | None:
    """Return the seconds to wait that the gateway or the provider states; None if neither states a time."""
    if isinstance(fault, ProviderError):
        return retry_after_seconds(fault.response.headers.get("Retry-After", ""))
    if not isinstance(fault, GatewayError):
        return None
    retry_at = fault.retry_at
    if retry_at is not None:
        return max(0.0, (retry_at - datetime.now(UTC)).total_seconds())
    return fault.retry_after_s
