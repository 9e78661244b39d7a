"""The fast path: ordinary proxied requests without a task, a request object or a middleware call.

    bytes ▸ take     the head of one request below /proxy or a capability URL, and its body so far
          ▸ lines    reads its header lines one by one, by name (`request_lines`)
          ▸ plan     key, connection, rules, target: decided by the functions that the middlewares call
          ▸ exchange sends it over a kept connection to the provider, and the response back (`fast_exchange`)

Every other request goes through the chain: immediately or, once it has been sent, with the bytes received so far. So
the fast path refuses nothing, sends no response of its own, and makes no decision that the chain does not make (ADR
44). The tests in tests/wire run through both.
"""

import re
from hashlib import sha256
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.key_policy import SentRequest
from gateway.connections.opened import Opened
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError
from gateway.generation import Generation
from gateway.http import passed_head, url
from gateway.http.request_head import METHODS, TARGET_CHARS, request_head
from gateway.http.response_head import Malformed
from gateway.middleware.upstream import default_fields, replaced_names, trace_headers
from gateway.observe.tracing import Tracing
from gateway.records.connection import ConnectionRef
from gateway.records.integration import DROP, OWN
from gateway.records.trace import TRACE_FIELDS, TRACEPARENT, CallTrace
from gateway.runtime import RUNTIME
from gateway.secret import digest
from gateway.server.fast_exchange import FastClient, FastExchange
from gateway.server.fast_message import AgentDoor
from gateway.server.fast_plan import MOUNT, FastPlan, FastRoute
from gateway.server.request_lines import LineReader, RequestLines
from gateway.server.strict_framing import RequestBody

HEAD_BYTES: Final = 16_384
HEAD_LINES: Final = 128
KNOWN_HEADS: Final = 1024  # heads that are remembered because they arrived twice
KNOWN_BYTES: Final = 2 * 1024 * 1024  # total size of the lines of the remembered heads
COMPOSED_BYTES: Final = 2048  # maximum size of a composed head that a connection remembers
KNOWN_S: Final = 60.0  # forget after this time, because the lines may hold secrets of the caller
HEADS_A_CONNECTION: Final = 8  # composed heads that a connection remembers
LENGTH_EXPECTED: Final = frozenset({b"POST", b"PUT", b"PATCH"})  # RFC 9110 §8.6: they declare even an empty body
NO_BODY: Final = b"Content-Length: 0\r\n"

_METHOD: Final = f"({'|'.join(METHODS)}) ".encode()
_REST: Final = rf"(?:[/?][{TARGET_CHARS}]*)?) HTTP/1\.1\r\n".encode()
_LINE: Final = re.compile(_METHOD + rb"(/proxy" + _REST)
_CAPABILITY_LINE: Final = re.compile(_METHOD + rb"((/c/gw_cap_[A-Za-z0-9_-]{49})(?!/mcp[? ])" + _REST)
_END: Final = b"\r\n\r\n"
_TRACED: Final = b"\ntraceparent:"
_NEVER_BY_US: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"})


class KnownHead:
    """The meaning of the header lines of a request below `mount`, ``/proxy`` or ``/c/<capability>``.

    `head_id`: digest of the lines, which hold a secret key and are not kept; None until the head is remembered.
    `key_digest`: digest of the key. `framing`: the framing line of the outgoing request, empty if none is declared.
    """

    __slots__ = ("framing", "has_body", "head_id", "key_digest", "lines", "mount", "ref")

    def __init__(self, head_id: bytes | None, mount: str, key_digest: str, lines: RequestLines) -> None:
        self.head_id = head_id
        self.mount = mount
        self.key_digest = key_digest
        self.lines = lines
        self.ref: ConnectionRef | None = None
        self.has_body = lines.chunked or bool(lines.length)
        self.framing = _framing(lines)


def may_send(caller: Caller, known: KnownHead, opened: Opened, method: str, target: str) -> str | None:
    """Return the rule that allows the key to send this request, empty if the key has no rules for requests.

    Return None if the key may not send it; the chain reports the reason. `Meter.count` counts the call.
    """
    access = caller.access
    if access is None:
        return ""
    policy = access.policy
    is_key, reached = access.key.kind == "key", policy.reaches(*opened.connection.ref[1:])
    if is_key is not (known.mount == MOUNT) or not policy.may_proxy or not reached:
        return None
    if policy.of_tags and not policy.fits(opened.connection.tags):
        return None
    if not policy.of_requests:
        return ""
    path, _, query = target.partition("?")
    decided = policy.decision(SentRequest(method, opened.base.host, path, query, known.lines.names))
    return decided if isinstance(decided, str) else None


class FastPath:
    """The fast path of a server.

    `taken` counts the requests that the fast path sent, `handed_over` those of them that the chain had to finish.
    """

    def __init__(self, app: web.Application) -> None:
        runtime = self._runtime = app[RUNTIME]
        self._current = runtime.current
        self._reader = LineReader()
        self._known: dict[bytes, KnownHead] = {}
        self._known_bytes = 0
        self._seen: set[bytes] = set()
        self._swept_at = 0.0
        self.write_batch = WriteBatch()
        self.agent_door = AgentDoor(app, self._reader, self.write_batch)
        self.taken = 0
        self.handed_over = 0

    def take(self, client: FastClient, data: bytes) -> tuple[FastExchange, bytes, bytes] | None:
        """Return the exchange, the bytes to send first (`FastExchange.depart`), and the bytes that follow the request.

        Return None if the chain must handle the request; nothing has happened then. `data`: from the request's start.
        """
        head_in_data = _head_in(data)
        if head_in_data is None:
            return None
        found, block, body_at = head_in_data
        began = clock.monotonic()
        generation = self._current.generation
        known = self._head(block, found, generation)
        if known is None:
            return None
        caller = generation.keys.known(known.key_digest)
        opened = self._opened(known, caller, began) if caller is not None else None
        if caller is None or opened is None:
            return None
        if known.head_id is None:  # only after its key was found valid: a client without a key must not fill the memory
            self._remember(known, block, found)
        route: FastRoute | None = opened.fast_route[0] if opened.fast_route else None
        if route is None or route.generation is not generation:
            route = self._route(opened, generation)
        way = _target(found, known, caller, opened) if route is not None else None
        if route is None or way is None:
            return None
        target, rule = way
        arrived = _split_body(known, opened, data[body_at:])
        tracing = self._runtime.tracing
        traced = None if tracing is None else _begin_trace(tracing, route, known, opened, began)
        head = _request_head(found[1], target, route, known, opened, None if traced is None else traced.sent)
        if arrived is None or head is None:
            return None
        body, framed, behind = arrived
        plan = FastPlan(
            began,
            route,
            known.lines.request_id,
            opened,
            found[1].decode(),
            target,
            known.lines.options,
            known.mount,
            caller.access,
            body=body,
            decodes=_decodes(known.lines, opened),
            declares_body=known.has_body or known.lines.length is not None,
            traceparent=known.lines.traceparent if traced is None else traced.noted,
            rule=rule or None,
            trace=None if traced is None else traced.trace,
        )
        connection = self._connection(plan)
        if connection is None:
            return None
        end = len(data) - len(behind)
        head_bytes, body_bytes = data[:body_at], data[body_at:end]
        exchange = client.exchange_type(client, head_bytes, body_bytes, plan, connection, self.write_batch)
        exchange.last = exchange.close_requested = known.lines.last
        return exchange, head + framed, behind

    def _connection(self, plan: FastPlan) -> ProviderConnection | None:
        """Return an idle connection to the provider; acquire the concurrency limit for it, and count the call.

        Return None, with nothing acquired, if the chain must handle the request.
        """
        route, access = plan.route, plan.access
        origin_limits = route.origin_limits
        if not origin_limits.try_acquire():
            return None
        connection = route.pool.take_idle()
        if connection is None:
            if route.generation.egress.pool(origin_limits.origin) is not route.pool:
                plan.opened.fast_route.clear()  # the pool was forgotten and replaced
            origin_limits.release("unknown", probe=False)
            return None
        if access is not None and access.meter is not None:
            counted, plan.pace = access.meter.count()
            if not counted:
                route.pool.give_back(connection)
                origin_limits.release("unknown", probe=False)
                return None
        self.taken += 1
        self.write_batch.in_flight += 1
        return connection

    def _opened(self, known: KnownHead, caller: Caller, now: float) -> Opened | None:
        """Return the connection; None if it is not in memory, or cannot be used without waiting. `now`: monotonic s."""
        environment, ref, options = caller.environment, known.ref, known.lines.options
        if ref is None or ref.environment != environment.name:
            ref = known.ref = ConnectionRef(environment.name, options.integration_id, options.connection_id)
        live = self._runtime.live
        return live.peek(ref, now) or live.reopened(ref)

    def _route(self, opened: Opened, generation: Generation) -> FastRoute | None:
        """Return the route of this connection; None if the chain must handle it, or its provider has no pool yet."""
        base, placement = opened.base, opened.placement
        if placement.signs_request or opened.identity is not None:
            return None
        if opened.connection.ref in self._runtime.live.rejections.suspected:
            return None  # the chain must examine the response
        origin = (base.scheme, base.host, base.port)
        pool = generation.egress.pool(origin)
        replaced = replaced_names(placement)
        traced = trace_headers(opened, generation)
        if pool is None or replaced & _NEVER_BY_US:
            return None
        try:
            slots = _lines_of(placement.slots)
        except ValueError:
            return None
        route = FastRoute(
            self._runtime,
            generation,
            self._runtime.egress_limits.for_origin(origin),
            pool,
            f"Host: {pool.host}".encode(),
            replaced | TRACE_FIELDS if traced == DROP else replaced,
            slots,
            names_parent=traced == OWN,
        )
        opened.fast_route[:] = [route]
        return route

    def _head(self, block: bytes, found: re.Match[bytes], generation: Generation) -> KnownHead | None:
        """Return the meaning of the lines in `block`, from memory if possible; None: the chain must read them."""
        mount = found[3] if found.re is _CAPABILITY_LINE else None
        known = None if _TRACED in block else self._known.get(_digest(block, mount))
        if known is not None:
            return known
        if block.count(b"\n") >= HEAD_LINES:
            return None
        if mount is None:
            lines = self._reader.read(block)
            if lines is None:
                return None
            key, lines.key = lines.key, ""  # the lines may be remembered, and their key must not
            return KnownHead(None, MOUNT, digest(key), lines)
        token = mount.rpartition(b"/")[2].decode("ascii")
        key_digest = digest(token)
        caller = generation.keys.known(key_digest)
        bound_to = caller.access.bound_to if caller is not None and caller.access is not None else None
        if bound_to is None:
            return None
        lines = self._reader.read(block, token, (bound_to.integration_id, bound_to.connection_id))
        return None if lines is None else KnownHead(None, mount.decode("ascii"), key_digest, lines)

    def _remember(self, known: KnownHead, block: bytes, found: re.Match[bytes]) -> None:
        """Remember a head when it arrives for the second time: a head that never repeats would only replace others."""
        if _TRACED in block:
            return  # the head differs each time
        head_id = _digest(block, found[3] if found.re is _CAPABILITY_LINE else None)
        if head_id not in self._seen:
            if len(self._seen) >= KNOWN_HEADS:
                self._seen.clear()
            self._seen.add(head_id)
            return
        self._known_bytes += len(block)
        if len(self._known) >= KNOWN_HEADS or self._known_bytes > KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = len(block)
        known.head_id = head_id
        self._known[head_id] = known

    @property
    def remembered(self) -> int:
        """Number of remembered heads."""
        return len(self._known)

    def sweep(self, now: float) -> None:
        """Forget everything learned, once a minute; called about once a second. `now`: monotonic seconds."""
        if now - self._swept_at >= KNOWN_S:
            self._swept_at = now
            self._known.clear()
            self._known_bytes = 0
            self._seen.clear()
            self._reader.forget()
            passed_head.forget()


def _head_in(data: bytes) -> tuple[re.Match[bytes], bytes, int] | None:
    """Return the request line's match, the header lines, and where the body begins; None: the chain must read it."""
    found = _LINE.match(data) or _CAPABILITY_LINE.match(data)
    if found is None:
        return None
    lines_at = found.end()
    lines_end = data.find(_END, lines_at - 2, HEAD_BYTES)
    return (found, data[lines_at:lines_end], lines_end + 4) if lines_end >= lines_at else None


def _target(found: re.Match[bytes], known: KnownHead, caller: Caller, opened: Opened) -> tuple[str, str] | None:
    """Return the provider's path and query, and the rule that allows them.

    Return None if the path cannot be joined, or if the key may not send the request.
    """
    placement = opened.placement
    try:
        target = url.join(opened.base.path, url.rest_of(found[2].decode("ascii"), known.mount))
    except GatewayError:
        return None
    rule = "" if caller.access is None else may_send(caller, known, opened, found[1].decode(), target)
    if rule is None:
        return None
    if placement.query_slots or placement.query_defaults:
        target = url.with_query(target, placement.query_slots, placement.query_defaults)
    return target, rule


class TracedCall(NamedTuple):
    """A sampled call. `sent`: the outgoing ``traceparent``, None: the caller's. `noted`: the one for the call log."""

    trace: CallTrace
    sent: str | None
    noted: str | None


def _begin_trace(
    tracing: Tracing, route: FastRoute, known: KnownHead, opened: Opened, began: float
) -> TracedCall | None:
    """Return the trace of a sampled request, with its first attempt begun, or None if the request is not sampled."""
    given = known.lines.traceparent
    trace = tracing.begin(given, began)
    if trace is None:
        return None
    first = trace.attempt(opened.base.host, opened.base.port, began)
    sent = trace.traceparent(first.span_id) if route.names_parent else None
    return TracedCall(trace, sent, trace.traceparent() if trace.parent_id is None else given)


def _split_body(known: KnownHead, opened: Opened, rest: bytes) -> tuple[RequestBody | None, bytes, bytes] | None:
    """Return the body, its received part framed for sending, and the bytes that follow it; None: the chain handles it.

    `rest`: the bytes after the head.
    """
    if not known.has_body:
        return None, b"", rest
    if opened.placement.body is not None:
        return None
    body = RequestBody(None if known.lines.chunked else known.lines.length)
    try:
        framed, behind = body.feed(rest)
    except Malformed:
        return None
    return body, framed, behind


def _request_head(
    method: bytes, target: str, route: FastRoute, known: KnownHead, opened: Opened, traceparent: str | None = None
) -> bytes | None:
    """Return the outgoing head, or None if a value in it could end its line or is not ASCII.

    `traceparent`: replaces the caller's.
    """
    try:
        if traceparent is None:
            composed = route.composed.get(known.head_id) if known.head_id is not None else None
        else:
            composed = _composed(route, known, opened, traceparent)
        return b"%b %b HTTP/1.1\r\n%b%b\r\n" % (
            method,
            target.encode("ascii"),
            composed or _composed(route, known, opened),
            known.framing or (NO_BODY if method in LENGTH_EXPECTED else b""),
        )
    except ValueError:
        return None


def _decodes(lines: RequestLines, opened: Opened) -> bool:
    """Return whether the response is to be decoded: the caller's option wins over the provider's catalog entry."""
    asked = lines.options.decompress
    return bool(opened.provider.proxy.decompress) if asked is None else asked


def _digest(block: bytes, mount: bytes | None) -> bytes:
    return sha256(block if mount is None else b"%b\r\n%b" % (mount, block)).digest()


def _composed(route: FastRoute, known: KnownHead, opened: Opened, traceparent: str | None = None) -> bytes:
    """Return the outgoing header lines with the credential, as `place` and `request_head` compose them for the chain.

    `traceparent`: the value for this request only, as `Attempts` adds it; None: the caller's line, if any, passes.
    """
    head_id = known.head_id if traceparent is None else None
    replaced, passing = route.replaced, known.lines.passing
    if traceparent is not None:
        replaced = replaced | {TRACEPARENT}
    lines = [route.host, *(line for name, line in passing if name.spelled not in replaced), *route.slots]
    placement = opened.placement
    if placement.defaults:
        present = {name.lower for name, _ in passing if name.spelled not in replaced}
        present.update(name.lower() for name, _ in placement.slots)
        lines += _lines_of(default_fields(placement, present, has_body=known.has_body))
    if traceparent is not None:
        lines.append(f"{TRACEPARENT}: {traceparent}".encode())
    lines.append(b"")
    composed = b"\r\n".join(lines)
    if head_id is not None and len(composed) <= COMPOSED_BYTES:
        if len(route.composed) >= HEADS_A_CONNECTION:
            route.composed.clear()
        route.composed[head_id] = composed
    return composed


def _lines_of(fields: "tuple[tuple[str, str], ...] | list[tuple[str, str]]") -> tuple[bytes, ...]:
    """Return the fields as lines. Raises ValueError if a value could end its line."""
    if not fields:
        return ()
    head = request_head("GET", "/", "h", fields)
    return tuple(head[: -len(_END)].split(b"\r\n")[2:])


def _framing(lines: RequestLines) -> bytes:
    if lines.chunked:
        return b"Transfer-Encoding: chunked\r\n"
    return b"" if lines.length is None else b"Content-Length: %d\r\n" % lines.length


def fast_path_of(app: web.Application, own: tuple[Any, ...]) -> FastPath | None:
    """Return the fast path; None for the application of a host, whose own middlewares must see every request.

    `own`: the middlewares that `create_app` adds around the whole application.
    """
    if RUNTIME not in app or tuple(app.middlewares) != own or len(app.on_response_prepare):
        return None
    return FastPath(app)
