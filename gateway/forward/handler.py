"""One exchange from end to end."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.egress.errors import EgressError, Kind
from gateway.egress.exchange import Exchange
from gateway.errors import Code, GatewayError, InvalidRequest, UpstreamFailed, UpstreamTimeout
from gateway.forward.passed import PassedAnswer
from gateway.forward.upload import Upload
from gateway.forward.watch import StoodStill, Watch
from gateway.records.timing import Timing
from gateway.services import SERVICES
from gateway.wire.coding import CodingError, Decoder
from gateway.wire.headers import MalformedAnswer, decoded_fields, response_fields
from gateway.wire.origin import Address
from gateway.wire.references import Rewriter
from middleware.facts import CONNECTION, DECODER, REQUEST_ID, TIMING, UPSTREAM

_HEARD_AS: Final[dict[Kind, tuple[type[GatewayError], Code]]] = {
    "refused": (InvalidRequest, "address_refused"),
    "unreachable": (UpstreamFailed, "upstream_unreachable"),
    "tls": (UpstreamFailed, "upstream_tls"),
    "timeout": (UpstreamTimeout, "upstream_timeout"),
    "protocol": (UpstreamFailed, "upstream_protocol"),
    "too_large": (UpstreamFailed, "upstream_protocol"),
}
_BODY_AS_IT_IS: Final = frozenset({204, 206, 304})  # nothing to decode, or a range of coded bytes


async def forward(request: web.Request) -> web.StreamResponse:
    """Send UPSTREAM with the caller's body and pass the answer on, whatever its status.

    Raises InvalidRequest, UpstreamFailed or UpstreamTimeout as long as nothing has been answered.
    """
    egress = request.app[SERVICES].egress
    watch = Watch(request, egress.timeouts.first_byte_s)
    upload = Upload(request, watch)
    answer: PassedAnswer | None = None
    timing = request.get(TIMING) or Timing(clock.monotonic())
    try:
        with watch:
            upstream = request[UPSTREAM]
            if upload.inflated:
                upstream.headers.popall(hdrs.CONTENT_ENCODING, None)
            asked_at = clock.monotonic()
            try:
                upload.exchange = exchange = await egress.send(upstream, upload.body())
            finally:
                timing.upstream_s += clock.monotonic() - asked_at
            watch.moved()
            watch.limit_s = egress.timeouts.idle_s
            body = await _body(request, exchange)
            answer = _answer(request, exchange, decoded=body.decoder is not None)
            await _pass_on(body, answer, request, watch)
    except (EgressError, CodingError, StoodStill, MalformedAnswer) as fault:
        if answer is None or not answer.prepared:
            raise _heard_by_caller(fault, request, upload) from fault
        answer.abort()
    except ConnectionError:  # the caller left while it was being written to
        if answer is None:
            raise
        answer.abort()
    finally:
        if upload.exchange is not None:
            upload.exchange.close()
    return answer


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
    if not _is_event_stream(exchange):
        parts = await body.next() or iter(())
        body.first = chain([next(parts, b"")], parts)
    return body


def _answer(request: web.Request, exchange: Exchange, *, decoded: bool) -> PassedAnswer:
    """The head of the answer. Raises MalformedAnswer."""
    upstream = request[UPSTREAM]
    base = Address(upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    rewriter = Rewriter(base, f"{request.app[SERVICES].config.server.public_url}/proxy")
    set_cookie = request[CONNECTION].integration.forward_set_cookie
    fields = response_fields(exchange.headers, set_cookie=set_cookie, rewrite=rewriter)
    if decoded:
        fields = decoded_fields(fields)
    answer = PassedAnswer(exchange.status, exchange.reason, fields, None if decoded else exchange.length)
    if _is_event_stream(exchange):
        answer.headers["X-Accel-Buffering"] = "no"  # nginx in front of us would hold events back
    if (timing := request.get(TIMING)) is not None:
        answer.headers.add("Server-Timing", timing.told(clock.monotonic()))  # the provider's own may be there too
    if REQUEST_ID in request:
        answer.headers["Gateway-Request-Id"] = request[REQUEST_ID]
    return answer


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


def _heard_by_caller(fault: Exception, request: web.Request, upload: Upload) -> GatewayError:
    close = not request.content.is_eof()  # what is left of the body on the connection must not be read as a request
    if upload.fault is not None:
        return InvalidRequest("bad_framing", "The request's body broke off or was framed wrongly.", close=True)
    if isinstance(fault, StoodStill):
        if upload.waiting:
            return InvalidRequest("invalid_body", f"No byte of the body came for {fault.limit_s:g} s.", close=True)
        return UpstreamTimeout(
            "upstream_timeout", f"{request[UPSTREAM].origin} did not answer within {fault.limit_s:g} s.", close=close
        )
    if isinstance(fault, EgressError):
        kind, code = _HEARD_AS[fault.kind]
        return kind(code, fault.message, close=close)
    return UpstreamFailed("upstream_protocol", f"{request[UPSTREAM].origin} answered badly: {fault}.", close=close)


def _values(exchange: Exchange, name: str) -> list[str]:
    return [value for field, value in exchange.headers if field.lower() == name]


def _is_event_stream(exchange: Exchange) -> bool:
    return any(value.lower().startswith("text/event-stream") for value in _values(exchange, "content-type"))
