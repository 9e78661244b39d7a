"""Handles a connection to a provider: sends a request, reads its response, and decides whether to keep the connection.

    1. The owner gives the connection to an exchange. The exchange sends the head and a small body in one write.
    2. The head of the response becomes a ProviderResponse. If its body is not read, the connection stops receiving.
    3. When request and response have ended, the connection goes back to its owner, or is closed.

This module never sends a request twice. It closes the connection if the provider sends bytes without a request (RFC
9112 §9.2)."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, cast

from gateway.egress.egress_errors import EgressError
from gateway.egress.provider_exchange import (
    Body,
    ConnectionLost,
    Owner,
    ProviderResponse,
    ResponseReader,
    ResponseReceiver,
    ResponseSink,
    UploadListener,
)
from gateway.egress.tls import closed_cleanly, decrypt_rest
from gateway.egress.write_batch import WriteBatch
from gateway.http.abort import LINGER_RESET
from gateway.http.response_head import HeadTooLarge, MalformedMessage, ResponseHead
from gateway.part_by_part import PART_BYTES, IncrementalFeeder, is_slow_to_parse

# ── Sends a request's body with the declared framing, as fast as the provider reads the body.


class BodyLengthMismatch(Exception):
    """The body's length differs from the declared length."""


class RequestUpload:
    """Writes `head` and then `body` to the transport.

    The head is sent together with the first piece of the body if this piece has arrived, otherwise immediately. `done`:
    called at the end, with the fault or None; not called after `stop`. `paused`: whether the transport takes no bytes
    at first.
    """

    __slots__ = ("_body", "_done", "_drain_waiter", "_head", "_paused", "_task", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        body: Body,
        head: bytes,
        done: Callable[[Exception | None], None],
        *,
        paused: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._body = body
        self._head = head
        self._done = done
        self._paused = paused
        self._drain_waiter: asyncio.Future[None] | None = None
        self._task = loop.create_task(self._send())
        self._task.add_done_callback(self._on_task_done)
        loop.call_soon(self._flush)  # runs after the task's first step

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)

    def stop(self) -> None:
        self._head = b""
        self._task.cancel()

    async def _send(self) -> None:
        sent_bytes, length = 0, self._body.length
        async for piece in self._body.pieces:
            if not piece:
                continue
            sent_bytes += len(piece)
            if length is None:
                self._write(b"%x\r\n" % len(piece), piece, b"\r\n")
            elif sent_bytes > length:
                raise BodyLengthMismatch
            else:
                self._write(piece)
            if self._paused:
                await self._drain()
        if length is None:
            self._write(b"0\r\n\r\n")
        elif sent_bytes != length:
            raise BodyLengthMismatch

    def _write(self, *parts: bytes) -> None:
        """Write the parts together with the head, if it is not sent yet.

        Not with ``writelines``: asyncio's version does not pause the upload before Python 3.12.9 and 3.13.2
        (CVE-2024-12254).
        """
        head, self._head = self._head, b""
        self._transport.write(b"".join((head, *parts)) if head or len(parts) > 1 else parts[0])

    def _flush(self) -> None:
        if self._head:
            self._write()

    async def _drain(self) -> None:
        self._drain_waiter = asyncio.get_running_loop().create_future()
        try:
            await self._drain_waiter
        finally:
            self._drain_waiter = None

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            fault = task.exception()
            self._done(fault if fault is None or isinstance(fault, Exception) else BodyLengthMismatch())


class PushedUpload:
    """A body that its sender writes piece by piece, already framed.

    `listener`: its `pause_upload` is called when the provider takes no more bytes. The connection serves no other
    request before `end` is called. After `stop`, no bytes are written and `listener` is not called."""

    __slots__ = ("_connection", "_listener", "paused")

    def __init__(self, connection: "ProviderConnection", listener: UploadListener) -> None:
        self._connection: ProviderConnection | None = connection
        self._listener: UploadListener | None = listener
        self.paused = False

    def write(self, piece: bytes) -> None:
        connection = self._connection
        if connection is not None and not connection.transport.is_closing():
            connection.transport.write(piece)

    def end(self) -> None:
        """Mark the body as completely written."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.upload_ended(None)

    def pause(self) -> None:
        self.paused = True
        if self._listener is not None:
            self._listener.pause_upload()

    def resume(self) -> None:
        self.paused = False
        if self._listener is not None:
            self._listener.resume_upload()

    def stop(self) -> None:
        self._connection = self._listener = None

    def stop_notifying(self) -> None:
        """Stop calling the listener. The body stays incomplete, so the connection serves no other request."""
        self._listener = None


MAX_UNREAD_BYTES: Final = 256 * 1024
MAX_EARLY_BYTES: Final = 64 * 1024  # maximum part of a response that is read after the connection has ended
_IDLE, _QUEUED, _SENT, _RESPONDED, _SWITCHED, _DEAD = range(6)


class ProviderConnection(asyncio.Protocol):
    """A connection to a provider.

    `idle_until`: until when the connection may stay idle; the owner sets and reads it. `served`: number of completed
    exchanges.
    """

    def __init__(self, origin: str, owner: Owner | None = None) -> None:
        self.owner = owner
        self.idle_until = 0.0
        self.served = 0
        self._origin = origin
        self._transport: asyncio.Transport | None = None
        self._stage = _IDLE
        self._waiter: asyncio.Future[ProviderResponse] | None = None
        self._receiver: ResponseReceiver | None = None  # replaces the waiter for fast path requests
        self._response: ProviderResponse | None = None  # the response being received, if no other sink receives it
        self._sink: ResponseSink | None = None
        self._new_response: ProviderResponse | None = None  # a response whose head has just arrived
        self._head_is_new = False  # a head has just arrived, and the waiting exchange does not have it yet
        self._upload: RequestUpload | PushedUpload | None = None
        self._streams_body = False  # whether the body of the present request is written piece by piece
        self._spare_descriptor: int | None = None  # of the socket, while a body is written over TLS
        self._response_reader = ResponseReader(self)
        self._bytes_after_switch = b""
        self._keep_s: float | None = None
        self._reading_paused = self._writing_paused = False
        self._parts: IncrementalFeeder | None = None  # splits input that is expensive to parse

    @property
    def peer(self) -> str | None:
        """The IP address of the provider or, if there is one, of the outbound proxy; None if unknown."""
        address = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple) else None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def usable(self) -> bool:
        """Whether the connection is open and idle.

        If the provider has just closed the connection, only a request would show this.
        """
        return self._stage == _IDLE and self._transport is not None and not self._transport.is_closing()

    # ── sending a request ─────────────────────────────────────────────────────────────────────────────────────────────

    async def exchange(
        self, head: bytes, body: Body | None = None, *, method: str = "", may_switch: bool = False
    ) -> ProviderResponse:
        """Send a request and wait for the response's head. Raises ConnectionLost or EgressError.

        `head`: the first bytes of the request, with the framing that fits `body`. `body`: the rest of the request; None
        if `head` is the whole request. If the caller is cancelled, the connection is closed.
        """
        self._stage = _SENT
        self._streams_body = body is not None and body.length != 0
        self._response_reader.expect(without_body=method == "HEAD", may_switch=may_switch)
        waiter: asyncio.Future[ProviderResponse] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        try:
            if body is None or body.length == 0:
                self.transport.write(head)
            else:
                self._open_spare_descriptor()
                self._upload = RequestUpload(self.transport, body, head, self.upload_ended, paused=self._writing_paused)
            return await waiter
        except BaseException:
            # Reset only while the waiter still waits. After that, the connection might already serve another request.
            if self._waiter is waiter:
                self._waiter = None
                self._reset()
            elif not waiter.cancelled() and waiter.exception() is None:
                waiter.result().close()
            raise

    def send_nowait(self, message: bytes, receiver: ResponseReceiver, write_batch: WriteBatch, *, method: str) -> None:
        """Send a whole request, together with the other messages of `write_batch`. `receiver`: gets the result.

        Unlike `exchange`, this needs no task and no future.
        """
        self._expect(receiver, method)
        write_batch.add(partial(self._send_now, message))

    def send_with_upload(
        self, message: bytes, receiver: ResponseReceiver, listener: UploadListener, *, method: str
    ) -> PushedUpload:
        """Send the first part of a request immediately. The caller writes the rest of the body to the returned upload.

        `receiver`: gets the result. `listener`: pauses and resumes the upload.
        """
        self._expect(receiver, method)
        self._streams_body = True
        self._open_spare_descriptor()
        upload = self._upload = PushedUpload(self, listener)
        upload.paused = self._writing_paused  # still paused by an earlier write: `pause_writing` is not called again
        self._send_now(message)
        return upload

    def _expect(self, receiver: ResponseReceiver, method: str) -> None:
        self._stage = _QUEUED
        self._streams_body = False
        self._response_reader.expect(without_body=method == "HEAD", may_switch=False, plain=True)
        self._receiver = receiver

    def _send_now(self, head: bytes) -> None:
        """Send the message, unless the connection is closed or closing. `connection_lost` then tells the receiver."""
        if self._stage == _QUEUED and not self.transport.is_closing():
            self._stage = _SENT
            self.transport.write(head)

    def abort(self) -> None:
        """Close the connection immediately, and drop all unsent bytes."""
        self._stage = _DEAD
        if self._upload is not None:
            self._upload.stop()
        self._close_spare_descriptor()
        if self._transport is not None:
            self._transport.abort()

    def _reset(self) -> None:
        """Close the connection immediately, and drop also the bytes that the kernel has not sent yet.

        After an ordinary close, the kernel continues to send, for minutes if the network is down. A request that was
        given up must not arrive late, because its refresh token might have been sent again meanwhile."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):  # the socket is already closed
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.abort()

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""
        if not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading after `pause_reading`."""
        if self._reading_paused:
            self._reading_paused = False
            if self._parts is None and not self.transport.is_closing():
                self.transport.resume_reading()

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to `protocol` after a 101.

        Return the transport and the bytes received after the 101. `response_ended` has already paused reading.
        """
        transport, extra = self.transport, self._bytes_after_switch
        if self._parts is not None:
            extra += self._parts.stop()
            self._parts = None
        self._stage = _DEAD
        transport.set_protocol(protocol)
        self._report_closed()
        return transport, extra

    # ── methods that the transport calls ──────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not derive from it

    def data_received(self, data: bytes) -> None:
        if self._parts is not None:
            self._parts.add(data)
        elif (
            len(data) > PART_BYTES and not self._response_reader.is_unframed_body(len(data)) and is_slow_to_parse(data)
        ):
            self._parts = IncrementalFeeder(data, self._process, self._all_parts_fed, self.transport)
        else:
            self._process(data)

    def _all_parts_fed(self) -> None:
        self._parts = None
        if not self._reading_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _process(self, data: bytes) -> None:
        if self._stage == _SENT:
            try:
                self._response_reader.feed(data)
            except MalformedMessage as fault:
                status = fault.status if isinstance(fault, HeadTooLarge) else None
                message = f"Invalid HTTP response from {self._origin}: {fault}."
                self._fail(EgressError("protocol", message, status=status))
            if self._head_is_new:
                self._deliver()
        elif self._stage == _SWITCHED:
            self._bytes_after_switch += data
        elif self._stage != _DEAD:
            self.abort()  # the bytes belong to no response
            self._report_no_response(ConnectionLost(sent=False))  # if a request is queued, it was not sent yet

    def eof_received(self) -> bool:
        if self._parts is not None:
            parts, self._parts = self._parts, None
            self._process(parts.stop())
        if self._stage == _SENT and self._response_reader.until_close and self._closed_cleanly():
            self.response_ended(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._stage == _SENT and self._streams_body:
            self._read_early_response()
        self._close_spare_descriptor()
        stage, self._stage = self._stage, _DEAD
        if self._parts is not None:
            self._parts.stop()
            self._parts = None
        if self._upload is not None:
            self._upload.stop()
        if stage == _QUEUED or (stage == _SENT and not self._response_reader.has_begun):
            self._report_no_response(ConnectionLost(sent=stage == _SENT))
        else:
            self._fail(EgressError("protocol", f"{self._origin} broke off in the middle of its response."))
        self._report_closed()

    def _read_early_response(self) -> None:
        """Read the response of a provider that responds and closes the connection before it has read the whole body.

        The next write then fails, and a failed write ends the transport, even if a response is still unread.
        """
        parts, self._parts = self._parts, None
        unread_bytes = b"" if parts is None else parts.stop()
        ssl_object = self.transport.get_extra_info("ssl_object")
        if ssl_object is None:
            unread_bytes += _read_available(self.transport.get_extra_info("socket").fileno())
        elif self._spare_descriptor is not None:
            unread_bytes += decrypt_rest(ssl_object, _read_available(self._spare_descriptor))
        if unread_bytes:
            self._process(unread_bytes)

    def _open_spare_descriptor(self) -> None:
        """With TLS, open a second descriptor of the socket, because asyncio closes the socket before it reports the end
        to this object.
        """
        if self._spare_descriptor is None and self.transport.get_extra_info("ssl_object") is not None:
            with suppress(OSError):  # no descriptor is free: an early response can then be lost
                self._spare_descriptor = os.dup(self.transport.get_extra_info("socket").fileno())

    def _close_spare_descriptor(self) -> None:
        if self._spare_descriptor is not None:
            os.close(self._spare_descriptor)
            self._spare_descriptor = None

    def pause_writing(self) -> None:
        self._writing_paused = True
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._upload is not None:
            self._upload.resume()

    # ── receiving a response ──────────────────────────────────────────────────────────────────────────────────────────

    def head_arrived(self, head: ResponseHead) -> None:
        self._keep_s = head.keep_s
        self._sink = self._receiver.sink_for(head) if self._receiver is not None else None
        if self._sink is None:
            self._sink = self._response = self._new_response = ProviderResponse(head.with_fields(), self)
        self._head_is_new = True
        if self._upload is None:
            self._close_spare_descriptor()

    def body_arrived(self, piece: bytes) -> None:
        sink = self._sink
        assert sink is not None
        sink.feed(piece)
        if sink.held_bytes > MAX_UNREAD_BYTES:
            self.pause_reading()

    def response_ended(self, extra: bytes) -> None:
        """Handle the end of the response.

        `extra`: the bytes after the response. After a 101, they belong to the new protocol. Otherwise no request asked
        for them, so the connection is not used again.
        """
        sink, response = self._sink, self._response
        assert sink is not None
        if response is not None and response.status == 101:
            self._stage, self._bytes_after_switch = _SWITCHED, extra
            self.transport.pause_reading()
            return
        sink.end()
        if extra or self._response_reader.until_close or self._parts is not None:
            self._keep_s = 0.0
        self._stage = _RESPONDED
        if self._upload is None:
            self._finish_exchange()

    def _deliver(self) -> None:
        """Give the response to the exchange that waits for it. At least the head of the response has arrived."""
        self._head_is_new = False
        response, self._new_response = self._new_response, None
        if self._receiver is not None:
            receiver, self._receiver = self._receiver, None
            receiver.on_response(response)
            return
        waiter, self._waiter = self._waiter, None
        if waiter is None or response is None:
            return
        if waiter.done():
            response.close()  # the waiting exchange has just been cancelled
        else:
            waiter.set_result(response)

    def upload_ended(self, fault: Exception | None) -> None:
        self._upload = None
        if fault is not None:
            self._fail(EgressError("protocol", f"The request to {self._origin} broke off."))
        elif self._stage == _RESPONDED:
            self._finish_exchange()
        elif self._sink is not None:  # the response has begun, and can last for hours
            self._close_spare_descriptor()

    def _finish_exchange(self) -> None:
        """Keep or close the connection, because request and response have both ended."""
        response, self._response, self._sink = self._response, None, None
        if response is not None:
            response.source = None
        self.served += 1
        if self.served == 1 and self.owner is not None:
            self.owner.first_exchange_ended(self)
        self.resume_reading()
        if self._keep_s == 0.0 or self.owner is None or self.transport.is_closing():
            self.abort()
        else:
            self._close_spare_descriptor()
            self._stage = _IDLE
            self.owner.release(self, self._keep_s)

    def _fail(self, fault: EgressError) -> None:
        """Close the connection, and raise `fault` in the exchange that waits for the head or reads the body."""
        self.abort()
        self._report_no_response(fault)
        if self._sink is not None:
            self._sink.fail(fault)
        if self._response is not None:
            self._response.source = None

    def _report_no_response(self, fault: Exception) -> None:
        """Report the fault to the receiver or the waiter, if no head has arrived. Otherwise the sink gets the fault."""
        if self._receiver is not None and not self._head_is_new:
            receiver, self._receiver = self._receiver, None
            receiver.on_failure(fault)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(fault)

    def _report_closed(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.connection_closed(self)

    def _closed_cleanly(self) -> bool:
        """Return whether the provider itself ended the response.

        With TLS, the provider must announce the end, because an attacker can close the TCP connection (RFC 9112 §9.8).
        """
        ssl_object = self.transport.get_extra_info("ssl_object")
        return ssl_object is None or closed_cleanly(ssl_object)


def _read_available(descriptor: int) -> bytes:
    """Return up to `MAX_EARLY_BYTES` bytes that have arrived on a socket."""
    received_bytes = bytearray()
    with suppress(OSError):  # no byte is left, or the provider has reset the connection
        while piece := os.read(descriptor, MAX_EARLY_BYTES - len(received_bytes)):
            received_bytes += piece
    return bytes(received_bytes)
