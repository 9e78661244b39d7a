"""The trace of a sampled call (W3C Trace Context), and the data of its spans.

Only sampled calls have a `CallTrace`. For all other calls, no trace data is collected and no span is exported.
"""

import random
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway import clock

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACE_FIELDS: Final = frozenset({TRACEPARENT, TRACESTATE})
"""The header fields of W3C Trace Context, in lower case."""

CAUSE: Final = "traceparent"
"""Name of a member of a stored event's facts. The member has the ``traceparent`` of the span that caused the event."""

SAMPLED: Final = 1  # the bit of the flags that marks a sampled trace
TOOL_ERROR: Final = "tool_error"  # OpenTelemetry's `error.type` for a tool result that is an error
_HEX: Final = frozenset("0123456789abcdef")
_VERSION_00_CHARS: Final = 55  # characters of a ``traceparent`` of version 00; later versions can be longer
_SPAN_BITS: Final = 64


class TraceParent(NamedTuple):
    """The parts of a ``traceparent``. `trace_id`: 32 hex digits. `span_id`: 16 hex digits. `flags`: eight bits."""

    trace_id: str
    span_id: str
    flags: int


def trace_id_in(traceparent: str | None) -> str | None:
    """Return the trace id of a ``traceparent`` (W3C Trace Context §3.2.2.3); None if it is malformed."""
    if traceparent is None or len(traceparent) < _VERSION_00_CHARS or traceparent[2] != "-" or traceparent[35] != "-":
        return None
    trace_id = traceparent[3:35]
    return trace_id if set(trace_id) <= _HEX and trace_id.strip("0") else None


def parent_in(traceparent: str | None) -> TraceParent | None:
    """Return all parts of a ``traceparent`` (W3C Trace Context §3.2). None: the text is malformed, so the caller starts
    a new trace (§4.3)."""
    trace_id = trace_id_in(traceparent)
    if trace_id is None or traceparent is None or traceparent[52] != "-":
        return None
    version, span_id, flags = traceparent[:2], traceparent[36:52], traceparent[53:55]
    if (
        version == "ff"
        or (version == "00" and len(traceparent) != _VERSION_00_CHARS)
        or traceparent[55:56] not in ("", "-")
    ):
        return None
    if not (set(version + span_id + flags) <= _HEX and span_id.strip("0")):
        return None
    return TraceParent(trace_id, span_id, int(flags, 16))


def new_span_id() -> str:
    """Return 16 hex digits, not all 0."""
    return f"{random.getrandbits(_SPAN_BITS) or 1:016x}"


@dataclass(slots=True)
class AttemptTrace:
    """One request to the provider, as the trace shows it.

    - `began`: when the request began, in monotonic seconds
    - `ended`: when the head of the response arrived or the attempt failed, in monotonic seconds; None: not ended
    - `peer`: the provider's IP address
    - `error`: why no response arrived; None: no error
    """

    host: str
    port: int
    began: float
    span_id: str
    ended: float | None = None
    status: int | None = None
    error: str | None = None
    peer: str | None = None

    def end(self, *, status: int | None = None, error: str | None = None, peer: str | None = None) -> None:
        self.ended, self.status, self.error, self.peer = clock.monotonic(), status, error, peer


@dataclass(slots=True)
class McpTrace:
    """A message of the Model Context Protocol. `tool`: name of the tool that a ``tools/call`` message calls, if the
    tool exists. `error`: a JSON-RPC code, or ``tool_error`` for an error result."""

    method: str
    revision: str
    message_id: str
    tool: str | None = None
    error: str | None = None


@dataclass(slots=True)
class CallTrace:
    """The trace of one sampled request to the gateway.

    - `parent_id`: id of the caller's span; None: the trace starts here
    - `began`: when the request began, in monotonic seconds
    - `route`: the template of the path, if known
    - `waited_for`: refreshes that another call started and for which this call waited
    - `mcp`: set for a message to the MCP endpoint
    """

    trace_id: str
    parent_id: str | None
    flags: int
    began: float
    span_id: str = field(default_factory=new_span_id)
    route: str | None = None
    attempts: list[AttemptTrace] = field(default_factory=list)
    waited_for: "list[RefreshTrace]" = field(default_factory=list)
    mcp: McpTrace | None = None

    def attempt(self, host: str, port: int, began_at: float | None = None) -> AttemptTrace:
        """Add a request to the provider, which is sent now. `began_at`: its start in monotonic seconds; None: now."""
        trace = AttemptTrace(host, port, clock.monotonic() if began_at is None else began_at, new_span_id())
        self.attempts.append(trace)
        return trace

    def traceparent(self, span_id: str | None = None) -> str:
        """Return the header value that names `span_id`, or the call's own span, as the parent."""
        return f"00-{self.trace_id}-{span_id or self.span_id}-{self.flags & 0xFF:02x}"


@dataclass(slots=True)
class RefreshTrace:
    """The trace of one refresh in this process, sampled or not.

    - `parent_call`: the sampled call that started the refresh, or else the first sampled call that waits for it
    - `began`: when the refresh was requested, in monotonic seconds
    - `left_queue_at`: when the refresh left the queue, in monotonic seconds
    - `exported`: whether the span of the refresh was created, so that other spans can link to it
    """

    parent_call: CallTrace | None
    began: float
    span_id: str = field(default_factory=new_span_id)
    left_queue_at: float | None = None
    ended: float | None = None
    exported: bool = False

    def add_waiter(self, waiting_call: CallTrace | None) -> None:
        """Record that the call `waiting_call` waits for this refresh too."""
        if waiting_call is None or waiting_call is self.parent_call:
            return
        if self.parent_call is None:
            self.parent_call = waiting_call
        else:
            waiting_call.waited_for.append(self)

    def end(self) -> None:
        """End the span. Call this method before the outcome is recorded. A second outcome of the refresh gets another
        span."""
        if self.exported:
            self.span_id = new_span_id()
        self.ended = clock.monotonic()


current_trace: ContextVar[CallTrace | None] = ContextVar("current_trace", default=None)
"""The trace of the sampled request that started the current work."""

current_refresh: ContextVar[RefreshTrace | None] = ContextVar("current_refresh", default=None)
"""The trace of the current refresh."""

current_cause: ContextVar[str | None] = ContextVar("current_cause", default=None)
"""During a write to the store: the ``traceparent`` of the span that caused the write."""


def trace_id_of(trace: CallTrace | None, traceparent: str | None) -> str | None:
    """Return the trace id of a request to the gateway; None if it has none.

    `trace`: the trace of the request; None if the request is not sampled. `traceparent`: the caller's ``traceparent``.
    """
    return trace_id_in(traceparent) if trace is None else trace.trace_id


def logged_traceparent(trace: CallTrace | None, traceparent: str | None) -> str | None:
    """Return the ``traceparent`` for the record of a request: the caller's or, if the trace begins here, the trace's.

    `trace`, `traceparent`: the same as for `trace_id_of`.
    """
    return traceparent if trace is None or trace.parent_id is not None else trace.traceparent()


def current_traceparent() -> str | None:
    """Return the ``traceparent`` of the current sampled refresh or request."""
    refresh, call = current_refresh.get(), current_trace.get()
    if refresh is not None:
        return None if refresh.parent_call is None else refresh.parent_call.traceparent(refresh.span_id)
    return None if call is None else call.traceparent()
