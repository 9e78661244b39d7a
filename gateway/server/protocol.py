"""One client connection: aiohttp's protocol, with strict heads (`reading`), our own last words (`answering`), and a way out
to the fast lane for what is plain.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from gateway.egress.answer import Answer
from gateway.egress.departures import Departures
from gateway.forward.handed import Handed
from gateway.server.answering import LINGER_S, Answering, crowded
from gateway.server.flight import Flight
from gateway.wire.cut import cut, untaken
from middleware.facts import UPSTREAM

if TYPE_CHECKING:
    from gateway.server.runner import GatewayServer

HELD_BYTES: Final = 64 * 1024
SPEAKING_TO: Final = 64  # of those that are one too many; any more are closed without a word


class ClientProtocol(Answering):
    """`stopped`: we cut it ourselves, because the server stops and could not wait any longer."""

    __slots__ = ("_due", "_flight", "_handed", "_held_back", "_turned_away", "_unread", "_unread_since", "stopped")

    def __init__(self, server: "GatewayServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._due = b""  # a whole answer from the fast lane that leaves before the loop's turn is over
        self._held_back = False  # reading is paused, because enough is held
        self._flight: Flight | None = None  # a request on the fast lane
        self._handed: Handed | None = None  # what has come of the one that the chain takes over from there
        self._turned_away = False
        self._unread = (
            0  # bytes of answers that the client had not taken at the last look, and since when it takes none
        )
        self._unread_since = 0.0
        self.stopped = False

    @property
    def idle(self) -> bool:
        return super().idle and self._flight is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.head_since = self._loop.time()
        if self._server.full:
            self._turn_away()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._turned_away:
            self._server.turned_away -= 1
        if self._flight is not None:
            self._flight.caller_left(stopped=self.stopped)
            self._flight = None
        self._discard_handed()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        self.depart()  # what follows closes the transport
        super().eof_received()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._flight is not None:
            self._flight.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._flight is not None:
            self._flight.resume()

    def announce_end(self) -> None:
        """Answers whose heads have not left yet say ``Connection: close``; they are the last."""
        if self._flight is not None:
            self._flight.announce_end()
        current = self._current_request
        if current is not None:
            current._message = current._message._replace(should_close=True)

    def look(self, now: float, *, begun_by: float) -> None:
        """About once a second, in the loop's time: end what takes too long. A head must have begun after `begun_by`."""
        if self._flight is not None:
            self._flight.look(now)
        elif self.transport is not None and (self._unread or self.transport.get_write_buffer_size()):
            self._look_at_unread(now)
        elif 0.0 < self.head_since < begun_by and self.idle:
            self.force_close()

    def _look_at_unread(self, now: float) -> None:
        """Cut a client that leaves an answer unread. A proxied one has the time limits of its exchange."""
        assert self.transport is not None
        unread = untaken(self.transport)
        current = self._current_request
        if unread != self._unread or self._upgraded or (current is not None and UPSTREAM in current):
            self._unread, self._unread_since = unread, now
        elif now - self._unread_since >= self._server.answer_idle_s:
            cut(self.transport)

    def _turn_away(self) -> None:
        """One connection too many (`server.limits.connections`): say so and close, without reading anything."""
        server = self._server
        server.count_turned_away()
        if server.turned_away >= SPEAKING_TO:
            self._deaf = True
            self.force_close()
            return
        self._turned_away = True
        server.turned_away += 1
        assert self.transport is not None
        self.head_since = 0.0
        self.transport.write(crowded())
        self._end_orderly()

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._flight is not None:
            self._hold(data)
            return
        if self._due:
            self.depart()  # before anything that this leads to
        lane = self._server.lane
        waits = self._waiter is not None or self._untouched
        if lane is not None and waits and not self._messages and self._unoccupied and data:
            self._flight = lane.take(self, data)
            if self._flight is not None:
                self.head_since = 0.0
                return
        self._read(data)

    @property
    def _unoccupied(self) -> bool:
        """Between two messages, with nothing begun, held or announced."""
        return not (
            self._held
            or self._head_bytes
            or self._deaf
            or self._upgraded
            or self._paused
            or self._close
            or self._force_close
            or self._server.draining
            or not self._body.is_eof()
        )

    # ── the fast lane ───────────────────────────────────────────────────────────────────────────────────────────────

    def depart_with(self, answer: bytes, departures: Departures) -> None:
        """Send a whole answer after which the connection stays, together with others' if it can wait for them."""
        self._due = answer
        departures.add(self.depart)

    def depart(self) -> None:
        """Send what is due, before anything that could close the connection or answer behind it."""
        due, self._due = self._due, b""
        if due and self.transport is not None and not self.transport.is_closing():
            self.transport.write(due)

    def force_close(self) -> None:
        self.depart()
        super().force_close()

    def landed(self, *, last: bool) -> None:
        """The flight's answer has left; `last`: it said that the connection ends."""
        self._flight = None
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if last:
            self._end_orderly()
            return
        if self._server.draining:
            self.head_since = self._loop.time()  # its head left before the stop: a next one may be on its way
        if self._held:
            self._unhold()

    def torn(self) -> None:
        """The flight's answer broke off: the caller must not see a clean end."""
        self._flight = None
        cut(self.transport, reset=False)  # its framing shows that it is torn

    def overtake(self, data: bytes, handed: Handed) -> None:
        """The chain goes on with the flight's request, and with what has come of it."""
        self._flight = None
        self._handed = handed
        if self._server.lane is not None:
            self._server.lane.handed_over += 1
        held, self._held = self._held, b""
        self._resume_held()  # first: aiohttp may pause it again over what comes of the rest
        self._read(data + held)

    def take_handed(self) -> Handed | None:
        """Once: for the first attempt of the request that the chain has taken over."""
        handed, self._handed = self._handed, None
        return handed

    def _discard_handed(self) -> None:
        handed = self.take_handed()
        if handed is not None and isinstance(handed.outcome, Answer):
            handed.outcome.close()

    def _hold(self, data: bytes) -> None:
        """What comes behind a request on the lane waits for its answer, and not much of it is taken."""
        self._held += data
        if len(self._held) > HELD_BYTES and self.transport is not None:
            self.transport.pause_reading()
            self._held_back = True

    def _unhold(self) -> None:
        held, self._held = self._held, b""
        self._resume_held()
        self.data_received(held)

    def _resume_held(self) -> None:
        if self._held_back and self.transport is not None:
            self._held_back = False
            self.transport.resume_reading()

    def _end_orderly(self) -> None:
        """As `_half_close`, with nobody to wait for it."""
        self._deaf = True
        self._held = b""
        self._resume_held()
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()
            self._gone = self._loop.create_future()
            self._loop.call_later(LINGER_S, self.force_close)
        else:
            self.force_close()

    def _process_keepalive(self) -> None:
        if self._flight is not None:
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        super()._process_keepalive()

    def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        self._discard_handed()
        return super().finish_response(request, resp, start_time)
