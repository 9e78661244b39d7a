"""An answer's head on its way to the caller."""

from typing import Final

from aiohttp import web

from gateway.egress.exchange import Exchange
from gateway.forward.body import is_live, values
from gateway.forward.passed import PassedAnswer, SwitchedAnswer
from gateway.services import SERVICES
from gateway.wire.fields import Fields
from gateway.wire.headers import MalformedAnswer, decoded_fields, response_fields
from gateway.wire.origin import Address
from gateway.wire.references import Rewriter
from middleware.cors import readable
from middleware.facts import CONNECTION, REQUEST_ID, UPSTREAM

ATTEMPTS: Final = "Gateway-Attempts"


def answer_of(request: web.Request, exchange: Exchange, *, decoded: bool) -> PassedAnswer:
    """The head of the answer. Raises MalformedAnswer."""
    fields = _fields(request, exchange)
    if decoded:
        fields = decoded_fields(fields)
    answer = PassedAnswer(exchange.status, exchange.reason, fields, None if decoded else exchange.length)
    if is_live(exchange):
        answer.headers["X-Accel-Buffering"] = "no"  # nginx in front of us would hold events back
    return answer


def switched(request: web.Request, exchange: Exchange, protocol: str) -> SwitchedAnswer:
    """The 101 as the caller gets it. Raises MalformedAnswer."""
    if [value.strip().lower() for value in values(exchange, "upgrade")] != [protocol]:
        raise MalformedAnswer(f"it switches to another protocol than {protocol}")
    return SwitchedAnswer(exchange.reason, _fields(request, exchange), protocol)


def signed(answer: PassedAnswer, request: web.Request, attempts: int) -> PassedAnswer:
    """With what we say about the exchange."""
    readable(request, answer.headers)
    if REQUEST_ID in request:
        answer.headers["Gateway-Request-Id"] = request[REQUEST_ID]
    answer.headers[ATTEMPTS] = str(attempts)
    return answer


def _fields(request: web.Request, exchange: Exchange) -> Fields:
    upstream = request[UPSTREAM]
    base = Address(upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    opened = request[CONNECTION]
    rewriter = Rewriter(base, f"{request.app[SERVICES].config.server.public_url}/proxy", opened.placement.query_names)
    return response_fields(exchange.headers, set_cookie=opened.integration.forward_set_cookie, rewrite=rewriter)
