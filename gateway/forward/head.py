"""An answer's head on its way to the caller."""

from typing import Final

from aiohttp import web

from gateway import clock
from gateway.connections.opened import Opened
from gateway.egress.exchange import Exchange
from gateway.forward.body import is_live, values
from gateway.forward.passed import PassedAnswer, SwitchedAnswer
from gateway.services import SERVICES
from gateway.wire.browser import guarded
from gateway.wire.fields import Fields
from gateway.wire.headers import MalformedAnswer, decoded_fields, response_fields
from gateway.wire.origin import Address
from gateway.wire.references import Rewriter
from gateway.wire.server_timing import SERVER_TIMING, server_timing
from middleware.capability import REFERRER_POLICY, unreferred
from middleware.cors import readable
from middleware.facts import CAPABILITY, CONNECTION, REQUEST_ID, TIMING, UPSTREAM
from middleware.pace import paced
from middleware.request_id import HEADER

ATTEMPTS: Final = "Gateway-Attempts"
UNBUFFERED: Final = ("X-Accel-Buffering", "no")
"""On an answer that is sent bit by bit: nginx in front of us would hold events back."""


def answer_of(request: web.Request, exchange: Exchange, *, decoded: bool) -> PassedAnswer:
    """The head of the answer. Raises MalformedAnswer."""
    fields = _fields(request, exchange)
    if decoded:
        fields = decoded_fields(fields)
    fields = guarded(fields, by_headers=CAPABILITY not in request)
    answer = PassedAnswer(exchange.status, exchange.reason, fields, None if decoded else exchange.length)
    if is_live(exchange.headers):
        answer.headers.extend([UNBUFFERED])
    return answer


def switched(request: web.Request, exchange: Exchange, protocol: str) -> SwitchedAnswer:
    """The 101 as the caller gets it. Raises MalformedAnswer."""
    if [value.strip().lower() for value in values(exchange.headers, "upgrade")] != [protocol]:
        raise MalformedAnswer(f"it switches to another protocol than {protocol}")
    return SwitchedAnswer(exchange.reason, _fields(request, exchange), protocol)


def signed(answer: PassedAnswer, request: web.Request, attempts: int) -> PassedAnswer:
    """With what we say about the exchange."""
    readable(request, answer.headers)
    paced(answer, request)
    unreferred(answer, request)
    if REQUEST_ID in request:
        answer.headers[HEADER] = request[REQUEST_ID]
    answer.headers[ATTEMPTS] = str(attempts)
    timing = request[TIMING]
    timing.head_at = now = clock.monotonic()
    told = server_timing(timing.gateway_s(now) * 1000, timing.token_s * 1000, timing.upstream_s * 1000)
    answer.headers.add(SERVER_TIMING, told)  # the provider's own may be there too
    return answer


def _fields(request: web.Request, exchange: Exchange) -> Fields:
    upstream = request[UPSTREAM]
    base = Address(upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    return passed_fields(exchange.headers, base, request[CONNECTION], _shown_at(request))


def _shown_at(request: web.Request) -> str:
    called_by, public_url = request.get(CAPABILITY), request.app[SERVICES].config.server.public_url
    return f"{public_url}/proxy" if called_by is None else f"{public_url}/c/{called_by.token.reveal()}"


def unreferred_fields(fields: Fields) -> Fields:
    """`fields`, with our Referrer-Policy in place of the provider's: the address that was asked for is a secret."""
    return [*(field for field in fields if field[0].lower() != "referrer-policy"), REFERRER_POLICY]


def passed_fields(received: Fields, base: Address, opened: Opened, shown_at: str) -> Fields:
    """The fields of an answer from below `base` that travel on to the caller, who asked below `shown_at` for it.

    Raises MalformedAnswer.
    """

    def rewrite(name: str, value: str) -> str:
        return opened.without_secrets(Rewriter(base, shown_at, opened.placement.query_names)(name, value))

    return response_fields(received, set_cookie=opened.integration.forward_set_cookie, rewrite=rewrite)
