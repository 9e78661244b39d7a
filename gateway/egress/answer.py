"""aiohttp's answer as an Exchange: bytes as they came, an early end told from a clean one."""

import aiohttp
from aiohttp import hdrs

from gateway.egress.errors import EgressError
from gateway.egress.session import PlainRequest, explained
from gateway.wire.fields import from_wire


class SessionExchange:
    """See `Exchange`. Raises EgressError ``protocol`` at once if the answer's framing leaves room for two readings."""

    def __init__(self, answer: aiohttp.ClientResponse, request: PlainRequest, origin: str) -> None:
        self._answer = answer
        self._request = request
        self._origin = origin
        self.status = answer.status
        self.reason = answer.reason or ""
        self.headers = from_wire(answer.raw_headers)
        self._chunked = False
        self._lost = request.protocol.closed if request.protocol is not None else None
        if self._lost is not None:
            self._lost.add_done_callback(self._connection_lost)
        else:
            self._connection_lost()
        try:
            self.length = self._framing()
        except EgressError:
            self.close()
            raise

    def _framing(self) -> int | None:
        """The declared length (RFC 9112 §6.3); what can be read in two ways is an attack or a broken server."""
        if self.status < 200:
            raise EgressError("protocol", f"{self._origin} switched protocols without being asked to.")
        codings = self._answer.headers.getall(hdrs.TRANSFER_ENCODING, [])
        lengths = set(self._answer.headers.getall(hdrs.CONTENT_LENGTH, []))
        if codings:
            if lengths or [coding.strip().lower() for coding in codings] != ["chunked"]:
                raise EgressError("protocol", f"{self._origin} framed its answer in two ways at once.")
            self._chunked = True
            return None
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()):
            raise EgressError("protocol", f"{self._origin} framed its answer with an impossible length.")
        return int(length)

    async def read(self) -> bytes:
        try:
            piece = await self._answer.content.readany()
        except Exception as fault:
            self.close()
            raise explained(fault, self._origin) from fault
        if not piece:
            self._forget_connection()
            if self.length is None and not self._chunked:
                self._demand_clean_close()
        return piece

    def _connection_lost(self, _lost: object = None) -> None:
        """After a broken chunk aiohttp closes the connection, but tells nobody who waits for the body."""
        content = self._answer.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection was lost"))

    def _forget_connection(self) -> None:
        if self._lost is not None:
            self._lost.remove_done_callback(self._connection_lost)
            self._lost = None

    def _demand_clean_close(self) -> None:
        """A body that ends with its connection is whole only if that was closed, not reset (RFC 9112 §8)."""
        protocol = self._request.protocol
        if protocol is not None and isinstance(protocol.exception(), aiohttp.ClientOSError):
            raise EgressError("protocol", f"{self._origin} broke off in the middle of its answer.")

    def close(self) -> None:
        self._forget_connection()
        if not self._answer.closed:
            self._request.abort()
            self._answer.close()
