"""One connection to a provider: a request out, its answer in, and whether another one may follow.

    lend ▸ ask ─ head, and a small body with it, in one write ─▶ provider
                 answer head ▸ Answer ◂ body, as its framing says; reading pauses while nobody takes it
                 both ended cleanly ▸ back to its owner, or closed

Nothing is ever sent twice here, and what comes unasked ends the connection (RFC 9112 §9.2).
"""

import asyncio
from typing import Final, Protocol, cast

from gateway.egress.answer import Answer
from gateway.egress.errors import EgressError
from gateway.egress.exchange import Body
from gateway.egress.upload import Upload
from gateway.wire.answer_head import HEAD_BYTES, AnswerHead, Malformed, parse_head
from gateway.wire.chunks import Chunks

HELD_HIGH_BYTES: Final = 256 * 1024
INTERIM_ANSWERS: Final = 32
_BODILESS: Final = frozenset({204, 304})
_IDLE, _HEAD, _COUNTED, _CHUNKED, _UNTIL_CLOSE, _ANSWERED, _SWITCHED, _DEAD = range(8)


class Owner(Protocol):
    """Whoever keeps the connection between two requests."""

    def take_back(self, connection: "Connection", keep_s: float | None) -> None:
        """It is free for the next request; `keep_s` is what the provider said of how long, if anything."""

    def met(self, connection: "Connection") -> None:
        """Its first answer has ended."""

    def lost(self, connection: "Connection") -> None:
        """It is closed."""


class Lost(Exception):
    """The connection ended before the first byte of an answer."""


class Connection(asyncio.Protocol):
    """`idle_until` is its owner's. `served` counts the answers that have ended on it."""

    def __init__(self, origin: str, owner: Owner | None = None) -> None:
        self.owner = owner
        self.idle_until = 0.0
        self.served = 0
        self._origin = origin
        self._transport: asyncio.Transport | None = None
        self._stage = _IDLE
        self._waiter: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = None
        self._upload: Upload | None = None
        self._without_body = self._may_switch = False
        self._heard = False
        self._held = b""
        self._interim = 0
        self._left = 0
        self._chunks: Chunks | None = None
        self._keep_s: float | None = None
        self._reading_paused = self._writing_paused = False

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def usable(self) -> bool:
        """Idle, as far as anyone can tell without asking."""
        return self._stage == _IDLE and self._transport is not None and not self._transport.is_closing()

    # ── a request ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, head: bytes, body: Body | None = None, *, method: str = "", may_switch: bool = False) -> Answer:
        """Send and wait for the answer's head. Raises Lost or EgressError.

        `head` holds the framing that fits `body`. A cancellation takes the connection along.
        """
        self._stage = _HEAD
        self._heard, self._interim, self._keep_s = False, 0, None
        self._without_body = method == "HEAD"
        self._may_switch = may_switch
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        try:
            if body is None or body.length == 0:
                self.transport.write(head)
            else:
                self._upload = Upload(self.transport, body, head, self._uploaded, paused=self._writing_paused)
            return await waiter
        except BaseException:
            # Once the waiter is answered, the connection may serve somebody else already.
            if self._waiter is waiter:
                self._waiter = None
                self.abort()
            elif not waiter.cancelled() and waiter.exception() is None:
                waiter.result().close()
            raise

    def abort(self) -> None:
        """Drop it at once, with all that is still unsent."""
        self._stage = _DEAD
        if self._upload is not None:
            self._upload.stop()
        if self._transport is not None:
            self._transport.abort()

    def may_go_on(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        transport, held = self.transport, self._held
        self._held = b""
        self._stage = _DEAD
        transport.set_protocol(protocol)
        self._gone()
        return transport, held

    # ── what the transport tells ────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        stage = self._stage
        try:
            if stage == _COUNTED:
                self._counted(data)
            elif stage == _HEAD:
                self._heads(data)
            elif stage == _CHUNKED:
                self._unchunked(data)
            elif stage == _UNTIL_CLOSE:
                self._deliver(data)
            elif stage == _SWITCHED:
                self._held += data
            elif stage != _DEAD:
                self.abort()  # nobody asked for these bytes, and whose answer they are cannot be known
        except Malformed as fault:
            self._fail(EgressError("protocol", f"What {self._origin} answered is not clean HTTP: {fault}."))

    def eof_received(self) -> bool:
        if self._stage == _UNTIL_CLOSE and self._closed_cleanly():
            self._ended(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (how it ended makes no difference any more)
        stage, self._stage = self._stage, _DEAD
        if self._upload is not None:
            self._upload.stop()
        if stage == _HEAD and not self._heard:
            self._refuse(Lost())
        else:
            self._fail(EgressError("protocol", f"{self._origin} broke off in the middle of its answer."))
        self._gone()

    def pause_writing(self) -> None:
        self._writing_paused = True
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._upload is not None:
            self._upload.go_on()

    # ── an answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _heads(self, data: bytes) -> None:
        """Interim answers are swallowed (RFC 9110 §15.2), the final one begins the body."""
        self._heard = True
        if self._held:
            data, self._held = self._held + data, b""
        while data:
            end = data.find(b"\r\n\r\n")
            if end > HEAD_BYTES or (end < 0 and len(data) > HEAD_BYTES):
                raise Malformed(f"its head is larger than {HEAD_BYTES} bytes")
            if end < 0:
                if data.count(b"\n") != data.count(b"\r\n"):
                    raise Malformed("a line of its head does not end in CR LF")
                if not b"HTTP/1.".startswith(data[:7]):
                    raise Malformed("its first line is no status line")
                self._held = data
                return
            head = parse_head(data[:end])
            data = data[end + 4 :]
            if head.status >= 200 or head.status == 101:
                self._begin(head, data)
                return
            self._interim += 1
            if self._interim > INTERIM_ANSWERS:
                raise Malformed("it announces itself without end")

    def _begin(self, head: AnswerHead, rest: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.abort()  # whoever asked has just left
            return
        self._keep_s = head.keep_s
        self._answer = answer = Answer(head, self)
        if head.status == 101:
            self._switched(rest)
        elif self._without_body or head.status in _BODILESS or (head.length == 0 and not head.chunked):
            self._ended(rest)
        elif head.length is not None:
            self._stage, self._left = _COUNTED, head.length
            if rest:
                self._counted(rest)
        elif head.chunked:
            self._stage, self._chunks = _CHUNKED, Chunks()
            if rest:
                self._unchunked(rest)
        else:
            self._stage = _UNTIL_CLOSE
            if rest:
                self._deliver(rest)
        self._waiter = None
        waiter.set_result(answer)

    def _switched(self, rest: bytes) -> None:
        if not self._may_switch:
            raise Malformed("it switches protocols without being asked to")
        self._stage, self._held = _SWITCHED, rest
        self.transport.pause_reading()

    def _counted(self, data: bytes) -> None:
        left = self._left = self._left - len(data)
        if left > 0:
            self._deliver(data)
        elif left == 0:
            self._deliver(data)
            self._ended(b"")
        else:
            self._deliver(data[:left])
            self._ended(data[left:])

    def _unchunked(self, data: bytes) -> None:
        chunks = self._chunks
        assert chunks is not None
        if body := chunks.feed(data):
            self._deliver(body)
        if chunks.rest is not None:
            self._ended(chunks.rest)

    def _deliver(self, piece: bytes) -> None:
        answer = self._answer
        assert answer is not None
        answer.feed(piece)
        if answer.held_bytes > HELD_HIGH_BYTES and not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def _ended(self, extra: bytes) -> None:
        """The answer is whole; `extra` came behind it, and nobody knows for whom."""
        answer = self._answer
        assert answer is not None
        answer.end()
        if extra or self._stage == _UNTIL_CLOSE:
            self._keep_s = 0.0
        self._stage = _ANSWERED
        if self._upload is None:
            self._settle()

    def _uploaded(self, fault: Exception | None) -> None:
        self._upload = None
        if fault is not None:
            self._fail(EgressError("protocol", f"The request to {self._origin} broke off."))
        elif self._stage == _ANSWERED:
            self._settle()

    def _settle(self) -> None:
        """Request and answer have both ended: keep the connection, or close it."""
        answer, self._answer, self._chunks = self._answer, None, None
        if answer is not None:
            answer.source = None
        self.served += 1
        if self.served == 1 and self.owner is not None:
            self.owner.met(self)
        self.may_go_on()
        if self._keep_s == 0.0 or self.owner is None or self.transport.is_closing():
            self.abort()
        else:
            self._stage = _IDLE
            self.owner.take_back(self, self._keep_s)

    def _fail(self, fault: EgressError) -> None:
        """Whoever waits for the head, or reads the body, is told."""
        self.abort()
        self._refuse(fault)
        if self._answer is not None:
            self._answer.fail(fault)
            self._answer.source = None

    def _refuse(self, fault: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(fault)

    def _gone(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.lost(self)

    def _closed_cleanly(self) -> bool:
        """TLS must say that it ends, else anyone on the way could have cut the answer (RFC 9112 §9.8)."""
        inside = self.transport.get_extra_info("ssl_object")
        return inside is None or getattr(inside, "closed_cleanly", True)
