"""Returns a whole list for one call: a stream with the records of all pages, one per line, then a trailer line."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict

from gateway import clock
from gateway.access.caller import Caller
from gateway.connections.opened import OpenedConnection
from gateway.egress.provider_exchange import ProviderExchange
from gateway.errors import GatewayError, UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.paging.next_page import CycleDetector, PageResult, PageUrl, parse_page, parse_page_url
from gateway.http.paging.page_document import NO_RECORDS, Records
from gateway.http.paging.resume_position import ForbiddenPageOrigin, encode_position, point_at_page
from gateway.http.passed_head import ATTEMPTS, NOT_RENDERED
from gateway.middleware.facts import CALLER, CONNECTION, PAGING, UPSTREAM
from gateway.middleware.key_limits import check_rules
from gateway.middleware.upstream import place_credential
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.origin import covers
from gateway.proxy.caller_body import CallerBody
from gateway.proxy.exchange_watch import ExchangeWatch
from gateway.proxy.no_response import error_for_caller
from gateway.proxy.page_fetch import READ_FAULTS, PageReader
from gateway.proxy.passed_response import PassedResponse
from gateway.proxy.posted_list import PostedList, with_body_digest
from gateway.records.proxied_call import Position, UpstreamRequest
from gateway.runtime import RUNTIME, generation_of

# ── Makes the lines of the stream: the records as received, and the gateway's own lines.
#
# A line of the gateway begins with exactly the bytes ``{"gateway_``. If a record begins with these bytes, a space is
# added after its brace, so that it does not look like a line of the gateway. JSON ignores the space. The trailer is
# always the last line. A stream without a trailer is incomplete.

GATEWAY_LINE_START: Final = b'{"gateway_'
TRAILER: Final = "gateway_trailer"
PAGE_MARK: Final = "gateway_page"
BATCH_BYTES: Final = 64 * 1024


def page_stream() -> PassedResponse:
    """Return the head of the response, without ``Gateway-Paginate``, because the paging type is not known yet."""
    fields = [
        ("Content-Type", "application/x-ndjson"),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),  # otherwise an nginx in front of the gateway would delay records
        *NOT_RENDERED,
    ]
    return PassedResponse(200, "OK", fields, None)


def batches(records: Records) -> Iterator[bytes]:
    """Yield the records as lines, in batches of about `BATCH_BYTES`."""
    batch = bytearray()
    for record in records:
        batch += b"{ " + record[1:] if record.startswith(GATEWAY_LINE_START) else record
        batch += b"\n"
        if len(batch) >= BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


def line_of(name: str, fields: Mapping[str, Any]) -> bytes:
    """Return a line of the gateway, in ASCII."""
    return json.dumps({name: fields}, separators=(",", ":")).encode() + b"\n"


def error_of(fault: GatewayError) -> dict[str, Any]:
    """Return the body that an error response for `fault` would have, with its status as an additional member."""
    return {"status": fault.status, **fault.as_json()}


# ── Passes on one page after another until the list ends, the requested number of pages is reached, or a fault occurs.
# The trailer reports the fault.

MAX_CURSOR_CHARS: Final = 12_000  # the client returns the cursor in a header field, which the server limits to 16 KiB
# The gateway sends conditional header fields only with the request for the first page.
_CONDITIONS: Final = ("If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since")


async def pass_pages(
    request: web.Request,
    first: ProviderExchange,
    response: PassedResponse,
    upload: CallerBody,
    watch: ExchangeWatch,
    first_byte_s: float,
    posted_list: PostedList | None = None,
) -> None:
    """Read one page after another, and write `response` to its end.

    `first`: the 2xx response with the first page. `posted_list`: the body of a list that is requested by POST; otherwise
    None. Raises a GatewayError for a fault of the first page. The trailer reports a fault of a later page.
    """
    reader = PageReader(request, upload, watch, first_byte_s, int(response.headers[ATTEMPTS]))
    try:
        await _pass_pages(request, first, response, upload, watch, reader, posted_list)
    finally:
        reader.shrink_reservation(0)


async def _pass_pages(
    request: web.Request,
    first: ProviderExchange,
    response: PassedResponse,
    upload: CallerBody,
    watch: ExchangeWatch,
    reader: PageReader,
    posted_list: PostedList | None,
) -> None:
    paged_call = _PagedCall(request, reader, upload, posted_list)
    first_request = request[UPSTREAM]
    try:
        page = await paged_call.read_first_page(first)
    except (GatewayError, *READ_FAULTS) as fault:
        error = _caller_error(fault, request, upload, watch)
        error.headers[ATTEMPTS] = str(reader.attempts)
        raise error from fault
    response.headers[ATTEMPTS] = str(reader.attempts)
    response.headers["Gateway-Paginate"] = f"{request[PAGING].pages or 'all'};type={page.scheme.type}"
    await response.prepare(request)
    while True:
        for batch in batches(page.records):
            await response.write(batch)
            watch.record_progress()
            await clock.give_way()  # a write that need not wait lets no other task run
        paged_call.record_passed(page)
        next_position = page.next
        if next_position is None or paged_call.has_enough_pages:
            break
        if request[PAGING].marks:
            await response.write(line_of(PAGE_MARK, paged_call.progress(next_position)))
        del page  # frees the memory of the page
        try:
            page = await paged_call.request_page(next_position)
        except (GatewayError, *READ_FAULTS, asyncio.CancelledError) as fault:
            paged_call.fault = _caller_error(fault, request, upload, watch)
            break
    request[UPSTREAM] = first_request  # the call log shows the request for the first page
    await response.write(line_of(TRAILER, paged_call.trailer(next_position)))
    await response.write_eof()
    response.trailer_error = None if paged_call.fault is None else paged_call.fault.code


def _caller_error(fault: BaseException, request: web.Request, upload: CallerBody, watch: ExchangeWatch) -> GatewayError:
    """Return the error for the caller. Raise a CancelledError again if the watch did not cause it."""
    if isinstance(fault, asyncio.CancelledError):
        timeout = watch.timeout_behind_cancellation(total=True)
        if timeout is None:
            raise fault
        fault = timeout
    if isinstance(fault, GatewayError):
        return fault
    assert isinstance(fault, Exception)
    return error_for_caller(fault, request, upload)


class _PagedCall:
    """The progress of one paged call.

    `pages`: number of pages passed on. `records`: number of records passed on. `fault`: why the call stops early, or
    None.
    """

    def __init__(
        self, request: web.Request, reader: PageReader, upload: CallerBody, posted_list: PostedList | None
    ) -> None:
        self.reader = reader
        self._upload = upload
        self._posted_list = posted_list
        self.pages = self.records = 0
        self.fault: GatewayError | None = None
        self._cursor_seen = False
        self._missing_cursor_path: str | None = None
        self._request = request
        self._paging = request[PAGING]
        self._base_path = request[UPSTREAM].base_path
        self._cycles = CycleDetector()
        if self._paging.start is not None:
            self._cycles.detect_repeat(self._paging.start.at)

    @property
    def has_enough_pages(self) -> bool:
        return self._paging.pages is not None and self.pages >= self._paging.pages

    async def read_first_page(self, exchange: ProviderExchange) -> PageResult:
        content, headers = await self.reader.page(exchange)
        return await self._parse_content(content, headers)

    async def request_page(self, position: Position) -> PageResult:
        """Request the page at `position` with the current credential, and return the page."""
        request = self._request
        live, ref = request.app[RUNTIME].live, request[CONNECTION].connection.ref
        opened = request[CONNECTION] = live.peek(ref) or await live.open_connection(*ref)
        previous = request[UPSTREAM]
        upstream = replace(previous, headers=CIMultiDict(previous.headers), base_path=self._base_path)
        for name in _CONDITIONS:
            upstream.headers.popall(name, None)
        try:
            point_at_page(upstream, position, opened.allowed_origins | {opened.base.origin}, self._paging.path)
        except ForbiddenPageOrigin as fault:
            raise _forbidden_origin_error(fault.origin) from fault
        await _check_and_count(request[CALLER], upstream, opened)
        place_credential(opened, upstream, has_body=self._posted_list is not None)
        if self._posted_list is not None:
            self._upload.replace(self._posted_list.body_for(position))
        request[UPSTREAM] = upstream
        content, headers = await self.reader.page()
        return await self._parse_content(content, headers, position)

    def record_passed(self, page: PageResult) -> None:
        self.pages += 1
        self.records += len(page.records)
        self._cursor_seen = self._cursor_seen or page.cursor_candidates is None
        self._missing_cursor_path = page.scheme.cursor_path_in_response
        self.fault = page.next_page_fault

    def progress(self, next_position: Position | None) -> dict[str, Any]:
        fields: dict[str, Any] = {"pages": self.pages, "records": self.records}
        if next_position is not None:
            text = encode_position(with_body_digest(next_position, self._posted_list), self._paging.request_digest)
            cursor = generation_of(self._request).page_cursors.seal(text)
            if len(cursor) <= MAX_CURSOR_CHARS:
                fields["cursor"] = cursor
        return fields

    def trailer(self, next_position: Position | None) -> dict[str, Any]:
        complete = next_position is None and self.fault is None
        fields = {"complete": complete, **self.progress(next_position), "attempts": self.reader.attempts}
        if complete and self.pages and not self._cursor_seen:
            fields["note"] = (
                f"No page had a cursor at '{self._missing_cursor_path}' (cursor_path_in_response). If that path is "
                "right, the list is complete: some providers omit the cursor on the last page."
            )
        return fields if self.fault is None else {**fields, "error": error_of(self.fault)}

    async def _parse_content(
        self, content: bytearray | None, headers: Fields, position: Position | None = None
    ) -> PageResult:
        upstream = self._request[UPSTREAM]
        body = None if self._posted_list is None else self._posted_list.current_body
        page_url = PageUrl(upstream.scheme, upstream.host, upstream.port, upstream.target, body)
        schemes = self._paging.schemes if position is None else [position.scheme]
        if content is None:
            return PageResult(NO_RECORDS, schemes[0], None)
        is_large, share = len(content) > INLINE_BYTES, self._request[CALLER].share
        if not is_large:
            page = parse_page(content, headers, schemes, page_url)
        else:
            page = await off_loop(share, parse_page, content, headers, schemes, page_url)
            content.clear()  # no longer needed, because the records are slices of the parsed text
            self.reader.shrink_reservation(len(page.records.text))
        digest = ""
        if page.scheme.type == "offset" and page.records.hold_objects:
            digest = await off_loop(share, lambda: page.records.digest) if is_large else page.records.digest
        return self._check_next_page(page, digest)

    def _check_next_page(self, page: PageResult, digest: str) -> PageResult:
        """Check the next page of `page`, and return `page`.

        If the next page was read before or is at a forbidden origin, the result has an error instead of a next page.
        """
        if page.scheme.type == "offset":
            if digest and self._cycles.detect_repeat(digest):
                return PageResult(
                    NO_RECORDS,
                    page.scheme,
                    None,
                    _repeated_page_error(f"it ignores '{page.scheme.offset_name_in_request}'"),
                )
            return page
        if page.next is None:
            cursor_misnamed = self._paging.cursor_named and not self._cursor_seen and page.next_page_fault is None
            return (
                replace(page, next_page_fault=_misnamed_cursor_error(page))
                if cursor_misnamed and page.cursor_candidates
                else page
            )
        if self._cycles.detect_repeat(page.next.at):
            return replace(
                page, next=None, next_page_fault=_repeated_page_error("its next page is one that was read before")
            )
        opened = self._request[CONNECTION]
        if page.scheme.type == "link":
            origin = parse_page_url(page.next.at).origin
            if not covers(opened.allowed_origins | {opened.base.origin}, origin):
                return replace(page, next=None, next_page_fault=_forbidden_origin_error(origin))
        return page


def _misnamed_cursor_error(page: PageResult) -> UpstreamFailed:
    return UpstreamFailed(
        "page_unreadable",
        f"The provider's page has nothing at '{page.scheme.cursor_path_in_response}' (cursor_path_in_response), but has "
        f"{', '.join(list(page.cursor_candidates or ())[:5])}. Set cursor_path_in_response to the path of the cursor.",
    )


async def _check_and_count(caller: Caller, upstream: UpstreamRequest, opened: OpenedConnection) -> None:
    """Check the request for a later page by the rules of the key, and count it against the key's limits.

    Raises Forbidden, TooManyRequests.
    """
    check_rules(caller, upstream, opened)
    if caller.access is not None and caller.access.meter is not None:
        await caller.access.meter.count_against_budget()


def _repeated_page_error(reason: str) -> UpstreamFailed:
    return UpstreamFailed(
        "next_page_refused",
        f"The provider returned the same page again: {reason}. Check how this list is paged, and set that in "
        "Gateway-Paginate.",
    )


def _forbidden_origin_error(origin: str) -> UpstreamFailed:
    return UpstreamFailed(
        "next_page_refused",
        f"The next page is at {origin}, to which this credential may not be sent. Add the origin to the integration's "
        "allowed_origins.",
    )
