"""The fast path: plain proxied requests without a task, a request object or a middleware call.

    bytes ▸ take    one whole GET or HEAD without a body, on /proxy, with nothing that asks for more than the plain way?
          ▸ Known   what its header lines mean: decided once by the functions of the middlewares, remembered by digest
          ▸ Flight  over a kept connection to the provider, and the answer back

Whatever is not plain goes the long way through the chain: at once, or, once the request has been sent, with what has come
of it so far. So the lane refuses nothing, answers nothing of its own, and decides nothing that the chain does not
(ADR 13); the wire suite runs through both.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from multidict import CIMultiDict

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.key_policy import Policy, SentRequest
from gateway.connections.opened import Opened
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError
from gateway.generation import Generation
from gateway.http import headers, passed_head, proxy_options, url
from gateway.http.fields import Fields, from_wire, plain
from gateway.http.request_head import check_head, request_head
from gateway.middleware.bearer_key import key_in
from gateway.middleware.credentials import place
from gateway.middleware.request_id import GIVEN, fit
from gateway.records.connection import ConnectionRef
from gateway.records.proxied_call import UpstreamRequest
from gateway.runtime import RUNTIME, Runtime
from gateway.secret import digest
from gateway.server.fast_exchange import MOUNT, FastExchange, FastPlan, FastRoute

if TYPE_CHECKING:
    from gateway.server.client_protocol import ClientProtocol

# ── What a block of header lines says, as the lane remembers it, and what its key may send.

ALLOWED_CALLS: Final = 64


@dataclass(slots=True)
class KnownHead:
    """What a block of header lines says, on `mount`: ``/proxy``, or a capability's. `head_id` stands for the block, which
    holds a secret key and is not kept; `names` are those of `fields`, spelled plainly.

    `policy`: the one under which it may use the connection, and `allowed` calls (method, host, target) that it allows.
    """

    head_id: bytes
    mount: str = field(repr=False)
    key_digest: str
    asked: proxy_options.ProxyOptions
    fields: Fields = field(repr=False)
    names: frozenset[str]
    request_id: str | None
    ref: ConnectionRef | None = None
    policy: Policy | None = None
    allowed: set[tuple[str, str, str]] = field(default_factory=set, repr=False)


def may_send(caller: Caller, known: KnownHead, opened: Opened, method: str, target: str) -> bool:
    """Whether a minted key may send this, by the decision that the chain would make; what it counts, the chain counts."""
    access = caller.access
    if access is None:
        return True
    policy = access.policy
    if access.meter is not None:
        return False
    if known.policy is not policy:  # the first time, and after the key was changed
        is_key, reached = access.key.kind == "key", policy.reaches(*opened.connection.ref[1:])
        if is_key is not (known.mount == MOUNT) or not policy.may_proxy or not reached:
            return False
        known.policy, known.allowed = policy, set()
    if policy.of_tags and not policy.fits(opened.connection.tags):
        return False
    if not policy.of_requests:
        return True
    call = method, opened.base.host, target
    if call in known.allowed:
        return True
    path, _, query = target.partition("?")
    if policy.breach(SentRequest(method, opened.base.host, path, query, known.names)) is not None:
        return False
    if len(known.allowed) < ALLOWED_CALLS:
        known.allowed.add(call)
    return True


HEAD_BYTES: Final = 8192
KNOWN_HEADS: Final = 1024
KNOWN_BYTES: Final = 2048
KNOWN_LINES: Final = 40
KNOWN_S: Final = 60.0  # the lines may hold what is secret to the caller
HEADS_A_CONNECTION: Final = 8
_LINE: Final = re.compile(rb"(GET|HEAD) (/proxy(?:[/?][!-\"$-\[\]-~]*)?) HTTP/1\.1\r\n")
_CAPABILITY_LINE: Final = re.compile(
    rb"(GET|HEAD) ((/c/gw_cap_[A-Za-z0-9_-]{49})(?:[/?][!-\"$-\[\]-~]*)?) HTTP/1\.1\r\n"
)
_END: Final = b"\r\n\r\n"
_PROBE: Final = b"GET /proxy HTTP/1.1\r\n"
# Who sends one of these asks for more than the plain way, or may.
_UNUSUAL: Final = frozenset({"origin", "expect", "upgrade", "content-length", "transfer-encoding", "te", "trailer"})


class FastPath:
    """One a server.

    `taken` counts the requests that left on the lane, `handed_over` those of them that the chain had to finish.
    """

    def __init__(self, runtime: Runtime, make_parser: Callable[[], HttpRequestParser]) -> None:
        self._runtime = runtime
        self._current = runtime.current
        self._make_parser = make_parser
        self._parser = make_parser()
        self._known: dict[bytes, KnownHead] = {}
        self._swept_at = 0.0
        self.departures = WriteBatch()
        self.taken = 0
        self.handed_over = 0

    def take(self, client: "ClientProtocol", data: bytes) -> FastExchange | None:
        """A request that is on its way now, or None if it is for the chain; then nothing has happened."""
        line = _LINE.match(data) or _CAPABILITY_LINE.match(data)
        if line is None:
            return None
        block = data[line.end() :]
        if len(data) > HEAD_BYTES or block.find(_END) != len(block) - 4:
            return None
        if len(block) > KNOWN_BYTES or block.count(b"\n") > KNOWN_LINES:
            return None
        began = clock.monotonic()
        mount: bytes | None = None if line.re is _LINE else line[3]
        head_id = sha256(block if mount is None else block + mount).digest()
        generation = self._current.generation
        known = self._known.get(head_id) or self._read(head_id, block, mount, generation)
        if known is None:
            return None
        caller = generation.keys.known(known.key_digest)
        opened = self._opened(known, caller, began) if caller is not None else None
        if caller is None or opened is None:
            return None
        if head_id not in self._known:  # not before its key has opened something: strangers fill no memory
            self._remember(known)
        route: FastRoute | None = opened.routes.get(head_id)
        if route is None or route.generation is not generation:
            route = self._route(opened, known, generation)
            if route is None:
                return None
        base_path = opened.base.path
        try:
            target = url.join(base_path, url.rest_of(line[2].decode("ascii"), known.mount))
        except GatewayError:
            return None
        method = "HEAD" if line[1] == b"HEAD" else "GET"
        if caller.access is not None and not may_send(caller, known, opened, method, target):
            return None
        if route.in_query:
            target = url.with_query(target, opened.placement.query_slots, opened.placement.query_defaults)
        plan = FastPlan(
            began, route, known.request_id, opened, method, target, known.asked.retries, known.mount, caller.access
        )
        return self._launched(client, data, plan)

    def _opened(self, known: KnownHead, caller: Caller, now: float) -> Opened | None:
        """The connection, if it is fresh."""
        environment, ref, wish = caller.environment, known.ref, known.asked
        if ref is None or ref.environment != environment.name:
            ref = known.ref = ConnectionRef(environment.name, wish.integration_id, wish.connection_id)
        return self._runtime.live.peek(ref, now)

    def _launched(self, client: "ClientProtocol", data: bytes, plan: FastPlan) -> FastExchange | None:
        route = plan.route
        gate = route.gate
        try:
            head = b"%b %b HTTP/1.1\r\n%b" % (plan.method.encode(), plan.target.encode("ascii"), route.lines)
        except ValueError:
            return None
        if not gate.enter_at_once():
            return None
        connection = route.pool.kept()
        if connection is None:
            if route.generation.egress.pool(gate.origin) is not route.pool:
                plan.opened.routes.clear()  # it was forgotten, and another has taken its place
            gate.leave("untold", probe=False)
            return None
        self.taken += 1
        departures = self.departures
        departures.aboard += 1
        flight = FastExchange(client, data, plan, connection, departures)
        connection.tell(head, flight, departures, method=plan.method)
        return flight

    def _route(self, opened: Opened, known: KnownHead, generation: Generation) -> FastRoute | None:
        """The way for such requests over this connection, if it is plain to serve and the provider was asked before."""
        base, placement = opened.base, opened.placement
        if known.asked.decompress is None and opened.provider.proxy.decompress:
            return None
        if placement.signs_request or opened.identity is not None:
            return None
        if opened.connection.ref in self._runtime.live.rejections.suspected:
            return None  # the chain looks at the answer
        origin = (base.scheme, base.host, base.port)
        pool = generation.egress.pool(origin)
        if pool is None:
            return None
        try:
            lines = self._head_lines(opened, known, pool.host)
        except (GatewayError, ValueError):
            return None
        if len(opened.routes) >= HEADS_A_CONNECTION:
            opened.routes.clear()
        in_query = bool(placement.query_slots or placement.query_defaults)
        route = opened.routes[known.head_id] = FastRoute(
            self._runtime, generation, self._runtime.gates.to(origin), pool, lines, in_query
        )
        return route

    @staticmethod
    def _head_lines(opened: Opened, known: KnownHead, host: str) -> bytes:
        """Everything behind the request line, with the credential in its place."""
        base = opened.base
        upstream = UpstreamRequest("GET", base.scheme, base.host, base.port, "/", CIMultiDict(known.fields))
        place(opened, upstream, has_body=False)
        return request_head("GET", "/", host, upstream.headers.items()).partition(b"\r\n")[2]

    def _remember(self, known: KnownHead) -> None:
        if len(self._known) >= KNOWN_HEADS:
            self._known.clear()
        self._known[known.head_id] = known

    def sweep(self, now: float) -> None:
        """Forget what was learned a minute ago; to be called about once a second, with monotonic seconds."""
        if now - self._swept_at >= KNOWN_S:
            self._swept_at = now
            self._known.clear()
            passed_head.forget()

    def _read(self, head_id: bytes, block: bytes, mount: bytes | None, generation: Generation) -> KnownHead | None:
        """What the block says, by the decisions of the chain; None where that would refuse it or has more to do."""
        message = self._parsed(block)
        if message is None or message.version != HttpVersion11 or message.should_close or message.upgrade:
            return None
        names = {plain(name) for name in message.headers}
        options = {option.strip().lower() for option in message.headers.get(hdrs.CONNECTION, "keep-alive").split(",")}
        if names & _UNUSUAL or options != {"keep-alive"} or any(name.startswith("gateway-") for name in names):
            return None
        try:
            check_head(message.method, message.path, message.version, message.headers)
            key, bound_to = key_in(message.headers.get(hdrs.AUTHORIZATION)) if mount is None else _token(mount), None
            key_digest = digest(key)
            if mount is not None:
                caller = generation.keys.known(key_digest)
                bound_to = caller.access.bound_to if caller is not None and caller.access is not None else None
                if bound_to is None:
                    return None
            wish = proxy_options.read(message.headers, bound_to and bound_to[1:])
            fields = headers.request_fields(from_wire(message.raw_headers), "" if mount is None else key)
        except GatewayError:
            return None
        if wish.dry_run or wish.decompress or wish.base_url is not None or wish.timeout_s is not None:
            return None
        at = MOUNT if mount is None else mount.decode("ascii")
        sent = frozenset(plain(name) for name, _ in fields)
        return KnownHead(head_id, at, key_digest, wish, fields, sent, fit(message.headers.get(GIVEN)))

    def _parsed(self, block: bytes) -> RawRequestMessage | None:
        """By the parser that the chain's requests come from; one that has stumbled is not used again."""
        try:
            messages, upgraded, tail = self._parser.feed_data(_PROBE + block)
        except Exception:  # noqa: BLE001 (whatever it is, the chain will say so)
            messages, upgraded, tail = [], True, b""
        if len(messages) != 1 or upgraded or tail or not messages[0][1].is_eof():
            self._parser = self._make_parser()
            return None
        self._parser.message_consumed()
        message: RawRequestMessage = messages[0][0]
        return message


def _token(mount: bytes) -> str:
    return mount.rpartition(b"/")[2].decode("ascii")


def lane_of(
    app: web.Application, own: tuple[Any, ...], make_parser: Callable[[], HttpRequestParser]
) -> FastPath | None:
    """The lane for an application that is ours altogether; in a host's, its middlewares must see every request.

    `own`: the middlewares that `create_app` lays over the whole.
    """
    if RUNTIME not in app or tuple(app.middlewares) != own or len(app.on_response_prepare):
        return None
    return FastPath(app[RUNTIME], make_parser)
