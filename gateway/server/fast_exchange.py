"""Sends a request on the fast path to the provider, and passes the response on to the caller without delay.

If a fault occurs, or if a response needs more than to be passed on (a retry, for example), the middleware chain takes
over the request.
"""

from typing import ClassVar, Final, Protocol

from gateway import clock
from gateway.config import ClientLimitsConfig
from gateway.egress.client import closed_without_response, replaceable
from gateway.egress.egress_errors import EgressError
from gateway.egress.limits import Outcome
from gateway.egress.provider_connection import ProviderConnection, PushedUpload
from gateway.egress.provider_exchange import ConnectionLost, ProviderResponse
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError
from gateway.http.content_coding import CodingError
from gateway.http.headers import MalformedResponse
from gateway.http.response_head import MalformedMessage, ResponseHead
from gateway.http.retry import allows_another_attempt
from gateway.http.scope_challenge import refused_scopes
from gateway.middleware.access_log import unfinished_result
from gateway.middleware.response_shape import broken_body_error
from gateway.proxy.attempts import FastPathHandover, FirstOutcome
from gateway.proxy.caller_body import KEPT_BYTES, too_slow
from gateway.proxy.exchange_watch import ExchangeTimeout
from gateway.proxy.passed_response import is_live
from gateway.server.fast_plan import FastPlan
from gateway.server.fast_response_head import response_head
from gateway.server.response_decoding import ResponseDecoding
from gateway.server.strict_framing import RequestBodyFraming

LINGER_S: Final = 2.0  # wait for the rest of a request's body after the response was sent
MAX_LINGER_BYTES: Final = 256 * 1024


class FastClient(Protocol):
    """The caller of an exchange, implemented in `client_protocol` and in `in_process_exchange`."""

    exchange_type: "ClassVar[type[FastExchange]]"

    def queue_piece(self, piece: bytes, write_batch: WriteBatch) -> None:
        """Send a piece of the response."""

    def response_sent(self, *, last: bool, close_requested: bool = False) -> None:
        """Called when the response has been sent.

        `last`: the response's head announced that the connection closes. `close_requested`: the request also announced
        the close and has arrived completely, so no bytes follow.
        """

    def response_broken(self) -> None:
        """Called when the response broke off. The caller must be able to see that the response is incomplete."""

    def continue_in_chain(self, data: bytes, handover: FastPathHandover) -> None:
        """Let the middleware chain continue with the request.

        `data`: the bytes of the request received so far; only its head if `handover.body_kept` is False.
        """

    def pause_upload(self) -> None:
        """Pause the request's body, because the provider takes no more bytes."""

    def resume_upload(self) -> None:
        """Continue the request's body, because the provider reads again."""


class FastExchange:
    """A request in flight.

    `moved_at`: when a byte was last sent or received, in monotonic seconds. `last`: whether the caller's connection
    closes after the response. `close_requested`: whether the request announced the close.

    The provider's connection calls an exchange as its `ResponseReceiver` until the head has arrived, then as its
    `ResponseSink`, and as its `UploadListener`. The exchange keeps the bytes of a small request, so that the middleware
    chain can start the request again.
    """

    __slots__ = (
        "_chunked",
        "_client",
        "_connection",
        "_decoding",
        "_has_ended",
        "_head_at",
        "_head_processed",
        "_kept_bytes",
        "_limit_released",
        "_lingers",
        "_origin_limits",
        "_plan",
        "_received_before_response",
        "_request_pieces",
        "_response_complete",
        "_sent_at",
        "_sent_bytes",
        "_status",
        "_unsent",
        "_upload",
        "_waited_s",
        "_write_batch",
        "close_requested",
        "held_bytes",
        "last",
        "moved_at",
    )

    def __init__(
        self,
        client: FastClient,
        head: bytes,
        body: bytes,
        plan: FastPlan,
        connection: ProviderConnection,
        write_batch: WriteBatch,
    ) -> None:
        """`head`, `body`: the bytes of the request received so far. `plan`: the decisions about the request."""
        self._client = client
        self._request_pieces: list[bytes] = [head, body] if body else [head]
        self._kept_bytes = len(body)
        self._plan = plan
        self._origin_limits = plan.route.origin_limits
        self._connection = connection
        self._write_batch = write_batch
        self._upload: PushedUpload | None = None
        self._decoding: ResponseDecoding | None = None
        self._unsent: list[bytes] | None = []  # bytes to send together with the head; None after the head was sent
        self._status = 0  # status of the response; 0 until it is certain that the fast path passes the response on
        self._sent_bytes = 0
        self._chunked = False
        self._response_complete = False  # the whole response has arrived
        self._head_processed = False  # all bytes that arrived together with the head have been processed
        self._has_ended = False
        self._limit_released = False  # the concurrency limit has been released
        self._lingers = False  # the response has been sent, and the rest of the request's body has not arrived yet
        # bytes of the request's body that had been received when the response was sent
        self._received_before_response = 0
        self._waited_s = 0.0  # seconds spent waiting for the caller's bytes
        self.held_bytes = 0  # received bytes of a compressed response that are not decoded yet
        self.last = self.close_requested = False
        self.moved_at = self._sent_at = clock.monotonic()
        self._head_at = 0.0

    def begin(self, message: bytes) -> None:
        """Send `message` to the provider: the outgoing head, and the part of the body that has arrived."""
        plan = self._plan
        method = plan.method
        if plan.body is not None and not plan.body.ended:
            if self._kept_bytes > KEPT_BYTES:
                del self._request_pieces[1:]
            self._upload = self._connection.send_with_upload(message, self, self, method=method)
            if self._upload.paused:  # by a write before `self._upload` was set, so `pause_upload` had no effect
                self._client.pause_upload()
        else:
            self._connection.send_nowait(message, self, self._write_batch, method=method)

    # ── the rest of the request ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def waits_for_caller(self) -> bool:
        """Whether the caller's next bytes belong to this request."""
        return self._plan.waits_for_caller

    @property
    def _is_request_kept(self) -> bool:
        return self._kept_bytes <= KEPT_BYTES

    def is_unframed_body(self, size: int) -> bool:
        """Return whether the next `size` bytes are part of the request's body and have no framing."""
        body = self._plan.body
        return body is not None and (body.left_bytes or 0) >= size

    def feed_request(self, data: bytes) -> bytes:
        """Send the next bytes of the body to the provider; return the bytes that follow the body."""
        body = self._plan.body
        assert body is not None
        try:
            piece, rest = body.feed(data)
        except MalformedMessage:
            self._break_body()
            return b""
        now = clock.monotonic()
        self._waited_s += now - self.moved_at
        self.moved_at = now
        self._keep(data[: len(data) - len(rest)] if rest else data)
        upload = self._upload
        if upload is not None:
            if piece:
                upload.write(piece)
            if body.ended:
                self._upload = None
                upload.end()
                self._client.resume_upload()
        if self._lingers:
            self._continue_lingering(body, body.received - self._received_before_response)
        elif not body.ended and (fault := too_slow(self._limits, body.received, self._waited_s)) is not None:
            self._give_up(fault)
        return rest

    def _keep(self, piece: bytes) -> None:
        if not self._is_request_kept:
            return
        self._kept_bytes += len(piece)
        self._request_pieces.append(piece)
        if self._kept_bytes > KEPT_BYTES:
            del self._request_pieces[1:]

    @property
    def _limits(self) -> ClientLimitsConfig:
        return self._plan.route.generation.config.server.limits

    def pause_upload(self) -> None:
        """Pause the caller, because the provider reads more slowly than the caller writes."""
        if self._upload is not None:
            self._client.pause_upload()

    def resume_upload(self) -> None:
        self.moved_at = clock.monotonic()
        self._client.resume_upload()

    def _break_body(self) -> None:
        """End the request because its body's framing is broken. The provider must see that the body is incomplete."""
        if self._lingers:
            self._end_lingering()
        else:
            self._kept_bytes = KEPT_BYTES + 1
            self._give_up(broken_body_error())

    def _give_up(self, fault: GatewayError) -> None:
        """End the request because of a fault of the caller."""
        if self._status and self._unsent is None:
            self._cut_response()
        else:
            if not self._status:
                self._release_limit("unknown")
            self._hand_over(fault)
        self._abort()

    def _continue_lingering(self, body: RequestBodyFraming, received_bytes: int) -> None:
        """Wait for the rest of the request's body, unless more than `MAX_LINGER_BYTES` are missing.

        `received_bytes`: bytes of the body received after the response was sent.
        """
        if body.ended:
            self._lingers = False
            self._client.response_sent(last=self.last, close_requested=self.close_requested)
        elif received_bytes + (body.left_bytes or 0) > MAX_LINGER_BYTES:
            self._end_lingering()

    def _end_lingering(self) -> None:
        self._lingers = False
        self._abort()
        self._client.response_sent(last=True)

    # ── the response's head ─────────────────────────────────────────────────────────────────────────────────────────

    def sink_for(self, head: ResponseHead) -> "FastExchange | None":
        """Return this exchange if it can pass the response on; None if the middleware chain must handle the
        response."""
        status, plan = head.status, self._plan
        if status >= 400:
            if allows_another_attempt(status, retries=plan.options.retries > 0):
                return None
            if status == 403:
                if refused_scopes(status, head.with_fields().fields) is not None:
                    return None  # the middleware chain adds a link to grant the scopes
                plan.record_refusal(status)
        now = clock.monotonic()
        try:
            decoder = plan.decoder_for(head) if plan.decodes else None
            passed = self._head_for_client(head, now, decoded=decoder is not None)
        except MalformedResponse:
            return None
        if decoder is not None:
            self._decoding = ResponseDecoding(decoder, self, self._connection, live=is_live(head.with_fields().fields))
        self._head_at = self.moved_at = now
        self._status = status
        self._unsent = [passed]
        return self

    def _head_for_client(self, head: ResponseHead, now: float, *, decoded: bool) -> bytes:
        """Return the bytes of the head for the caller. Raises MalformedResponse."""
        spent_s, waited_s = self._sent_at - self._plan.began, now - self._sent_at
        passed, self._chunked = response_head(head, self._plan, spent_s, waited_s, last=self.last, decoded=decoded)
        return passed

    def _release_limit(self, outcome: Outcome) -> None:
        """Release the concurrency limit, exactly once."""
        if not self._limit_released:
            self._limit_released = True
            self._origin_limits.release(outcome, probe=False)

    def on_response(self, response: ProviderResponse | None) -> None:
        self._release_limit("responded")
        self._head_processed = True
        if response is not None:
            self._hand_over(response)
        elif self._unsent is not None and not self._has_ended and (self._decoding is None or self._decoding.may_begin):
            self._flush()

    def on_failure(self, fault: Exception) -> None:
        if self._has_ended:
            return
        plan = self._plan
        if isinstance(fault, ConnectionLost) and not self._may_replace(fault):
            fault = closed_without_response(plan.route.pool.origin)
        provider_failed = isinstance(fault, EgressError) and fault.is_provider_failure
        self._release_limit("failed" if provider_failed else "unknown")
        self._hand_over(fault if isinstance(fault, EgressError | ConnectionLost) else ConnectionLost())

    def _may_replace(self, fault: ConnectionLost) -> bool:
        """Return whether the middleware chain may send the request on another connection."""
        if fault.sent:
            return replaceable(self._plan.method, has_body=self._plan.body is not None)
        return self._is_request_kept

    # ── the response's body ───────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, piece: bytes) -> None:
        if self._decoding is not None:
            self._decoding.feed(piece)
        else:
            self.pass_on(piece)

    def pass_on(self, piece: bytes) -> None:
        """Pass a piece of the body on to the caller, as a chunk if the response is chunked."""
        if self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._unsent is not None:  # the piece arrived together with the head
            self._unsent.append(piece)
        else:
            self.moved_at = clock.monotonic()
            self._sent_bytes += len(piece)
            self._client.queue_piece(piece, self._write_batch)

    def on_all_decoded(self) -> None:
        """Send the head now, because all bytes received so far are decoded."""
        if self._head_processed and self._unsent is not None and not self._has_ended:
            self._flush()

    def end(self) -> None:
        if self._has_ended:
            return
        self._response_complete = True
        if self._decoding is not None:
            self._decoding.end()
        else:
            self.end_response()

    def end_response(self) -> None:
        """End the response after its whole body has been passed on."""
        if self._has_ended:
            return
        last_chunk = b"0\r\n\r\n" if self._chunked else b""
        body = self._plan.body
        body_incomplete = body is not None and not body.ended
        if self._unsent is not None:
            self._unsent.append(last_chunk)
            self._flush()
        elif last_chunk:
            self._sent_bytes += len(last_chunk)
            self._client.queue_piece(last_chunk, self._write_batch)
        self._finish(self._status, None)
        if not body_incomplete:
            self._client.response_sent(last=self.last, close_requested=self.close_requested)
            return
        self._lingers = True
        self.moved_at = clock.monotonic()
        assert self._plan.body is not None
        self._received_before_response = self._plan.body.received
        self._continue_lingering(self._plan.body, 0)

    def fail(self, fault: Exception) -> None:
        """Handle a response that broke off.

        Hand the request over to the middleware chain if nothing has been sent; otherwise close the caller's connection.
        """
        if self._has_ended:
            return
        if self._unsent is not None:
            self._hand_over(fault if isinstance(fault, EgressError | CodingError) else ConnectionLost())
        else:
            self._cut_response()

    def _flush(self) -> None:
        pieces, self._unsent = self._unsent, None
        assert pieces is not None
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._sent_bytes = len(data)
        self._client.queue_piece(data, self._write_batch)

    # ── methods that the caller's connection calls ────────────────────────────────────────────────────────────────────

    def pause(self) -> None:
        """Pause the provider, because the caller reads more slowly than the provider writes."""
        if not self._has_ended:
            if not self._response_complete:
                self._connection.pause_reading()
            if self._decoding is not None:
                self._decoding.paused = True

    def resume(self) -> None:
        if not self._has_ended:
            self.moved_at = clock.monotonic()
            if self._decoding is not None:
                self._decoding.resume()
            elif not self._response_complete:
                self._connection.resume_reading()

    def announce_close(self) -> None:
        """Announce in this response that the connection closes, unless the head is composed already."""
        if not self._status:
            self.last = True

    def caller_left(self, *, stopped: bool) -> None:
        """End the exchange, because the caller's connection is closed.

        `stopped`: whether the gateway closed the connection, because the gateway stops.
        """
        if self._lingers:
            self._lingers = False
            self._abort()
        if self._has_ended:
            return
        if not self._status:
            self._release_limit("unknown")
        self._finish(*unfinished_result(stopped=stopped))
        self._abort()

    def enforce_time_limits(self, now: float) -> None:
        """End the exchange if it has been idle for too long, took too long, or if its key is no longer valid."""
        plan, route = self._plan, self._plan.route
        timeouts, began_at = route.generation.egress.timeouts, plan.began
        if self._lingers:
            if now - self.moved_at >= LINGER_S:
                self._end_lingering()
            return
        waits_for_caller = plan.waits_for_caller and self._upload is not None and not self._upload.paused
        limit_s = timeouts.idle_s if self._status else plan.first_byte_s()
        if waits_for_caller:
            limit_s = self._limits.body_idle_s
        if timeouts.total_s is not None and now - began_at >= timeouts.total_s:
            self._time_out(ExchangeTimeout(timeouts.total_s, total=True))
        elif plan.access is not None and route.runtime.minted.has_ended(plan.access):
            # The middleware chain checks the key again, and reports why the key has ended.
            self._time_out(ExchangeTimeout(now - began_at, total=True))
        elif now - self.moved_at >= limit_s:
            self._time_out(ExchangeTimeout(limit_s), waits_for_caller=waits_for_caller)

    def _time_out(self, fault: ExchangeTimeout, *, waits_for_caller: bool = False) -> None:
        if self._status and self._unsent is None:
            self._cut_response()
        else:
            if not self._status:
                self._release_limit(
                    fault.outcome(self._plan.route.generation.egress.timeouts, waits_for_caller=waits_for_caller)
                )
            self._hand_over(fault, waits_for_caller=waits_for_caller)
        self._abort()

    # ── the end of the exchange ───────────────────────────────────────────────────────────────────────────────────────

    def _cut_response(self) -> None:
        self._finish(self._status, "cut")
        self._client.response_broken()
        self._abort()

    def _hand_over(self, outcome: FirstOutcome, *, waits_for_caller: bool = False) -> None:
        self._mark_ended()
        plan = self._plan
        if self._upload is not None:
            self._upload.stop_notifying()
            self._upload = None
        is_kept = self._is_request_kept
        handover = FastPathHandover(
            outcome,
            clock.monotonic() - plan.began,
            plan.opened,
            plan.route.generation,
            body_kept=is_kept,
            received=0 if plan.body is None else plan.body.received,
            waits_for_caller=waits_for_caller,
            rate_state=plan.rate_state,
            record_end=self._record_end,
            trace=plan.trace,
        )
        self._client.continue_in_chain(b"".join(self._request_pieces) if is_kept else self._request_pieces[0], handover)

    def _record_end(self, status: int, error: str) -> None:
        self._plan.record(status, error, 0, self._sent_at, self._head_at)

    def _finish(self, status: int, error: str | None) -> None:
        self._mark_ended()
        trace = self._plan.trace
        if trace is not None:
            trace.attempts[0].end(status=self._status or None, peer=self._connection.peer)
        self._plan.record(status, error, self._sent_bytes, self._sent_at, self._head_at)

    def _mark_ended(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._write_batch.in_flight -= 1
            if self._decoding is not None:
                self._decoding.stop()

    def _abort(self) -> None:
        """Close the provider's connection, unless the exchange is complete.

        After a complete exchange, the connection might already serve another request.
        """
        if not self._response_complete or self._upload is not None:
            self._connection.abort()
