"""The answer of an MCP server to ``tools/list``, without the tools that the caller's key does not allow."""

from collections.abc import Iterator
from typing import Final

from aiohttp import web

from gateway.egress.provider_exchange import ProviderExchange
from gateway.http.headers import MalformedAnswer
from gateway.http.tool_list_filter import StreamEventFilter
from gateway.middleware.facts import CALLER, LISTED_TOOLS
from gateway.off_loop import off_loop
from gateway.proxy.exchange_watch import ExchangeWatch
from gateway.proxy.passed_answer import AnswerBody, PassedAnswer, answer_of, signed, values
from gateway.proxy.shaped_answer import OF_THE_WHOLE, HeldAnswer, filtered

EVENTS: Final = "text/event-stream"


def is_filtered(request: web.Request, exchange: ProviderExchange) -> bool:
    """Whether this answer may be a list of tools, of which the caller gets some. Errors pass as they are."""
    return LISTED_TOOLS in request and 200 <= exchange.status < 300


def media_type(exchange: ProviderExchange) -> str:
    return (values(exchange.headers, "content-type") or [""])[0].partition(";")[0].strip().lower()


class FilteredEvents:
    """An event stream on its way to the caller, each event as soon as it is complete. In place of `AnswerBody`."""

    def __init__(self, request: web.Request, body: AnswerBody) -> None:
        self._body = body
        self._share = request[CALLER].share
        self._filter = StreamEventFilter(request[LISTED_TOOLS].shows)
        self._parts: Iterator[bytes] | None = body.first
        self.first: Iterator[bytes] = iter(())

    async def next(self) -> Iterator[bytes] | None:
        """The events that are complete with the next part; None at the end."""
        if self._parts is None:
            return None
        part = next(self._parts, None)
        if part is not None:
            dear = self._filter.is_dear(part)
            return iter((await off_loop(self._share, self._filter.feed, part) if dear else self._filter.feed(part),))
        self._parts = await self._body.next()
        if self._parts is not None:
            return iter(())
        return iter((await off_loop(self._share, self._filter.finish),))


def filtered_head(request: web.Request, exchange: ProviderExchange, body: AnswerBody, attempts: int) -> PassedAnswer:
    """The head of the answer. Raises MalformedAnswer for a body that cannot be read."""
    coding = ",".join(values(exchange.headers, "content-encoding")).strip().lower()
    if coding not in ("", "identity") and body.decoder is None:
        raise MalformedAnswer("it is to be a list of tools, and is coded as nobody here can undo")
    answer = answer_of(request, exchange, decoded=True)
    for name in OF_THE_WHOLE:
        answer.headers.popall(name, None)
    return signed(answer, request, attempts)


async def filtered_whole(request: web.Request, body: AnswerBody, watch: ExchangeWatch) -> bytes:
    """The whole list. Raises MalformedAnswer, UpstreamFailed, Unavailable ``busy``."""
    held = HeldAnswer(request, watch)
    try:
        return await filtered(request, await held.read(body))
    finally:
        held.release()
