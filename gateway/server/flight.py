"""One plain request on its way, and its answer: bytes from the provider's connection to the caller's, as they come.

What it does not know how to do it hands to the chain: a fault, or an answer that leads to more than passing it on.
"""

from typing import TYPE_CHECKING

from gateway import clock
from gateway.egress.answer import Answer
from gateway.egress.connection import Connection
from gateway.egress.departures import Departures
from gateway.egress.errors import EgressError
from gateway.egress.gates import Outcome
from gateway.egress.parties import Lost
from gateway.forward.handed import FirstOutcome, Handed
from gateway.forward.watch import StoodStill
from gateway.server.lane_head import lane_head
from gateway.server.plan import Plan
from gateway.wire.answer_head import AnswerHead
from gateway.wire.headers import MalformedAnswer
from gateway.wire.replay import may_lead_to_more
from middleware.access_log import CUT_OFF, STOPPED

if TYPE_CHECKING:
    from gateway.server.protocol import ClientProtocol


class Flight:
    """`data`: the request as it came. `moved_at`: when a byte last went either way. `last`: the connection ends with it.

    The connection's `Taker` until the head has come, its `Sink` from then on.
    """

    __slots__ = (
        "_chunked",
        "_client",
        "_connection",
        "_data",
        "_departures",
        "_gate",
        "_head_at",
        "_left",
        "_out",
        "_over",
        "_plan",
        "_sent_at",
        "_sent_bytes",
        "_status",
        "_transport",
        "held_bytes",
        "last",
        "moved_at",
    )

    def __init__(
        self,
        client: "ClientProtocol",
        data: bytes,
        plan: Plan,
        connection: Connection,
        departures: Departures,
    ) -> None:
        assert client.transport is not None
        self._client = client
        self._transport = client.transport
        self._data = data
        self._plan = plan
        self._gate = plan.route.gate
        self._connection = connection
        self._departures = departures
        self._out: list[bytes] | None = []  # what waits to leave together with the head; None once that has left
        self._status = 0  # of the answer, once it is known and ours to pass on
        self._sent_bytes = 0
        self._chunked = False
        self._over = False
        self._left = False
        self.held_bytes = 0  # we hold nothing: `pause` reads no more
        self.last = False
        self.moved_at = self._sent_at = clock.monotonic()
        self._head_at = 0.0

    # ── the answer's head ───────────────────────────────────────────────────────────────────────────────────────────

    def sink_for(self, head: AnswerHead) -> "Flight | None":
        """This flight, if the answer is to be passed on as it is."""
        status, plan = head.status, self._plan
        if status >= 400:
            if may_lead_to_more(status, retries=plan.retries > 0):
                return None
            if status == 403:
                plan.refused(status)
        now = clock.monotonic()
        spent_s, waited_s = self._sent_at - plan.began, now - self._sent_at
        try:
            passed, self._chunked = lane_head(head, plan, spent_s, waited_s, last=self.last)
        except MalformedAnswer:
            return None
        self._head_at = self.moved_at = now
        self._status = status
        self._out = [passed]
        return self

    def _leave(self, outcome: Outcome) -> None:
        """The gate, once, whatever else goes wrong."""
        if not self._left:
            self._left = True
            self._gate.leave(outcome, probe=False)

    def answered(self, answer: Answer | None) -> None:
        self._leave("answered")
        if answer is not None:
            self._hand_over(answer)
        elif self._out is not None and not self._over:
            self._flush()

    def refused(self, fault: Exception) -> None:
        if self._over:
            return
        down = isinstance(fault, EgressError) and fault.kind in ("unreachable", "timeout")
        self._leave("failed" if down else "untold")
        self._hand_over(fault if isinstance(fault, EgressError | Lost) else Lost())

    # ── its body ────────────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, piece: bytes) -> None:
        if self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._out is not None:  # it came together with the head
            self._out.append(piece)
        else:
            self.moved_at = clock.monotonic()
            self._sent_bytes += len(piece)
            self._transport.write(piece)

    def end(self) -> None:
        if self._over:
            return
        end = b"0\r\n\r\n" if self._chunked else b""
        if self._out is not None:
            self._out.append(end)
            self._flush(whole=True)
        elif end:
            self._sent_bytes += len(end)
            self._transport.write(end)
        self._finish(self._status, None)
        self._client.landed(last=self.last)

    def fail(self, fault: EgressError) -> None:
        """The provider broke off. If the caller has seen nothing yet, the chain tells of it; else the caller is cut off."""
        if self._over:
            return
        if self._out is not None:
            self._hand_over(fault)
        else:
            self._tear()

    def _flush(self, *, whole: bool = False) -> None:
        out, self._out = self._out, None
        assert out is not None
        data = out[0] if len(out) == 1 else b"".join(out)
        self._sent_bytes = len(data)
        if whole and not self.last:
            self._client.depart_with(data, self._departures)
        else:
            self._transport.write(data)

    # ── what the caller's connection tells ──────────────────────────────────────────────────────────────────────────

    def pause(self) -> None:
        """The caller does not read as fast as the provider writes."""
        if not self._over:
            self._connection.hold_back()

    def resume(self) -> None:
        if not self._over:
            self.moved_at = clock.monotonic()
            self._connection.may_go_on()

    def announce_end(self) -> None:
        """The connection ends with this answer, unless its head has said otherwise already."""
        if not self._status:
            self.last = True

    def caller_left(self, *, stopped: bool) -> None:
        """`stopped`: we cut the caller off ourselves, because the gateway stops."""
        if self._over:
            return
        if not self._status:
            self._leave("untold")
        self._finish(*((STOPPED, "stopped") if stopped else (CUT_OFF, "client_left")))
        self._connection.abort()

    def look(self, now: float) -> None:
        """End what has stood still for too long, or has taken longer than anything may."""
        timeouts, began = self._plan.route.services.egress.timeouts, self._plan.began
        limit_s = timeouts.idle_s if self._status else timeouts.first_byte_s
        if timeouts.total_s is not None and now - began >= timeouts.total_s:
            self._stood_still(StoodStill(timeouts.total_s, total=True))
        elif self._plan.access is not None and self._plan.route.services.keys.minted.over(self._plan.access):
            self._stood_still(StoodStill(now - began, total=True))  # the chain, if it is asked, says why
        elif now - self.moved_at >= limit_s:
            self._stood_still(StoodStill(limit_s))

    def _stood_still(self, fault: StoodStill) -> None:
        if self._status and self._out is None:
            self._tear()
        else:
            if not self._status:
                self._leave("untold" if fault.total else "failed")
            self._hand_over(fault)
        self._connection.abort()

    # ── its end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tear(self) -> None:
        self._finish(self._status, "cut")
        self._client.torn()

    def _hand_over(self, outcome: FirstOutcome) -> None:
        self._ended()
        self._client.overtake(self._data, Handed(outcome, clock.monotonic() - self._plan.began, self._plan.opened))

    def _finish(self, status: int, error: str | None) -> None:
        self._ended()
        self._plan.note(status, error, self._sent_bytes, self._sent_at, self._head_at)

    def _ended(self) -> None:
        if not self._over:
            self._over = True
            self._departures.aboard -= 1
