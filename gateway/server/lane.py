"""The fast lane: plain proxied requests without a task, a request object or a middleware call.

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
from gateway.connections.opened import Opened
from gateway.errors import GatewayError
from gateway.records.connection import ConnectionRef
from gateway.records.upstream import UpstreamRequest
from gateway.secret import digest
from gateway.server.flight import Flight, Plan
from gateway.services import SERVICES, Services
from gateway.wire import asked, headers, url
from gateway.wire.fields import Fields, from_wire, plain
from gateway.wire.head import check_head
from gateway.wire.request_head import request_head
from middleware.bearer_key import key_in
from middleware.credentials import place
from middleware.request_id import GIVEN, fit

if TYPE_CHECKING:
    from gateway.server.protocol import ClientProtocol

MOUNT: Final = "/proxy"
HEAD_BYTES: Final = 8192
KNOWN_HEADS: Final = 1024
KNOWN_BYTES: Final = 2048
KNOWN_LINES: Final = 40
KNOWN_S: Final = 60.0  # the lines may hold what is secret to the caller
HEADS_A_CONNECTION: Final = 8
_LINE: Final = re.compile(rb"(GET|HEAD) (/proxy(?:[/?][!-\"$-\[\]-~]*)?) HTTP/1\.1\r\n")
_END: Final = b"\r\n\r\n"
_PROBE: Final = b"GET /proxy HTTP/1.1\r\n"
# Who sends one of these asks for more than the plain way, or may.
_UNUSUAL: Final = frozenset({"origin", "expect", "upgrade", "content-length", "transfer-encoding", "te", "trailer"})


@dataclass(slots=True)
class Known:
    """What a block of header lines says. `head_id` stands for the block, which holds a secret key and is not kept."""

    head_id: bytes
    key_digest: str
    asked: asked.Asked
    fields: Fields = field(repr=False)
    request_id: str | None
    ref: ConnectionRef | None = None


class Lane:
    """One a server. `services` gives those of the application, which a reload may exchange.

    `taken` counts the requests that left on the lane, `handed_over` those of them that the chain had to finish.
    """

    def __init__(self, services: Callable[[], Services], make_parser: Callable[[], HttpRequestParser]) -> None:
        self._services = services
        self._make_parser = make_parser
        self._parser = make_parser()
        self._known: dict[bytes, Known] = {}
        self._swept_at = 0.0
        self.taken = 0
        self.handed_over = 0

    def take(self, client: "ClientProtocol", data: bytes) -> Flight | None:
        """A request that is on its way now, or None if it is for the chain; then nothing has happened."""
        line = _LINE.match(data)
        if line is None:
            return None
        block = data[line.end() :]
        if len(data) > HEAD_BYTES or block.find(_END) != len(block) - 4:
            return None
        if len(block) > KNOWN_BYTES or block.count(b"\n") > KNOWN_LINES:
            return None
        began = clock.monotonic()
        head_id = sha256(block).digest()
        known = self._known.get(head_id) or self._read(head_id, block)
        if known is None:
            return None
        services = self._services()
        opened = self._opened(known, services)
        if opened is None:
            return None
        self._remember(known)  # not before its key has opened something: strangers fill no memory
        try:
            target = url.join(opened.base.path, url.rest_of(line[2].decode("ascii"), MOUNT))
        except GatewayError:
            return None
        placement = opened.placement
        if placement.query_slots or placement.query_defaults:
            target = url.with_query(target, placement.query_slots, placement.query_defaults)
        return self._launched(client, data, Plan(began, services, known.request_id, opened, line[1], target), known)

    def _opened(self, known: Known, services: Services) -> Opened | None:
        """The connection, if the key still opens its environment, and it is fresh and plain to serve."""
        environment = services.keys.opened_by(known.key_digest)
        if environment is None:
            return None
        ref, wish = known.ref, known.asked
        if ref is None or ref.environment != environment.name:
            ref = known.ref = ConnectionRef(environment.name, wish.integration_id, wish.connection_id)
        opened = services.live.peek(ref)
        if opened is None or (wish.decompress is None and opened.provider.proxy.decompress):
            return None
        if opened.placement.signs_request or opened.identity is not None:
            return None
        return opened

    def _launched(self, client: "ClientProtocol", data: bytes, plan: Plan, known: Known) -> Flight | None:
        services, base = plan.services, plan.opened.base
        origin = (base.scheme, base.host, base.port)
        pool = services.egress.pool(origin)
        gate = services.gates.to(origin)
        if pool is None:
            return None
        try:
            lines = plan.opened.heads.get(known.head_id) or self._head_lines(plan.opened, known, pool.host)
            head = b"%b %b HTTP/1.1\r\n%b" % (plan.method, plan.target.encode("ascii"), lines)
        except (GatewayError, ValueError):
            return None
        if not gate.enter_at_once():
            return None
        connection = pool.kept()
        if connection is None:
            gate.leave("untold", probe=False)
            return None
        self.taken += 1
        flight = Flight(client, data, plan, gate, connection, retries=known.asked.retries)
        connection.tell(head, flight, method="HEAD" if plan.method == b"HEAD" else "GET")
        return flight

    @staticmethod
    def _head_lines(opened: Opened, known: Known, host: str) -> bytes:
        """Everything behind the request line, with the credential in its place."""
        base = opened.base
        upstream = UpstreamRequest("GET", base.scheme, base.host, base.port, "/", CIMultiDict(known.fields))
        place(opened, upstream, has_body=False)
        lines = request_head("GET", "/", host, upstream.headers.items()).partition(b"\r\n")[2]
        if len(opened.heads) >= HEADS_A_CONNECTION:
            opened.heads.clear()
        opened.heads[known.head_id] = lines
        return lines

    def _remember(self, known: Known) -> None:
        if known.head_id in self._known:
            return
        if len(self._known) >= KNOWN_HEADS:
            self._known.clear()
        self._known[known.head_id] = known

    def sweep(self, now: float) -> None:
        """Forget what was learned a minute ago; to be called about once a second, with monotonic seconds."""
        if now - self._swept_at >= KNOWN_S:
            self._swept_at = now
            self._known.clear()

    def _read(self, head_id: bytes, block: bytes) -> Known | None:
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
            key = key_in(message.headers.get(hdrs.AUTHORIZATION))
            wish = asked.read(message.headers)
            fields = headers.request_fields(from_wire(message.raw_headers))
        except GatewayError:
            return None
        if wish.dry_run or wish.decompress or wish.base_url is not None or wish.timeout_s is not None:
            return None
        return Known(head_id, digest(key), wish, fields, fit(message.headers.get(GIVEN)))

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


def lane_of(app: web.Application, own: tuple[Any, ...], make_parser: Callable[[], HttpRequestParser]) -> Lane | None:
    """The lane for an application that is ours altogether; in a host's, its middlewares must see every request.

    `own`: the middlewares that `create_app` lays over the whole.
    """
    if SERVICES not in app or tuple(app.middlewares) != own or len(app.on_response_prepare):
        return None
    return Lane(lambda: app[SERVICES], make_parser)
