"""One exchange from end to end."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final
from urllib.parse import unquote

from aiohttp import hdrs, web

from gateway.egress.client import Timeouts
from gateway.egress.errors import EgressError
from gateway.egress.exchange import Exchange
from gateway.forward.attempts import Attempts
from gateway.forward.faults import heard_by_caller
from gateway.forward.passed import PassedAnswer, SwitchedAnswer
from gateway.forward.tunnel import Tunnel, asked_for
from gateway.forward.upload import Upload
from gateway.forward.watch import StoodStill, Watch
from gateway.services import SERVICES
from gateway.wire.coding import CodingError, Decoder
from gateway.wire.fields import Fields
from gateway.wire.headers import MalformedAnswer, decoded_fields, response_fields
from gateway.wire.origin import Address
from gateway.wire.references import Rewriter
from middleware.facts import ASKED, CONNECTION, DECODER, REQUEST_ID, UPSTREAM

_LIVE: Final = frozenset(
    {"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq"}
)
ATTEMPTS: Final = "Gateway-Attempts"
_BODY_AS_IT_IS: Final = frozenset({204, 206, 304})  # nothing to decode, or a range of coded bytes


async def forward(request: web.Request) -> web.StreamResponse:
    """Send UPSTREAM with the caller's body and pass the answer on, whatever its status.

    Raises InvalidRequest, UpstreamFailed, UpstreamTimeout or Unavailable as long as nothing has been answered.
    """
    timeouts = request.app[SERVICES].egress.timeouts
    watch = Watch(request, _first_byte_s(request, timeouts), timeouts.total_s)
    upload = Upload(request, watch)
    upgrade = asked_for(request)
    attempts = Attempts(request, upload, watch, upgrade)
    answer: PassedAnswer | None = None
    try:
        with watch:
            upstream = request[UPSTREAM]
            if upload.inflated:
                upstream.headers.popall(hdrs.CONTENT_ENCODING, None)
            upload.exchange = exchange = await attempts.answer()
            watch.moved()
            watch.limit_s = timeouts.idle_s
            if upgrade is not None and exchange.status == 101:
                answer = _signed(_switched(request, exchange, upgrade), request, attempts)
                await _relay(exchange, answer, request, watch)
                return answer
            body = await _body(request, exchange)
            answer = _signed(_answer(request, exchange, decoded=body.decoder is not None), request, attempts)
            if upgrade is not None:
                answer.force_close()  # the connection is no longer read as HTTP
            await _pass_on(body, answer, request, watch)
    except (EgressError, CodingError, StoodStill, MalformedAnswer) as fault:
        if answer is None or not answer.prepared:
            heard = heard_by_caller(fault, request, upload)
            heard.headers[ATTEMPTS] = str(attempts.count)
            heard.close |= upgrade is not None
            raise heard from fault
        answer.abort()
    except ConnectionError:  # the caller left while it was being written to
        if answer is None:
            raise
        answer.abort()
    finally:
        if upload.exchange is not None:
            upload.exchange.close()
    return answer


def _first_byte_s(request: web.Request, timeouts: Timeouts) -> float:
    asked_s = request[ASKED].timeout_s
    return timeouts.first_byte_s if asked_s is None else min(asked_s, timeouts.max_first_byte_s)


@dataclass(slots=True)
class _Body:
    """An answer's body, with its first piece already taken where it is decoded."""

    exchange: Exchange
    decoder: Decoder | None
    first: Iterator[bytes]

    async def next(self) -> Iterator[bytes] | None:
        """The parts of the next piece, to be taken before asking again; None at the clean end."""
        piece = await self.exchange.read()
        if not piece:
            if self.decoder is not None:
                self.decoder.finish()
            return None
        return iter((piece,)) if self.decoder is None else self.decoder.feed(piece)


async def _body(request: web.Request, exchange: Exchange) -> _Body:
    """Decoded if that is asked for and can be done; a body that is not what it says is then still a 502."""
    decoder = request.get(DECODER)
    coding = ",".join(_values(exchange, "content-encoding"))
    if (
        decoder is None
        or request.method == hdrs.METH_HEAD
        or exchange.status in _BODY_AS_IT_IS
        or not decoder.start(coding)
    ):
        return _Body(exchange, None, iter(()))
    body = _Body(exchange, decoder, iter(()))
    if not _is_live(exchange):
        parts = await body.next() or iter(())
        body.first = chain([next(parts, b"")], parts)
    return body


def _answer(request: web.Request, exchange: Exchange, *, decoded: bool) -> PassedAnswer:
    """The head of the answer. Raises MalformedAnswer."""
    fields = _fields(request, exchange)
    if decoded:
        fields = decoded_fields(fields)
    answer = PassedAnswer(exchange.status, exchange.reason, fields, None if decoded else exchange.length)
    if _is_live(exchange):
        answer.headers["X-Accel-Buffering"] = "no"  # nginx in front of us would hold events back
    return answer


def _switched(request: web.Request, exchange: Exchange, protocol: str) -> SwitchedAnswer:
    """The 101 as the caller gets it. Raises MalformedAnswer."""
    if [value.strip().lower() for value in _values(exchange, "upgrade")] != [protocol]:
        raise MalformedAnswer(f"it switches to another protocol than {protocol}")
    return SwitchedAnswer(exchange.reason, _fields(request, exchange), protocol)


def _signed(answer: PassedAnswer, request: web.Request, attempts: Attempts) -> PassedAnswer:
    """With what we say about the exchange."""
    if REQUEST_ID in request:
        answer.headers["Gateway-Request-Id"] = request[REQUEST_ID]
    answer.headers[ATTEMPTS] = str(attempts.count)
    return answer


def _fields(request: web.Request, exchange: Exchange) -> Fields:
    upstream = request[UPSTREAM]
    base = Address(upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    opened = request[CONNECTION]
    injected = frozenset(unquote(name) for name, _ in opened.placement.query_slots)
    rewriter = Rewriter(base, f"{request.app[SERVICES].config.server.public_url}/proxy", injected)
    return response_fields(exchange.headers, set_cookie=opened.integration.forward_set_cookie, rewrite=rewriter)


async def _relay(exchange: Exchange, answer: PassedAnswer, request: web.Request, watch: Watch) -> None:
    """Both sides of a connection that has switched; it may be silent for as long as it likes."""
    await answer.prepare(request)
    tunnel = Tunnel(request)
    try:
        with watch.resting():
            await tunnel.run(exchange)
    finally:
        answer.count(tunnel.bytes_out)


async def _pass_on(body: _Body, answer: PassedAnswer, request: web.Request, watch: Watch) -> None:
    await answer.prepare(request)
    parts: Iterator[bytes] | None = body.first
    while parts is not None:
        for part in parts:
            if part:
                await answer.write(part)
                watch.moved()
        parts = await body.next()
        watch.moved()
    await answer.write_eof()


def _values(exchange: Exchange, name: str) -> list[str]:
    return [value for field, value in exchange.headers if field.lower() == name]


def _is_live(exchange: Exchange) -> bool:
    """Whether it is sent bit by bit, each bit of use at once: events, or JSON line by line."""
    return any(value.partition(";")[0].strip().lower() in _LIVE for value in _values(exchange, "content-type"))
