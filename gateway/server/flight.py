"""One plain request on its way, and its answer: bytes from the provider's connection to the caller's, as they come.

What it does not know how to do it hands to the chain: a fault, or an answer that leads to more than passing it on.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11
from aiohttp.helpers import rfc822_formatted_time

from gateway import clock
from gateway.connections.opened import Opened
from gateway.egress.answer import Answer
from gateway.egress.connection import Connection, Lost
from gateway.egress.errors import EgressError
from gateway.egress.gates import Gate, Outcome
from gateway.forward.attempts import FirstOutcome, Handed
from gateway.forward.body import is_live
from gateway.forward.head import ATTEMPTS, UNBUFFERED, passed_fields
from gateway.forward.passed import printable
from gateway.forward.watch import StoodStill
from gateway.records.exchange import Exchange
from gateway.services import Services
from gateway.wire.answer_head import AnswerHead
from gateway.wire.headers import MalformedAnswer
from gateway.wire.passed_head import framing, head_bytes
from gateway.wire.server_timing import SERVER_TIMING, server_timing
from middleware.access_log import CUT_OFF, PATH_LIMIT, STOPPED
from middleware.request_id import HEADER, new_id

if TYPE_CHECKING:
    from gateway.server.protocol import ClientProtocol


@dataclass(slots=True)
class Plan:
    """What was decided before it left. `began`: monotonic seconds. `request_id`: the caller's name for it, if fit."""

    began: float
    services: Services
    request_id: str | None
    opened: Opened
    method: bytes
    target: str


class Flight:
    """`data`: the request as it came. `moved_at`: when a byte last went either way. `last`: the connection ends with it.

    The connection's `Taker` until the head has come, its `Sink` from then on.
    """

    __slots__ = (
        "_chunked",
        "_client",
        "_connection",
        "_data",
        "_gate",
        "_head_at",
        "_left",
        "_out",
        "_over",
        "_plan",
        "_retries",
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
        gate: Gate,
        connection: Connection,
        *,
        retries: int,
    ) -> None:
        assert client.transport is not None
        self._client = client
        self._transport = client.transport
        self._data = data
        self._plan = plan
        self._gate = gate
        self._connection = connection
        self._retries = retries
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
        status = head.status
        if status == 101 or status == 401 or (status >= 400 and self._retries):
            return None
        plan = self._plan
        opened = plan.opened
        try:
            fields = passed_fields(head.fields, opened.base, opened, plan.services.config.server.public_url)
        except MalformedAnswer:
            return None
        if is_live(head.fields):
            fields.append(UNBUFFERED)
        plan.request_id = plan.request_id or new_id()
        self._head_at = self.moved_at = now = clock.monotonic()
        timing = server_timing((self._sent_at - plan.began) * 1000, 0.0, (now - self._sent_at) * 1000)
        fields += [(HEADER, plan.request_id), (ATTEMPTS, "1"), (SERVER_TIMING, timing)]
        method = "HEAD" if plan.method == b"HEAD" else "GET"
        frame = framing(method, HttpVersion11, status, head.length, keep_alive=not self.last)
        fields += frame.fields
        if not any(len(name) == 4 and name.lower() == "date" for name, _ in fields):
            fields.append(("Date", rfc822_formatted_time()))
        self._chunked = frame.chunked
        self._status = status
        self._out = [head_bytes(HttpVersion11, status, printable(head.reason), fields)]
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
        self.moved_at = clock.monotonic()
        if self._chunked:
            self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            self._write(piece)

    def end(self) -> None:
        if self._over:
            return
        if self._chunked:
            self._write(b"0\r\n\r\n")
        if self._out is not None:
            self._flush()
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

    def _write(self, data: bytes) -> None:
        if self._out is not None:
            self._out.append(data)
        else:
            self._sent_bytes += len(data)
            self._transport.write(data)

    def _flush(self) -> None:
        out, self._out = self._out, None
        assert out is not None
        data = out[0] if len(out) == 1 else b"".join(out)
        self._sent_bytes = len(data)
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
        timeouts, began = self._plan.services.egress.timeouts, self._plan.began
        limit_s = timeouts.idle_s if self._status else timeouts.first_byte_s
        if timeouts.total_s is not None and now - began >= timeouts.total_s:
            self._stood_still(StoodStill(timeouts.total_s, total=True))
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
        self._client.torn(reset=False)

    def _hand_over(self, outcome: FirstOutcome) -> None:
        self._over = True
        self._client.overtake(self._data, Handed(outcome, clock.monotonic() - self._plan.began, self._plan.opened))

    def _finish(self, status: int, error: str | None) -> None:
        self._over = True
        plan, now = self._plan, clock.monotonic()
        self._gate.budget.requests += 1
        ref, base = plan.opened.connection.ref, plan.opened.base
        plan.services.request_log.note(
            Exchange(
                at=clock.now(),
                request_id=plan.request_id or new_id(),
                environment=ref.environment,
                integration_id=ref.integration_id,
                connection_id=ref.connection_id,
                method="HEAD" if plan.method == b"HEAD" else "GET",
                host=base.host,
                path=plan.target.removeprefix(base.path).partition("?")[0][:PATH_LIMIT],
                status=status,
                duration_ms=round((now - plan.began) * 1000, 3),
                bytes_in=0,
                bytes_out=self._sent_bytes,
                error_code=error,
                gateway_ms=(self._sent_at - plan.began) * 1000,
                token_ms=0.0,
                upstream_ms=((self._head_at or now) - self._sent_at) * 1000,
            )
        )
