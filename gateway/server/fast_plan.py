"""Holds the decisions about a fast path request, and records the finished request in the call log."""

from dataclasses import dataclass, field

from gateway import clock
from gateway.access.caller import Access, RateState
from gateway.connections.opened import OpenedConnection
from gateway.egress.limits import OriginLimits
from gateway.egress.pool import Pool
from gateway.generation import Generation
from gateway.http.content_coding import Decoder
from gateway.http.passed_head import PlainHead
from gateway.http.proxy_options import ProxyOptions
from gateway.http.response_head import ResponseHead
from gateway.middleware.access_log import logged_path
from gateway.middleware.response_shape import new_id
from gateway.proxy.exchange_watch import first_byte_s
from gateway.proxy.passed_response import start_decoding
from gateway.records.proxied_call import PROXY_PATH, ExchangeRecord
from gateway.records.trace import CallTrace
from gateway.runtime import Runtime
from gateway.server.strict_framing import RequestBodyFraming


@dataclass(slots=True)
class FastRoute:
    """The values that all fast path requests over one opened connection share. The opened connection keeps the route.

    - `origin_limits`: the limits of the provider's origin
    - `host`: the outgoing ``Host`` line with its CRLF
    - `replaced_names`: names of the caller's fields that are not passed on, normalized by `headers.normalized_name`
    - `slots`: the header lines with the credential, each with its CRLF
    - `names_parent`: whether the outgoing ``traceparent`` of a sampled request names the gateway's span as parent
    """

    runtime: Runtime
    generation: Generation
    origin_limits: OriginLimits
    pool: Pool
    host: bytes
    replaced_names: frozenset[str]
    slots: bytes = field(repr=False)
    names_parent: bool = False


@dataclass(slots=True)
class FastPlan:
    """One request on the fast path.

    - `began`: start of the request, in monotonic seconds
    - `request_id`: the caller's request id; None if it is missing or not well-formed
    - `target`: path and query for the provider
    - `options`: the caller's ``Gateway-…`` options
    - `mount`: ``/proxy``, or ``/c/<capability>``
    - `access`: what a minted key may do; None for other keys
    - `rate_state`: state of the key's rate limit; None without a limit
    - `body`: None if the request has no body
    - `decodes`: whether the response is to be decoded
    - `traceparent`: value for the call log, or None
    - `rule`: the key's rule that allows the request, or None
    - `trace`: trace of a sampled call, or None
    - `tool`: name of the MCP tool that made the call, or None
    """

    began: float
    route: FastRoute
    request_id: str | None
    opened: OpenedConnection
    method: str
    target: str
    options: ProxyOptions
    mount: str = field(default=PROXY_PATH, repr=False)
    access: Access | None = None
    rate_state: RateState | None = None
    body: RequestBodyFraming | None = None
    decodes: bool = False
    traceparent: str | None = None
    rule: str | None = None
    trace: CallTrace | None = None
    tool: str | None = None

    def record_refusal(self, status: int) -> None:
        """Count a 403 response, because it can mean that the provider no longer accepts the credential."""
        path = self.target.partition("?")[0]
        self.route.runtime.live.rejections.record_refusal(self.opened, status, path)

    @property
    def waits_for_caller(self) -> bool:
        """Whether a part of the request's body is still to come."""
        return self.body is not None and not self.body.ended

    def first_byte_s(self) -> float:
        """Return how many seconds the provider may take until its response begins."""
        return first_byte_s(self.options, self.route.generation.egress.timeouts)

    def decoder_for(self, head: ResponseHead) -> Decoder | None:
        """Return a decoder if the response is to be decoded and has a supported content coding, else None."""
        if not self.decodes:
            return None
        if isinstance(head, PlainHead) and not head.has_coding:
            return None
        decoder = Decoder()
        return decoder if start_decoding(decoder, self.method, head.status, head.with_fields().fields) else None

    def record(self, status: int, error: str | None, bytes_out: int, sent_at: float, head_at: float) -> None:
        """Record the finished call, and count it for the retry budget.

        `sent_at`: when the request was sent, in monotonic seconds. `head_at`: when the response's head arrived, in
        monotonic seconds; 0.0 if no head arrived.
        """
        now, began_at = clock.monotonic(), self.began
        ref, base = self.opened.connection.ref, self.opened.base
        self.route.origin_limits.budget.requests += 1
        # The arguments are positional, because keyword arguments take three times as long.
        self.route.runtime.call_queue.record(
            ExchangeRecord(
                clock.now(),
                self.request_id or new_id(),
                ref.environment,
                ref.integration_id,
                ref.connection_id,
                self.method,
                base.host,
                logged_path(base.path, self.target),
                status,
                (now - began_at) * 1000,
                0 if self.body is None else self.body.received,
                bytes_out,
                error,
                (sent_at - began_at) * 1000,
                0.0,
                ((head_at or now) - sent_at) * 1000,
                None if self.access is None else self.access.key.id,
                self.traceparent,
                self.rule,
                1,
                self.trace,
                self.tool,
            )
        )
