"""Passes a provider's response on to the caller: sets the framing, and sends the body as received or decoded."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from aiohttp import hdrs, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_writer import StreamWriter

from gateway import clock
from gateway.connections.opened import OpenedConnection
from gateway.egress.provider_exchange import ProviderExchange
from gateway.http.abort import abort_connection
from gateway.http.content_coding import Decoder
from gateway.http.headers import Fields, MalformedResponse, decoded_fields, response_fields
from gateway.http.passed_head import (
    ATTEMPTS,
    CONNECT_URL_FIELD,
    SERVER_TIMING,
    framing,
    head_bytes,
    printable,
    server_timing,
    with_protection_fields,
)
from gateway.http.references import LinkRewriter
from gateway.middleware.facts import CAPABILITY, CONNECT_URL, CONNECTION, DECODER, REQUEST_ID, TIMING, UPSTREAM
from gateway.middleware.key_limits import add_rate_limit_headers
from gateway.middleware.response_shape import REQUEST_ID_FIELD, add_cors_headers
from gateway.middleware.who_calls import REFERRER_POLICY, with_referrer_policy
from gateway.origin import ParsedUrl
from gateway.runtime import generation_of

# ── The caller gets the head as the provider wrote it, with the gateway's framing.
#
# aiohttp's `StreamResponse` would add Content-Type and Server, and would lose bytes that are not UTF-8. A proxy must do
# neither.


class PassedResponse(web.StreamResponse):
    """A provider's response for the caller.

    - `length`: length of the body in bytes; None if unknown
    - `cut`: whether the response broke off
    - `trailer_error`: error code in the trailer of a paged response, whose status was sent before the error; None
      without an error
    - `head_with_first_write`: whether the first call of `write` sends the head too. Set this only if the first piece of
      the body has already arrived.
    """

    cut = False
    trailer_error: str | None = None
    head_with_first_write = False

    def __init__(self, status: int, reason: str, fields: Fields, length: int | None) -> None:
        super().__init__(status=status, reason=printable(reason))
        self.headers.extend(fields)
        self._length = length

    async def _prepare_headers(self) -> None:
        """Set the framing (RFC 9112 §6): no body, a length, chunks, or the close of an HTTP/1.0 connection."""
        request, writer = self._req, self._payload_writer
        assert request is not None
        assert writer is not None
        keep_alive = request.keep_alive if self._keep_alive is None else self._keep_alive
        frame = framing(request.method, request.version, self.status, self._length, keep_alive=bool(keep_alive))
        for name, value in frame.fields:
            self.headers[name] = value
        if frame.chunked:
            writer.enable_chunking()
        elif not frame.bodiless:
            writer.length = self._length
        self._keep_alive = frame.keep_alive
        self.headers.setdefault(hdrs.DATE, rfc822_formatted_time())  # required by RFC 9110 §6.6.1

    async def _write_headers(self) -> None:
        request, writer = self._req, self._payload_writer
        assert request is not None
        assert writer is not None
        head = head_bytes(request.version, self.status, self.reason or "", list(self.headers.items()))
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the caller has disconnected")
        if self.head_with_first_write and isinstance(writer, StreamWriter):
            writer._headers_buf = head
            return
        transport.write(head)
        writer.output_size += len(head)

    def set_length_of(self, body: bytes) -> None:
        """Set the length for `body`, which replaces the provider's body."""
        self._length = len(body)

    def count(self, sent_bytes: int) -> None:
        """Count bytes that the gateway sent to the caller without this object."""
        if self._payload_writer is not None:
            self._payload_writer.output_size += sent_bytes

    def abort(self) -> None:
        """Close the client's connection so that the client sees that the response is incomplete.

        Without a length or chunks, an ordinary close would mark the end of the response. The connection is then reset
        instead.
        """
        self.cut = True
        framed = hdrs.CONTENT_LENGTH in self.headers or hdrs.TRANSFER_ENCODING in self.headers
        abort_connection(self._req.transport if self._req is not None else None, reset=not framed)


class SwitchedResponse(PassedResponse):
    """A 101 response, after which the connection uses `protocol`."""

    def __init__(self, reason: str, fields: Fields, protocol: str) -> None:
        super().__init__(101, reason, fields, None)
        self._protocol = protocol

    async def _prepare_headers(self) -> None:
        self._keep_alive = False
        self.headers[hdrs.CONNECTION] = "Upgrade"
        self.headers[hdrs.UPGRADE] = self._protocol


# ── Reads the response's body for the caller, as received or decoded.

_LIVE_MEDIA_TYPES: Final = frozenset(
    {"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq"}
)
BODY_AS_IT_IS: Final = frozenset({204, 206, 304})  # responses without a body, or with a range that cannot be decoded


@dataclass(slots=True)
class ResponseBody:
    """A response's body.

    `decoder`: None if the body is passed on as received. `first`: the parts of the first piece, if this piece has been
    read to check the content coding; otherwise empty.
    """

    exchange: ProviderExchange
    decoder: Decoder | None
    first: Iterator[bytes]

    @property
    def has_arrived(self) -> bool:
        """Whether `next` returns a piece of the body without waiting."""
        return self.decoder is None and self.exchange.held_bytes > 0

    async def next(self) -> Iterator[bytes] | None:
        """Return the parts of the next piece; None at the end of the body. Consume the parts before the next call."""
        piece = await self.exchange.read()
        if not piece:
            if self.decoder is not None:
                self.decoder.finish()
            return None
        return iter((piece,)) if self.decoder is None else self.decoder.feed(piece)


async def body_of(request: web.Request, exchange: ProviderExchange) -> ResponseBody:
    """Return the body of the provider's response. It is decoded if the caller requests this and its content coding is supported.

    Raises CodingError if the first piece does not match the coding. At this point, the caller can still get a 502.
    """
    decoder = request.get(DECODER)
    if decoder is None or not start_decoding(decoder, request.method, exchange.status, exchange.headers):
        return ResponseBody(exchange, None, iter(()))
    body = ResponseBody(exchange, decoder, iter(()))
    if not is_live(exchange.headers):
        parts = await body.next() or iter(())
        body.first = chain([next(parts, b"")], parts)
    return body


def start_decoding(decoder: Decoder, method: str, status: int, fields: Fields) -> bool:
    """Start `decoder` for the coding of a response's body, and return whether the body will be decoded.

    Return False for a response without a body, for a range, and for a coding that is not supported.
    """
    decodable = method != hdrs.METH_HEAD and status not in BODY_AS_IT_IS
    return decodable and decoder.start(",".join(values(fields, "content-encoding")))


def values(fields: Fields, name: str) -> list[str]:
    """Return the values of the fields with the name `name` (in lower case), in order."""
    return [value for field, value in fields if field.lower() == name]


def is_live(fields: Fields) -> bool:
    """Return whether a response is a live stream: server-sent events, or JSON line by line."""
    for name, value in fields:
        if (
            len(name) == 12
            and name.lower() == "content-type"
            and value.partition(";")[0].strip().lower() in _LIVE_MEDIA_TYPES
        ):
            return True
    return False


# ── Makes the response's head for the caller.

UNBUFFERED: Final = ("X-Accel-Buffering", "no")
"""A field that is added to a live stream, because otherwise an nginx in front of the gateway would delay events."""


def response_of(request: web.Request, exchange: ProviderExchange, *, decoded: bool) -> PassedResponse:
    """Return the head of the response. `decoded`: whether the body is passed on decoded. Raises MalformedResponse."""
    fields = _fields(request, exchange)
    if decoded:
        fields = decoded_fields(fields)
    fields = with_protection_fields(fields, connection_in_headers=CAPABILITY not in request)
    response = PassedResponse(exchange.status, exchange.reason, fields, None if decoded else exchange.length)
    if is_live(exchange.headers):
        response.headers.extend([UNBUFFERED])
    return response


def switching_response(request: web.Request, exchange: ProviderExchange, protocol: str) -> SwitchedResponse:
    """Return the 101 response for the caller.

    Raises MalformedResponse, for example if the provider switches to another protocol.
    """
    if [value.strip().lower() for value in values(exchange.headers, "upgrade")] != [protocol]:
        raise MalformedResponse(f"it switches to another protocol than {protocol}")
    return SwitchedResponse(exchange.reason, _fields(request, exchange), protocol)


def with_gateway_fields(response: PassedResponse, request: web.Request, attempts: int) -> PassedResponse:
    """Add the fields that the gateway adds to every response of a provider, and return `response`."""
    add_cors_headers(request, response.headers)
    add_rate_limit_headers(response, request)
    with_referrer_policy(response, request)
    if REQUEST_ID in request:
        response.headers[REQUEST_ID_FIELD] = request[REQUEST_ID]
    response.headers[ATTEMPTS] = str(attempts)
    if CONNECT_URL in request:
        response.headers[CONNECT_URL_FIELD] = request[CONNECT_URL]
    timing = request[TIMING]
    timing.head_at = now = clock.monotonic()
    durations = server_timing(timing.gateway_s(now) * 1000, timing.token_s * 1000, timing.upstream_s * 1000)
    response.headers.add(SERVER_TIMING, durations)  # `add`, because the provider might have sent it too
    return response


def _fields(request: web.Request, exchange: ProviderExchange) -> Fields:
    upstream = request[UPSTREAM]
    base = ParsedUrl(upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    return passed_fields(exchange.headers, base, request[CONNECTION], _gateway_base_url(request))


def _gateway_base_url(request: web.Request) -> str:
    capability, public_url = request.get(CAPABILITY), generation_of(request).public_url
    return f"{public_url}/proxy" if capability is None else f"{public_url}/c/{capability.token.reveal()}"


def with_gateway_referrer_policy(fields: Fields) -> Fields:
    """Return `fields` with the gateway's Referrer-Policy instead of the provider's.

    The gateway's policy hides the capability URL from other sites, because the URL is a secret.
    """
    return [*(field for field in fields if field[0].lower() != "referrer-policy"), REFERRER_POLICY]


def passed_fields(received_fields: Fields, base: ParsedUrl, opened: OpenedConnection, gateway_base_url: str) -> Fields:
    """Return the fields of a response that are passed on to the caller. Raises MalformedResponse.

    `base`: the provider's base URL. `gateway_base_url`: replaces the provider's base URL in the fields' values.
    """

    def rewrite(name: str, value: str) -> str:
        return opened.without_secrets(LinkRewriter(base, gateway_base_url, opened.placement.query_names)(name, value))

    return response_fields(received_fields, set_cookie=opened.integration.forward_set_cookie, rewrite=rewrite)
