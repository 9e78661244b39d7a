"""One plain request on the fast path: what was decided, its bytes on their way, its answer's head, its record.

One plain request on its way, and its answer: bytes from the provider's connection to the caller's, as they come.

What it does not know how to do it hands to the chain: a fault, or an answer that leads to more than passing it on.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11
from aiohttp.helpers import rfc822_formatted_time

from gateway import clock
from gateway.access.caller import Access
from gateway.connections.opened import Opened
from gateway.egress.egress_errors import EgressError
from gateway.egress.limits import Gate, Outcome
from gateway.egress.pool import Pool
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.provider_exchange import ConnectionLost, ProviderAnswer
from gateway.egress.write_batch import WriteBatch
from gateway.generation import Generation
from gateway.http.added_fields import SERVER_TIMING, guarded, server_timing
from gateway.http.answer_head import AnswerHead
from gateway.http.fields import Fields
from gateway.http.headers import MalformedAnswer
from gateway.http.passed_head import PlainHead, framing, head_bytes, printable
from gateway.http.retry import may_lead_to_more
from gateway.middleware.access_log import CUT_OFF, STOPPED, path_below
from gateway.middleware.capability import REFERRER_POLICY
from gateway.middleware.request_id import HEADER, new_id
from gateway.proxy.attempts import FirstOutcome, Handed
from gateway.proxy.exchange_watch import StoodStill
from gateway.proxy.passed_answer import ATTEMPTS, UNBUFFERED, is_live, passed_fields, unreferred_fields
from gateway.records.proxied_call import ExchangeRecord
from gateway.runtime import Runtime

if TYPE_CHECKING:
    from gateway.server.client_protocol import ClientProtocol

# ── What was decided about a request on the fast lane before it left, and the record of it once it is over.

MOUNT: Final = "/proxy"


@dataclass(slots=True)
class FastRoute:
    """The way of all plain requests with the same header lines over one opened connection, which keeps it.

    `lines`: everything behind the request line, with the credential in its place.
    """

    runtime: Runtime
    generation: Generation
    gate: Gate
    pool: Pool
    lines: bytes
    in_query: bool


@dataclass(slots=True)
class FastPlan:
    """`began`: monotonic seconds. `request_id`: the caller's name for it, if fit. `retries`: as the caller asks. `mount`:
    ``/proxy``, or the capability's address that it was asked below. `access`: of a minted key.
    """

    began: float
    route: FastRoute
    request_id: str | None
    opened: Opened
    method: str
    target: str
    retries: int
    mount: str = field(default=MOUNT, repr=False)
    access: Access | None = None

    def refused(self, status: int) -> None:
        """The provider refuses the credential, or what is asked with it."""
        path = self.target.partition("?")[0]
        self.route.runtime.live.rejections.refused(self.opened, status, path)

    def note(self, status: int, error: str | None, bytes_out: int, sent_at: float, head_at: float) -> None:
        """It is over; `sent_at` and `head_at`: when it left, and when the answer's head was there, 0.0 if none was."""
        now, began = clock.monotonic(), self.began
        ref, base = self.opened.connection.ref, self.opened.base
        self.route.gate.budget.requests += 1
        # By position, which costs a third of what names do.
        self.route.runtime.request_log.note(
            ExchangeRecord(
                clock.now(),
                self.request_id or new_id(),
                ref.environment,
                ref.integration_id,
                ref.connection_id,
                self.method,
                base.host,
                path_below(base.path, self.target),
                status,
                round((now - began) * 1000, 3),
                0,
                bytes_out,
                error,
                (sent_at - began) * 1000,
                0.0,
                ((head_at or now) - sent_at) * 1000,
            )
        )


# ── The head of an answer on the fast lane, as the caller gets it: the same as `proxy.passed_answer` makes of it.

_OWN: Final = f"{HEADER}: %s\r\n{ATTEMPTS}: 1\r\n{SERVER_TIMING}: %s"
_UNREFERRED: Final = ": ".join(REFERRER_POLICY).encode()


def lane_head(
    head: AnswerHead, plan: FastPlan, gateway_s: float, upstream_s: float, *, last: bool
) -> tuple[bytes, bool]:
    """Its bytes, and whether the body is to be sent chunked. Raises MalformedAnswer.

    `plan` learns its `request_id`. `gateway_s`, `upstream_s`: where the time went; `last`: the connection ends with it.
    """
    name = plan.request_id = plan.request_id or new_id()
    timing = server_timing(gateway_s * 1000, 0.0, upstream_s * 1000)
    if isinstance(head, PlainHead):
        if plan.mount != MOUNT:
            head.lines = [line for line in head.lines if line[:16].lower() != b"referrer-policy:"] + [_UNREFERRED]
        return _of_lines(head, plan.method, _OWN % (name, timing), by_headers=plan.mount == MOUNT, last=last)
    opened = plan.opened
    shown_at = plan.route.generation.public_url + plan.mount
    fields = passed_fields(head.fields, opened.base, opened, shown_at)
    if plan.mount != MOUNT:
        fields = unreferred_fields(fields)
    fields = guarded(fields, by_headers=plan.mount == MOUNT)
    if is_live(head.fields):
        fields.append(UNBUFFERED)
    fields += [(HEADER, name), (ATTEMPTS, "1"), (SERVER_TIMING, timing)]
    frame = framing(plan.method, HttpVersion11, head.status, head.length, keep_alive=not last)
    fields += frame.fields
    if not any(len(name) == 4 and name.lower() == "date" for name, _ in fields):
        fields.append(_date())
    return head_bytes(HttpVersion11, head.status, printable(head.reason), fields), frame.chunked


def _of_lines(head: PlainHead, method: str, own: str, *, by_headers: bool, last: bool) -> tuple[bytes, bool]:
    lines = [head.start, *head.lines, _added(head.media_type, head.vary, by_headers)]
    if head.length is not None and not last and method == "GET" and head.status not in (204, 304):
        own, chunked = f"{own}\r\nContent-Length: {head.length}", False  # as nearly always
    else:
        frame = framing(method, HttpVersion11, head.status, head.length, keep_alive=not last)
        own, chunked = _with(own, frame.fields), frame.chunked
    if not head.dated:
        own = _with(own, [_date()])
    lines += (own.encode(), b"\r\n")
    return b"\r\n".join(lines), chunked


def _with(own: str, fields: Fields) -> str:
    return own + "".join(f"\r\n{name}: {value}" for name, value in fields)


def _date() -> tuple[str, str]:
    return "Date", rfc822_formatted_time()


@lru_cache(maxsize=256)
def _added(media_type: bytes, vary: bytes, by_headers: bool) -> bytes:
    """The lines behind those of an answer with these lines ``Content-Type`` and ``Vary``, each empty where it has none."""
    fields = guarded([_field(vary)] if vary else [], by_headers=by_headers)
    if media_type and is_live([_field(media_type)]):
        fields = [*fields, UNBUFFERED]
    return "\r\n".join(f"{name}: {value}" for name, value in fields).encode("utf-8", "surrogateescape")


def _field(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("utf-8", "surrogateescape").partition(": ")
    return name, value


class FastExchange:
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
        plan: FastPlan,
        connection: ProviderConnection,
        departures: WriteBatch,
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

    def sink_for(self, head: AnswerHead) -> "FastExchange | None":
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

    def answered(self, answer: ProviderAnswer | None) -> None:
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
        self._hand_over(fault if isinstance(fault, EgressError | ConnectionLost) else ConnectionLost())

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
        timeouts, began = self._plan.route.generation.egress.timeouts, self._plan.began
        limit_s = timeouts.idle_s if self._status else timeouts.first_byte_s
        if timeouts.total_s is not None and now - began >= timeouts.total_s:
            self._stood_still(StoodStill(timeouts.total_s, total=True))
        elif self._plan.access is not None and self._plan.route.runtime.minted.over(self._plan.access):
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
