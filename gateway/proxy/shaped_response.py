"""Passes on a part of a response: the parts that the caller selects, or the tools that the caller's key allows.

For a selection, the whole response is read within limits, cut, and sent as JSON or text. From a list of tools, the
tools that the key does not allow are removed. In an event stream, each event is filtered when it is complete.
"""

from collections.abc import Iterator
from typing import Any, Final

from aiohttp import hdrs, web

from gateway.egress.page_memory import NoPageMemory, Reservation, no_page_memory
from gateway.egress.provider_exchange import ProviderExchange
from gateway.errors import UpstreamFailed
from gateway.http.headers import MalformedResponse, media_type
from gateway.http.passed_head import printable
from gateway.http.retry import IDEMPOTENT
from gateway.http.tool_list_filter import StreamEventFilter, filtered_json
from gateway.middleware.facts import CALLER, LISTED_TOOLS, SHAPE
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.proxy.exchange_watch import ExchangeWatch
from gateway.proxy.passed_response import (
    BODY_AS_IT_IS,
    PassedResponse,
    ResponseBody,
    is_live,
    response_of,
    values,
    with_gateway_fields,
)
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

CUT_FIELD: Final = "Gateway-Cut"
MAX_RESPONSE_BYTES: Final = 8 << 20  # maximum size of a decoded response in bytes
COPIES_IN_MEMORY: Final = 3  # a response is in memory three times: as received, as values, and as the text to send
WHOLE_BODY_FIELDS: Final = (  # describe the whole body, so a shaped response does not have them
    "ETag",
    "Content-MD5",
    "Digest",
    "Content-Digest",
    "Repr-Digest",
    "Accept-Ranges",
    "Content-Length",
)


def is_shaped(request: web.Request, exchange: ProviderExchange) -> bool:
    """Return whether the caller requests a part of this response. Errors, redirects and ranges are not changed."""
    has_whole_body = 200 <= exchange.status < 300 and exchange.status not in BODY_AS_IT_IS
    return has_whole_body and SHAPE in request and request.method != hdrs.METH_HEAD


async def shaped_response(
    request: web.Request, exchange: ProviderExchange, body: ResponseBody, watch: ExchangeWatch, attempts: int
) -> tuple[PassedResponse, bytes]:
    """Return the response for the caller, and its body.

    Raises UpstreamFailed ``answer_not_shaped``, Unavailable ``busy`` if memory is short, and the errors of `body.next`.
    """
    from gateway.http.shaped_body import needs_thread, shaped_body  # imported at the first such call

    shape, content_type = request[SHAPE], (values(exchange.headers, "content-type") or [""])[0]
    if is_live(exchange.headers):
        raise _cannot_shape(f"is a stream ({content_type}), which has no end to wait for", "stream")
    held_response = HeldResponse(request, watch)
    try:
        whole_body = await held_response.read(body)
        if LISTED_TOOLS in request:
            whole_body = await remove_forbidden_tools(request, whole_body)
        arguments = content_type, whole_body, shape.select, shape.max_bytes
        if needs_thread(whole_body, shape.select):
            shaped = await off_loop(request[CALLER].share, shaped_body, *arguments)
        else:
            shaped = shaped_body(*arguments)
        if shaped.fault:
            raise _cannot_shape(f"does not fit Gateway-Select: {shaped.fault}".rstrip("."), "select")
        if shaped.select_ignored:
            raise _cannot_shape("is not JSON, so Gateway-Select cannot be used", "not_json")
        if not shaped.is_text and shape.select is None and len(whole_body) <= shape.max_bytes:
            content, is_unchanged = whole_body, True
        elif not shaped.is_text:
            raise _cannot_shape(
                f"has {counted(len(whole_body), 'byte')} of {content_type or 'an unknown type'}, which cannot be cut",
                "too_large",
            )
        else:
            content, is_unchanged = shaped.text.encode(), not shaped.is_json
    finally:
        held_response.release()
    response = response_of(request, exchange, decoded=True)
    for name in WHOLE_BODY_FIELDS:
        response.headers.popall(name, None)
    if not is_unchanged:
        response.headers[hdrs.CONTENT_TYPE] = "application/json"
    if not shaped.is_whole and shaped.is_text:
        response.headers[CUT_FIELD] = printable(f"{shaped.cut_to}; {counted(len(whole_body), 'byte')}")
    response.set_length_of(content)
    return with_gateway_fields(response, request, attempts), content


async def remove_forbidden_tools(request: web.Request, body: bytes) -> bytes:
    """Remove the tools that the caller's key does not allow from a list of tools. Raises MalformedResponse."""
    tools = request[LISTED_TOOLS]
    arguments = body, tools.shows
    if len(body) <= min(INLINE_BYTES, tools.inline_bytes):
        return filtered_json(*arguments)
    return await off_loop(request[CALLER].share, filtered_json, *arguments)


def _cannot_shape(problem: str, reason: str) -> UpstreamFailed:
    payload: dict[str, Any] = {"reason": reason}
    return UpstreamFailed(
        "answer_not_shaped", f"The provider's response {problem}. The request was sent.", payload=payload
    )


class HeldResponse:
    """A whole body in memory. Its memory is reserved from the budget `egress.page_memory_bytes`."""

    def __init__(self, request: web.Request, watch: ExchangeWatch) -> None:
        self._request = request
        self._watch = watch
        self._reserved: Reservation | None = None

    async def read(self, body: ResponseBody) -> bytes:
        """Return the whole body, decoded.

        Raises UpstreamFailed if the body exceeds `MAX_RESPONSE_BYTES`, and Unavailable ``busy`` if memory is short. If
        the caller must not repeat the request, a lack of memory is UpstreamFailed too.
        """
        content = bytearray()
        parts = body.first
        while parts is not None:
            for part in parts:
                content += part
                if len(content) > MAX_RESPONSE_BYTES:
                    raise _cannot_shape(
                        f"has more than {MAX_RESPONSE_BYTES >> 20} MiB; request less of it", "too_large"
                    )
            if len(content) > INLINE_BYTES and self._reserved is None:
                await self._reserve()
            next_parts = await body.next()
            self._watch.record_progress()
            if next_parts is None:
                break
            parts = next_parts
        return bytes(content)

    def release(self) -> None:
        if self._reserved is not None:
            self._reserved.release()

    async def _reserve(self) -> None:
        runtime, wait_s = self._request.app[RUNTIME], generation_of(self._request).config.egress.limits.wait_s
        try:
            with self._watch.suspend_silence_limit():
                share = self._request[CALLER].share
                self._reserved = await runtime.page_memory.reserve(share, COPIES_IN_MEMORY * MAX_RESPONSE_BYTES, wait_s)
        except NoPageMemory:
            if SHAPE in self._request and self._request.method not in IDEMPOTENT:  # a 503 would ask for a second write
                raise _cannot_shape("needs more memory than is free now", "busy") from None
            raise no_page_memory() from None


# ── Removes the tools that the caller's key does not allow from an MCP server's response to ``tools/list``.

EVENT_STREAM: Final = "text/event-stream"


def is_filtered(request: web.Request, exchange: ProviderExchange) -> bool:
    """Return whether this response can be a list of tools, which must be filtered. Errors are not changed."""
    return LISTED_TOOLS in request and 200 <= exchange.status < 300


def is_event_stream(exchange: ProviderExchange) -> bool:
    return media_type((values(exchange.headers, "content-type") or [""])[0]) == EVENT_STREAM


class FilteredEvents:
    """Replaces `ResponseBody` for an event stream. Each event is filtered and passed on when the event is complete."""

    def __init__(self, request: web.Request, body: ResponseBody) -> None:
        self._body = body
        self._share = request[CALLER].share
        tools = request[LISTED_TOOLS]
        self._filter = StreamEventFilter(tools.shows, tools.inline_bytes)
        self._parts: Iterator[bytes] | None = body.first
        self.first: Iterator[bytes] = iter(())

    async def next(self) -> Iterator[bytes] | None:
        """Return the events that are complete after the next part of the body; None at the end of the body."""
        if self._parts is None:
            return None
        part = next(self._parts, None)
        if part is not None:
            needs_thread = self._filter.needs_thread(part)
            return iter(
                (await off_loop(self._share, self._filter.feed, part) if needs_thread else self._filter.feed(part),)
            )
        self._parts = await self._body.next()
        if self._parts is not None:
            return iter(())
        return iter((await off_loop(self._share, self._filter.finish),))


def filtered_head(
    request: web.Request, exchange: ProviderExchange, body: ResponseBody, attempts: int
) -> PassedResponse:
    """Return the head of a filtered list.

    Raises MalformedResponse if the head is malformed or the content coding is not supported.
    """
    coding = ",".join(values(exchange.headers, "content-encoding")).strip().lower()
    if coding not in ("", "identity") and body.decoder is None:
        raise MalformedResponse("its list of tools has a content coding that the gateway cannot decode")
    response = response_of(request, exchange, decoded=True)
    for name in WHOLE_BODY_FIELDS:
        response.headers.popall(name, None)
    return with_gateway_fields(response, request, attempts)


async def filtered_whole(request: web.Request, body: ResponseBody, watch: ExchangeWatch) -> bytes:
    """Return the whole filtered list. Raises MalformedResponse, UpstreamFailed, Unavailable ``busy``."""
    held_response = HeldResponse(request, watch)
    try:
        return await remove_forbidden_tools(request, await held_response.read(body))
    finally:
        held_response.release()
