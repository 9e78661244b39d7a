"""The client's half of a proxied answer: the head as the provider wrote it, in a framing of ours.

`StreamResponse` would add Content-Type and Server, and would lose bytes that are not UTF-8; a proxy may do neither.
"""

from aiohttp import hdrs, web
from aiohttp.helpers import rfc822_formatted_time

from gateway.wire.cut import cut
from gateway.wire.fields import Fields
from gateway.wire.passed_head import framing, head_bytes, printable


class PassedAnswer(web.StreamResponse):
    """`length` is the body's, if known. `cut` says afterwards that the answer could not be passed on to its end.

    `broke_off`: the code of an error that its last line tells of, the status being sent already.
    """

    cut = False
    broke_off: str | None = None

    def __init__(self, status: int, reason: str, fields: Fields, length: int | None) -> None:
        super().__init__(status=status, reason=printable(reason))
        self.headers.extend(fields)
        self._length = length

    async def _prepare_headers(self) -> None:
        """Frame it (RFC 9112 §6): no body, a length, chunks, or, for HTTP/1.0, the connection's end."""
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
        self.headers.setdefault(hdrs.DATE, rfc822_formatted_time())  # RFC 9110 §6.6.1

    async def _write_headers(self) -> None:
        request, writer = self._req, self._payload_writer
        assert request is not None
        assert writer is not None
        head = head_bytes(request.version, self.status, self.reason or "", list(self.headers.items()))
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the caller has left")
        transport.write(head)
        writer.output_size += len(head)

    def count(self, sent_bytes: int) -> None:
        """Bytes that went to the caller past this object."""
        if self._payload_writer is not None:
            self._payload_writer.output_size += sent_bytes

    def abort(self) -> None:
        """Cut the client's connection: it must not see a clean end.

        An HTTP/1.0 client takes even a closed connection for one, hence the reset.
        """
        self.cut = True
        framed = hdrs.CONTENT_LENGTH in self.headers or hdrs.TRANSFER_ENCODING in self.headers
        cut(self._req.transport if self._req is not None else None, reset=not framed)


class SwitchedAnswer(PassedAnswer):
    """A 101: the connection speaks `protocol` from here on."""

    def __init__(self, reason: str, fields: Fields, protocol: str) -> None:
        super().__init__(101, reason, fields, None)
        self._protocol = protocol

    async def _prepare_headers(self) -> None:
        self._keep_alive = False
        self.headers[hdrs.CONNECTION] = "Upgrade"
        self.headers[hdrs.UPGRADE] = self._protocol
