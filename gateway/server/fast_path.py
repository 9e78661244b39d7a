"""Handles ordinary proxied requests on the fast path, without a task, a request object or a middleware call.

    bytes ▸ start_exchange  takes one request below /proxy or a capability URL, with the received part of its body
          ▸ ArrivedHead     has remembered header lines (`known_heads`), or new lines, read by name (`request_lines`)
          ▸ FastPlan        has the decisions about key, connection, rules and target, by the functions of the middlewares
          ▸ FastExchange    sends the request over an idle connection to the provider, and passes the response back

The middleware chain handles every other request. The chain can also take over a request that the fast path has already
sent, with the bytes received so far. So the fast path refuses no request, sends no response of its own, and decides as
the chain does (ADR 44). The tests in tests/wire send each request through both.
"""

import re
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.key_forms import CAPABILITY_FORM
from gateway.connections.opened import OpenedConnection
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError
from gateway.generation import Generation
from gateway.http import passed_head
from gateway.http.request_head import LENGTH_EXPECTED, METHODS, TARGET_CHARS
from gateway.http.response_head import MalformedMessage
from gateway.http.url import with_query
from gateway.middleware.key_limits import sent_request
from gateway.middleware.upstream import provider_target, replaced_names, trace_headers
from gateway.middleware.wanted_response import wants_decoding
from gateway.observe.tracing import Tracing
from gateway.proxy.collected_response import InProcessRequest
from gateway.records.connection import ConnectionRef
from gateway.records.integration import DROP, OWN
from gateway.records.proxied_call import PROXY_PATH
from gateway.records.trace import TRACE_FIELDS, TRACEPARENT, CallTrace, logged_traceparent
from gateway.runtime import RUNTIME
from gateway.secret import digest
from gateway.server.fast_exchange import FastClient, FastExchange
from gateway.server.fast_message import McpFastPath
from gateway.server.fast_plan import FastPlan, FastRoute
from gateway.server.known_heads import (
    MAX_HEAD_LINES,
    PLAIN,
    ArrivedHead,
    HeadMemory,
    KnownHead,
    KnownHeads,
    field_lines,
    header_lines,
)
from gateway.server.request_lines import LineReader
from gateway.server.strict_framing import RequestBodyFraming

FORGET_AFTER_S: Final = 60.0  # forget heads after this time, because their lines can contain secrets of the caller
EMPTY_BODY_LINE: Final = b"Content-Length: 0\r\n"
KEY_PREFIX: Final = b"gw_"  # every key for the MCP endpoint begins with it (`key_forms.PREFIXES`)

_METHOD: Final = f"({'|'.join(METHODS)}) ".encode()
_REST: Final = rf"(?:[/?][{TARGET_CHARS}]*)?) HTTP/1\.1\r\n".encode()
_LINE: Final = re.compile(_METHOD + rb"(/proxy" + _REST)
_CAPABILITY_LINE: Final = re.compile(_METHOD + rf"((/c/{CAPABILITY_FORM})(?!/mcp[? ])".encode() + _REST)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LENGTH_EXPECTED: Final = frozenset(method.encode() for method in LENGTH_EXPECTED)
_NOT_REPLACEABLE: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"})


def allowing_rule(
    caller: Caller, head: ArrivedHead[KnownHead], opened: OpenedConnection, method: str, target: str
) -> str | None:
    """Return the rule that allows the key to send this request; an empty string if the key has no such rules.

    Return None if the key may not send the request; the middleware chain then reports the reason. The call is not
    counted against the key's rate limit here, but by `Meter.count`.
    """
    access = caller.access
    if access is None:
        return ""
    policy = access.policy
    is_secret_key, is_reached = access.key.kind == "key", policy.reaches(*opened.connection.ref[1:])
    if is_secret_key is not (head.known.mount == PROXY_PATH) or not policy.may_proxy or not is_reached:
        return None
    if policy.limits_tags and not policy.allows_tags(opened.connection.tags):
        return None
    if not policy.limits_requests:
        return ""
    decision = policy.decision(sent_request(opened, method, opened.base.host, target, head.known.names))
    return decision if isinstance(decision, str) else None


AdmittedRequest = tuple[float, Generation, Caller, OpenedConnection]
"""An admitted request: when it began (monotonic seconds), the current generation, its caller and its connection."""


class FastPath:
    """The fast path of a server.

    `taken`: number of requests that the fast path has sent. `handed_over`: number of requests among them that the
    middleware chain had to finish. `call_heads`: remembered heads of calls that begin in this process.
    """

    def __init__(self, app: web.Application) -> None:
        runtime = self._runtime = app[RUNTIME]
        self._current = runtime.current
        self._reader = LineReader()
        self._known_heads: KnownHeads[KnownHead] = KnownHeads()
        self.call_heads: HeadMemory[KnownHead] = HeadMemory()
        self._swept_at = clock.monotonic()
        self.write_batch = WriteBatch()
        self.mcp_fast_path = McpFastPath(app, self._reader, self.write_batch)
        self.taken = 0
        self.handed_over = 0

    def start_exchange(self, client: FastClient, data: bytes) -> tuple[FastExchange, bytes, bytes] | None:
        """Return the exchange, the bytes to send first (`FastExchange.begin`), and the bytes that follow the request.

        Return None, without any effect, if the middleware chain must handle the request. `data`: the received bytes,
        from the start of the request.
        """
        request_line = _match_line(data)
        head_lines = None if request_line is None else header_lines(data, request_line)
        if request_line is None or head_lines is None:
            return None
        lines, body_at = head_lines
        mount = _mount_of(request_line)
        head = self._known_heads.find(lines, mount) or self._read_head(lines, mount)
        if head is None:
            return None
        admitted = self._admit(head)
        if admitted is None:
            return None
        if head.known.head_id is None:  # only after `_admit`, so that a client without a key cannot fill the memory
            self._known_heads.remember(lines, mount, head)
        return self._begin(client, request_line, head, admitted, data[:body_at], data[body_at:])

    def start_call(
        self, client: FastClient, request: InProcessRequest, caller: Caller | None = None
    ) -> tuple[FastExchange, bytes, bytes] | None:
        """Return what `start_exchange` returns, for a call that begins in this process.

        The head that a client would send is composed and read once. Then it is remembered for later calls of messages
        with the same head. `caller`: the caller of the message, if its key was found in this iteration of the event
        loop; None to look up the key.
        """
        request_line = _match_line(f"{request.method} {request.mount}{request.target} HTTP/1.1\r\n".encode())
        if request_line is None:
            return None
        head = self._head_of_call(request, request_line)
        admitted = None if head is None else self._admit(head, caller)
        if head is None or admitted is None:
            return None
        head.request_id = request.request_id
        return self._begin(client, request_line, head, admitted, b"", request.body or b"", request.tool)

    def _head_of_call(self, request: InProcessRequest, request_line: re.Match[bytes]) -> ArrivedHead[KnownHead] | None:
        head_id, traces = request.head_id, request.traces
        values: tuple[bytes, ...] = ()
        can_remember = request.message_head_id is not None and request.connection_id.isprintable()
        if traces:
            values = tuple([value.encode("utf-8", "surrogatepass") for value in traces.values()])
            # a ``tracestate`` in a message's body may contain the key, so it is checked line by line
            can_remember = (
                can_remember and all(map(PLAIN.fullmatch, values)) and not any(KEY_PREFIX in value for value in values)
            )
        known_head = self.call_heads.get(head_id) if can_remember else None
        if known_head is not None:
            length = None if request.body is None else len(request.body)
            return ArrivedHead(known_head, request.connection_id, length, values)
        fields = request.fields()
        if _CONTROL.search("".join(fields.values())):
            return None
        lines = "".join(f"\r\n{name}: {value}" for name, value in fields.items()).encode("utf-8", "surrogateescape")
        head = self._read_head(lines, _mount_of(request_line))
        if head is not None and can_remember and head.vary(list(zip(map(str.encode, traces), values, strict=True))):
            head.known.key = ""
            self.call_heads.keep(head_id, head.known, len(lines))
        return head

    def _admit(self, head: ArrivedHead[KnownHead], caller: Caller | None = None) -> AdmittedRequest | None:
        """Return the caller and the connection of the request; None if either is not in memory.

        `caller`: the caller, if it is known already.
        """
        began, generation = clock.monotonic(), self._current.generation
        if caller is None:
            caller = generation.keys.find_known(head.known.key_digest)
        opened = self._opened_connection(head, caller, began) if caller is not None else None
        return None if caller is None or opened is None else (began, generation, caller, opened)

    def _begin(
        self,
        client: FastClient,
        request_line: re.Match[bytes],
        head: ArrivedHead[KnownHead],
        admitted: AdmittedRequest,
        head_bytes: bytes,
        received_body: bytes,
        tool: str | None = None,
    ) -> tuple[FastExchange, bytes, bytes] | None:
        """Prepare the exchange of an admitted request, and return what `start_exchange` returns.

        - `request_line`: the match of the request line
        - `head_bytes`: the bytes of the head
        - `received_body`: the bytes after the head
        - `tool`: name of the MCP tool that makes the call, or None
        """
        began, generation, caller, opened = admitted
        known_head = head.known
        route: FastRoute | None = opened.fast_route[0] if opened.fast_route else None
        if route is None or route.generation is not generation:
            route = self._route(opened, generation)
        target_and_rule = _target_and_rule(request_line, head, caller, opened) if route is not None else None
        if route is None or target_and_rule is None:
            return None
        target, rule = target_and_rule
        split_body = _split_body(head, opened, received_body)
        tracing = self._runtime.tracing
        traced_call = None if tracing is None else _begin_trace(tracing, route, head, opened, began)
        outgoing = _request_head(
            request_line[1],
            target,
            route,
            head,
            opened,
            None if traced_call is None else traced_call.outgoing_traceparent,
        )
        if split_body is None or outgoing is None:
            return None
        body, framed, next_request = split_body
        # The arguments are positional, because keyword arguments take three times as long.
        plan = FastPlan(
            began,
            route,
            head.request_id,
            opened,
            request_line[1].decode(),
            target,
            known_head.lines.options,
            known_head.mount,
            caller.access,
            None,
            body,
            wants_decoding(known_head.lines.options, opened),
            head.traceparent if traced_call is None else traced_call.recorded_traceparent,
            rule or None,
            None if traced_call is None else traced_call.trace,
            tool,
        )
        connection = self._connection(plan)
        if connection is None:
            return None
        arrived_body = received_body[: len(received_body) - len(next_request)] if next_request else received_body
        exchange = client.exchange_type(client, head_bytes, arrived_body, plan, connection, self.write_batch)
        exchange.last = exchange.close_requested = known_head.lines.last
        return exchange, outgoing + framed, next_request

    def _connection(self, plan: FastPlan) -> ProviderConnection | None:
        """Return an idle connection to the provider; acquire the concurrency limit for the call, and count the call.

        Return None, without any effect, if the middleware chain must handle the request.
        """
        route, access = plan.route, plan.access
        origin_limits = route.origin_limits
        if not origin_limits.try_acquire():
            return None
        connection = route.pool.acquire_idle()
        if connection is None:
            if route.generation.egress.pool(origin_limits.origin) is not route.pool:
                plan.opened.fast_route.clear()  # the pool was replaced, so this route is outdated
            origin_limits.release("unknown", probe=False)
            return None
        if access is not None and access.meter is not None:
            is_counted, plan.rate_state = access.meter.count()
            if not is_counted:
                route.pool.release_unused(connection)
                origin_limits.release("unknown", probe=False)
                return None
        self.taken += 1
        self.write_batch.in_flight += 1
        return connection

    def _opened_connection(self, head: ArrivedHead[KnownHead], caller: Caller, now: float) -> OpenedConnection | None:
        """Return the connection of a request; None if it is not in memory, or not usable without waiting.

        `now`: monotonic seconds.
        """
        integration_id = head.known.lines.options.integration_id
        ref = ConnectionRef(caller.environment.name, integration_id, head.connection_id)
        live = self._runtime.live
        return live.peek(ref, now) or live.reopen(ref)

    def _route(self, opened: OpenedConnection, generation: Generation) -> FastRoute | None:
        """Return the route of a connection; None if the middleware chain must handle its requests.

        The chain also handles the first requests to a provider, because the provider has no connection pool yet.
        """
        base, placement = opened.base, opened.placement
        if placement.signs_request or opened.identity is not None:
            return None
        if opened.connection.ref in self._runtime.live.rejections.suspected:
            return None  # the middleware chain must check whether the response rejects the credential
        origin = (base.scheme, base.host, base.port)
        pool = generation.egress.pool(origin)
        replaced_field_names = replaced_names(placement)
        trace_mode = trace_headers(opened, generation)
        if pool is None or replaced_field_names & _NOT_REPLACEABLE:
            return None
        try:
            slots = field_lines(placement.slots)
        except ValueError:
            return None
        route = FastRoute(
            self._runtime,
            generation,
            self._runtime.egress_limits.for_origin(origin),
            pool,
            f"Host: {pool.host}\r\n".encode(),
            replaced_field_names | TRACE_FIELDS if trace_mode == DROP else replaced_field_names,
            slots,
            names_parent=trace_mode == OWN,
        )
        opened.fast_route[:] = [route]
        return route

    def _read_head(self, lines: bytes, mount: bytes | None) -> ArrivedHead[KnownHead] | None:
        """Return the head in `lines`; None if the middleware chain must read the lines.

        `lines`: header lines; each line begins with CRLF. `mount`: path of a capability URL; None for ``/proxy``.
        """
        if lines.count(b"\n") > MAX_HEAD_LINES:
            return None
        if mount is None:
            request_lines = self._reader.read(lines[2:])
            if request_lines is None:
                return None
            key, request_lines.key = request_lines.key, ""  # the lines can be remembered, but not their key
            known_head = KnownHead(PROXY_PATH, key, request_lines)
        else:
            token = mount.rpartition(b"/")[2].decode("ascii")
            caller = self._current.generation.keys.find_known(digest(token))
            bound_to = caller.access.bound_connection if caller is not None and caller.access is not None else None
            if bound_to is None:
                return None
            request_lines = self._reader.read(lines[2:], token, (bound_to.integration_id, bound_to.connection_id))
            if request_lines is None:
                return None
            known_head = KnownHead(mount.decode("ascii"), token, request_lines)
        return ArrivedHead(known_head, request_lines.options.connection_id, request_lines.length)

    @property
    def remembered_heads(self) -> int:
        """Number of remembered heads."""
        return len(self._known_heads)

    def sweep(self, now: float) -> bool:
        """Forget all remembered heads every `FORGET_AFTER_S` seconds. The server calls this about once a second.

        `now`: monotonic seconds. Return whether this call has forgotten them.
        """
        if now - self._swept_at < FORGET_AFTER_S:
            return False
        self._swept_at = now
        self._known_heads.forget()
        self.call_heads.forget()
        self.mcp_fast_path.forget()
        self._reader.forget()
        passed_head.clear_cache()
        return True


def _match_line(data: bytes) -> re.Match[bytes] | None:
    return _LINE.match(data) or _CAPABILITY_LINE.match(data)


def _mount_of(request_line: re.Match[bytes]) -> bytes | None:
    """Return the path of a capability URL; None for ``/proxy``."""
    return request_line[3] if request_line.re is _CAPABILITY_LINE else None


def _target_and_rule(
    request_line: re.Match[bytes], head: ArrivedHead[KnownHead], caller: Caller, opened: OpenedConnection
) -> tuple[str, str] | None:
    """Return the provider's path and query, and the rule that allows them.

    Return None if the path cannot be joined to the provider's base URL, or if the key may not send the request.
    """
    placement = opened.placement
    try:
        target = provider_target(opened, opened.base, request_line[2].decode("ascii"), head.known.mount)
    except GatewayError:
        return None
    rule = "" if caller.access is None else allowing_rule(caller, head, opened, request_line[1].decode(), target)
    if rule is None:
        return None
    if placement.query_slots or placement.query_defaults:
        target = with_query(target, placement.query_slots, placement.query_defaults)
    return target, rule


class TracedCall(NamedTuple):
    """The trace of a sampled call, with the trace contexts that are sent and recorded.

    `outgoing_traceparent`: the outgoing ``traceparent``; None if the caller's is sent. `recorded_traceparent`: the
    ``traceparent`` for the call log, or None.
    """

    trace: CallTrace
    outgoing_traceparent: str | None
    recorded_traceparent: str | None


def _begin_trace(
    tracing: Tracing, route: FastRoute, head: ArrivedHead[KnownHead], opened: OpenedConnection, began_at: float
) -> TracedCall | None:
    """Begin the trace of a request and the span of its first attempt; return None if the request is not sampled."""
    traceparent = head.traceparent
    trace = tracing.begin(traceparent, began_at)
    if trace is None:
        return None
    first_attempt = trace.attempt(opened.base.host, opened.base.port, began_at)
    sent_traceparent = trace.traceparent(first_attempt.span_id) if route.names_parent else None
    return TracedCall(trace, sent_traceparent, logged_traceparent(trace, traceparent))


def _split_body(
    head: ArrivedHead[KnownHead], opened: OpenedConnection, received_bytes: bytes
) -> tuple[RequestBodyFraming | None, bytes, bytes] | None:
    """Return the body, the received part of it framed for the provider, and the bytes that follow the body.

    Return None if the middleware chain must handle the request. `received_bytes`: the bytes after the head.
    """
    if not head.has_body:
        return None, b"", received_bytes
    if opened.placement.body is not None:
        return None
    body = RequestBodyFraming(None if head.known.lines.chunked else head.length)
    try:
        framed, next_request = body.feed(received_bytes)
    except MalformedMessage:
        return None
    return body, framed, next_request


def _request_head(
    method: bytes,
    target: str,
    route: FastRoute,
    head: ArrivedHead[KnownHead],
    opened: OpenedConnection,
    traceparent: str | None = None,
) -> bytes | None:
    """Return the outgoing head with the credential: the same head that the middleware chain composes.

    Return None if a value could end its line or is not ASCII. `traceparent`: replaces the caller's ``traceparent``;
    None keeps it.
    """
    known_head, replaced_field_names, placement, added_fields = head.known, route.replaced_names, opened.placement, b""
    if traceparent is not None:
        replaced_field_names = replaced_field_names | {TRACEPARENT}
        added_fields = f"{TRACEPARENT}: {traceparent}\r\n".encode()
    try:
        if placement.defaults:
            added_fields = known_head.defaults(replaced_field_names, placement, has_body=head.has_body) + added_fields
        return b"%b %b HTTP/1.1\r\n%b%b%b%b%b\r\n" % (
            method,
            target.encode("ascii"),
            route.host,
            known_head.outgoing_lines(replaced_field_names, head.values),
            route.slots,
            added_fields,
            head.framing or (EMPTY_BODY_LINE if method in _LENGTH_EXPECTED else b""),
        )
    except ValueError:
        return None


def fast_path_of(app: web.Application, own_middlewares: tuple[Any, ...]) -> FastPath | None:
    """Return the fast path of `app`; None if another application mounts the gateway or adds middlewares.

    The middlewares of another application must get every request. `own_middlewares`: the middlewares that `create_app`
    adds around the whole application.
    """
    if RUNTIME not in app or tuple(app.middlewares) != own_middlewares or len(app.on_response_prepare):
        return None
    return FastPath(app)
