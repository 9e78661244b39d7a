"""Fetches one page of a list: requests and retries the page, reads it within limits, and decodes it."""

import asyncio
import random
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.egress.egress_errors import EgressError
from gateway.egress.page_memory import NoPageMemory, Reservation, no_page_memory
from gateway.egress.provider_exchange import ProviderExchange
from gateway.errors import UpstreamFailed
from gateway.http.content_coding import CodingError, Decoder, codings_of
from gateway.http.headers import Fields
from gateway.http.retry import wait_s
from gateway.middleware.facts import CALLER, PAGING, PROXY_OPTIONS, UPSTREAM
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.attempts import Attempts
from gateway.proxy.caller_body import CallerBody
from gateway.proxy.exchange_watch import ExchangeTimeout, ExchangeWatch
from gateway.proxy.passed_response import values
from gateway.runtime import RUNTIME, generation_of

# ── Makes the attempts for one page. If a response says when to retry, the page is requested again at that time, even
# if the caller asked for no retries.

RETRIES: Final = 5  # maximum number of retries of each page, if the caller sets no number
MAX_WAIT_S: Final = 60.0  # one minute, because providers often count quotas by the minute
ALL_WAITS_S: Final = 120.0  # maximum sum of the waits for one page
RETRIES_FIELD: Final = "Retries"


class PageAttempts(Attempts):
    """The attempts for one page.

    `later`: False for the first request of the call; True for the requests of a `PageReader`. By then the response to
    the caller has usually begun, so its status cannot report a failure any more.
    """

    __slots__ = ("_later", "_max_retries")

    def __init__(
        self,
        request: web.Request,
        upload: CallerBody,
        watch: ExchangeWatch,
        upgrade: str | None = None,
        *,
        later: bool = False,
    ) -> None:
        super().__init__(request, upload, watch, upgrade)
        self._later = later
        self._max_retries = retries_of(request)

    @property
    def _retries_left(self) -> bool:
        return self._retried < self._max_retries

    def _may_repeat(self, *, sent: bool) -> bool:
        """Return whether the request may be sent again.

        A POST that requests a list may be sent again, because the catalog entry or the caller declares that the POST
        changes nothing.
        """
        if self._request[PAGING].lists_by_post:
            return self._upload.fault is None and self._upload.is_kept
        return super()._may_repeat(sent=sent)

    def requested_wait_s(self, exchange: ProviderExchange) -> float | None:
        """Return after how many seconds the provider wants a retry; None if the response does not say."""
        return self._rules().requested_wait_s(exchange.status, exchange.headers, clock.now())

    async def _wait_for_retry(self, requested_wait_s: float | None, exchange: ProviderExchange | None = None) -> bool:
        """Wait until the retry is due. Return False if there is no retry.

        The first request of the call gets more retries than the caller asked for only if the provider says when.
        """
        if requested_wait_s is None and not self._later and self._retried >= self._request[PROXY_OPTIONS].retries:
            return False
        return await super()._wait_for_retry(requested_wait_s, exchange)

    def _wait_s(self, requested_wait_s: float | None) -> float | None:
        jitter = random.random()  # noqa: S311 (spreads load only)
        return wait_s(
            requested_wait_s,
            self._retried + 1,
            jitter,
            waited_s=self._waited_s,
            max_wait_s=MAX_WAIT_S,
            all_s=ALL_WAITS_S,
        )


def retries_of(request: web.Request) -> int:
    """Return the maximum number of retries of each page."""
    return request[PROXY_OPTIONS].retries if request.headers.get(RETRIES_FIELD) else RETRIES


PAGE_BYTES: Final = 16 * 1024 * 1024  # maximum size of a decoded page
COPIES_IN_MEMORY: Final = 2  # a page is in memory twice: as received, and as the text that is parsed
SHOWN_BYTES: Final = 2048  # maximum number of bytes of a provider's error that the caller gets
READ_FAULTS: Final = (EgressError, CodingError, ExchangeTimeout)


class PageReader:
    """Requests the pages of a list from the provider, and reads them.

    `attempts`: number of requests sent so far. `first_byte_s`: how many seconds a response may take to begin.
    """

    def __init__(
        self, request: web.Request, upload: CallerBody, watch: ExchangeWatch, first_byte_s: float, attempts: int
    ) -> None:
        self.attempts = attempts
        self._request = request
        self._upload = upload
        self._watch = watch
        self._first_byte_s = first_byte_s
        self._reserved: Reservation | None = None

    def shrink_reservation(self, size: int) -> None:
        """Reduce the memory reserved for the page to `size` bytes, because the rest of the page is no longer in memory."""
        if self._reserved is not None:
            self._reserved.shrink(size)

    async def page(self, exchange: ProviderExchange | None = None) -> tuple[bytearray | None, Fields]:
        """Return the decoded page (None for a 204) that `request[UPSTREAM]` requests, and the response's header fields.

        `exchange`: the page's response if it has already begun; None requests the page. If a response breaks off, the
        page is requested again. Raises EgressError, CodingError, ExchangeTimeout, GatewayError.
        """
        broken_off = 0
        while True:
            self.shrink_reservation(0)
            if exchange is None:
                exchange = await self._request_page()
            try:
                content = await self._read_body(exchange)
                break
            except (EgressError, ExchangeTimeout):
                broken_off += 1
                if broken_off > retries_of(self._request):
                    raise
            finally:
                exchange.close()
            exchange = None
            with self._watch.suspend_silence_limit():
                await clock.sleep(wait_s(None, broken_off, random.random(), waited_s=0.0) or 0.0)  # noqa: S311 (spreads load only)
        return None if exchange.status == 204 else content, exchange.headers

    async def _request_page(self) -> ProviderExchange:
        """Request the page and return the response. Raises UpstreamFailed ``page_failed`` if its status is not 2xx."""
        watch = self._watch
        watch.limit_s = self._first_byte_s
        watch.begin_again()
        attempts = PageAttempts(self._request, self._upload, watch, later=True)
        try:
            exchange = await attempts.response()
        finally:
            self.attempts += attempts.count
        watch.limit_s = generation_of(self._request).egress.timeouts.idle_s
        watch.record_progress()
        if 200 <= exchange.status < 300:
            return exchange
        try:
            raise await self._refusal(exchange, attempts)
        finally:
            exchange.close()

    async def _read_body(self, exchange: ProviderExchange) -> bytearray:
        """Return the whole body, decoded.

        Raises UpstreamFailed if the body is too large or its content coding is not supported.
        """
        try:
            return await self._read(exchange, PAGE_BYTES)
        except asyncio.CancelledError:
            timeout = self._watch.timeout_behind_cancellation()
            if timeout is None:
                raise
            raise timeout from None

    async def _read(self, exchange: ProviderExchange, limit_bytes: int) -> bytearray:
        coding = ",".join(values(exchange.headers, "content-encoding"))
        if codings_of(coding) is None:
            raise UpstreamFailed(
                "page_unreadable", f"The provider's response has the unsupported Content-Encoding {coding}."
            )
        decoder = Decoder()
        is_coded = decoder.start(coding)
        content = bytearray()
        memory_reserved = False
        while piece := await exchange.read():
            self._watch.record_progress()
            for part in decoder.feed(piece) if is_coded else (piece,):
                content += part
                if len(content) > limit_bytes:
                    raise UpstreamFailed(
                        "page_too_large",
                        f"One page of the provider has more than {limit_bytes} bytes. Request smaller pages, with its "
                        "own parameter or with 'Gateway-Paginate: all; limit=…'.",
                    )
                if len(content) > INLINE_BYTES and not memory_reserved:
                    memory_reserved = True
                    page_bytes = PAGE_BYTES if is_coded or exchange.length is None else exchange.length
                    await self._reserve(min(page_bytes, PAGE_BYTES))
        decoder.finish()
        self.shrink_reservation(COPIES_IN_MEMORY * len(content))
        return content

    async def _reserve(self, size: int) -> None:
        """Wait until there is memory for a page of `size` bytes. Raises Unavailable ``busy``.

        The gateway reads nothing from the provider meanwhile.
        """
        runtime, generation, caller = self._request.app[RUNTIME], generation_of(self._request), self._request[CALLER]
        max_wait_s = generation.config.egress.limits.wait_s
        try:
            with self._watch.suspend_silence_limit():
                self._reserved = await runtime.page_memory.reserve(caller.share, COPIES_IN_MEMORY * size, max_wait_s)
        except NoPageMemory:
            raise no_page_memory() from None

    async def _refusal(self, exchange: ProviderExchange, attempts: PageAttempts) -> UpstreamFailed:
        """Return the error for a page with another status than 2xx.

        The error contains the beginning of the provider's body.
        """
        refusal: dict[str, Any] = {"status": exchange.status}
        requested_wait_s = attempts.requested_wait_s(exchange)
        if requested_wait_s is not None:
            refusal["retry_at"] = (clock.now() + timedelta(seconds=requested_wait_s)).isoformat(timespec="milliseconds")
        try:
            body = await self._read(exchange, 16 * SHOWN_BYTES)
        except (*READ_FAULTS, UpstreamFailed):
            body = bytearray()
        if body:
            refusal["body"] = body[:SHOWN_BYTES].decode("utf-8", "replace")
        origin = self._request[UPSTREAM].origin
        return UpstreamFailed("page_failed", f"{origin} returned {exchange.status} for a later page.", payload=refusal)
