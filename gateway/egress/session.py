"""What aiohttp's client does unasked, undone: headers of its own, replays, reuse of connections with stray bytes."""

import asyncio
import ssl
from typing import Final
from weakref import WeakSet

import aiohttp
from aiohttp import hdrs
from aiohttp.client_middlewares import ClientHandlerType, ClientMiddlewareType
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict

from gateway.egress.errors import AddressRefused, EgressError
from gateway.wire.fields import Fields

_REPLAYED: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_used: WeakSet[ResponseHandler] = WeakSet()


class _StrayBytes(aiohttp.ServerDisconnectedError):
    """A kept connection holds bytes nobody asked for; whose answer they are cannot be known. Nothing was sent."""


class PlainRequest(aiohttp.ClientRequest):
    """A request whose head is exactly what `write_head` was given, and which remembers where it went out."""

    reused = False
    transport: asyncio.Transport | None = None
    protocol: ResponseHandler | None = None

    def write_head(self, host: str, fields: Fields, length: int | None) -> None:
        """Replace every header aiohttp chose. `length` None with a body: chunked; without one: no framing field."""
        head: CIMultiDict[str] = CIMultiDict([(hdrs.HOST, host), *fields])
        self.chunked = None
        if length is not None:
            head.add(hdrs.CONTENT_LENGTH, str(length))
        elif self.body:
            self.chunked = True
            head.add(hdrs.TRANSFER_ENCODING, "chunked")
        self.headers = head

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        protocol = conn.protocol
        assert protocol is not None
        self.protocol, self.transport = protocol, protocol.transport
        self.reused = protocol in _used
        if not self.reused:
            _used.add(protocol)
            if protocol.closed is not None:
                # An answer may ask for this future; a connection that breaks idle would then be reported as a fault.
                protocol.closed.add_done_callback(asyncio.Future.exception)
        if self.reused and protocol.should_close:
            raise _StrayBytes
        return await super().send(conn)

    def abort(self) -> None:
        """Drop its connection with all that is still unsent in it."""
        if self.transport is not None:
            self.transport.abort()


def exactly(
    origin: str, host: str, fields: Fields, length: int | None
) -> tuple[list[PlainRequest], ClientMiddlewareType]:
    """A client middleware that sends this head, once, and once more if a kept connection turns out to be dead.

    Only what is safe and has no body is sent again after bytes have left (RFC 9112 §9.3.1). The list holds the request
    last sent. Every failure leaves as EgressError, which also keeps aiohttp's own replays from happening.
    """
    sent: list[PlainRequest] = []

    async def send(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        assert isinstance(request, PlainRequest)
        sent.append(request)
        request.write_head(host, fields, length)
        for last in (False, True):
            request.reused = False
            try:
                return await handler(request)
            except BaseException as fault:
                request.abort()
                stale = isinstance(fault, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and request.reused
                safe = isinstance(fault, _StrayBytes) or (request.method in _REPLAYED and not request.body)
                if stale and safe and not last:
                    continue
                if isinstance(fault, EgressError) or not isinstance(fault, Exception):
                    raise
                raise explained(fault, origin) from fault
        raise AssertionError("the loop returns or raises")

    return sent, send


def explained(fault: Exception, origin: str) -> EgressError:
    """aiohttp's error as one of ours. The text of the fault is left out where it may hold bytes from the wire."""
    match fault:
        case aiohttp.ClientConnectorDNSError():
            return EgressError("unreachable", f"The host name of {origin} has no address.", sent=False)
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return EgressError("tls", f"TLS with {origin} failed: {_tls_reason(fault)}.", sent=False)
        case aiohttp.ConnectionTimeoutError():
            return EgressError("timeout", f"No connection to {origin} came about in time.", sent=False)
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return EgressError("unreachable", f"The outbound proxy did not open a way to {origin}.", sent=False)
        case aiohttp.ClientConnectorError() if isinstance(fault.os_error, AddressRefused):
            return EgressError("refused", f"{origin} is refused: {fault.os_error}.")
        case aiohttp.ClientConnectorError():
            return EgressError(
                "unreachable", f"{origin} could not be reached: {fault.os_error.strerror or 'no route'}.", sent=False
            )
        case TimeoutError():
            return EgressError("timeout", f"{origin} did not answer in time.")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return EgressError("unreachable", f"{origin} closed the connection without an answer.")
        case aiohttp.ClientPayloadError():
            return EgressError("protocol", f"{origin} broke off in the middle of its answer.")
        case aiohttp.ClientConnectionError():
            return EgressError("unreachable", f"The connection to {origin} broke.")
        case _:
            return EgressError("protocol", f"What {origin} answered is not HTTP.")


def _tls_reason(fault: Exception) -> str:
    cause: object = fault
    if isinstance(fault, aiohttp.ClientConnectorCertificateError):
        cause = fault.certificate_error
    elif isinstance(fault, aiohttp.ClientConnectorError):
        cause = fault.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message.rstrip(".")
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.replace("_", " ").lower()
    return "no common protocol"
