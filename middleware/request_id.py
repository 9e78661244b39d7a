"""Names the exchange: the caller's X-Request-Id if it is fit to be logged, else one of ours."""

import os
import re
import secrets
from typing import Final

from aiohttp import web
from multidict import istr

from gateway.middleware.chain import Handler
from gateway.middleware.facts import REQUEST_ID
from gateway.records.operation import request_in_hand

FIT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
GIVEN: Final = istr("X-Request-Id")
HEADER: Final = istr("Gateway-Request-Id")


@web.middleware
async def request_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set REQUEST_ID, and put it on the answer; one that is streamed gets it where it is prepared, by `named`."""
    if REQUEST_ID not in request:  # an application that is ours altogether has been here already
        request[REQUEST_ID] = fit(request.headers.get(GIVEN)) or new_id()
    request_in_hand.set(request[REQUEST_ID])
    try:
        response = await handler(request)
    except web.HTTPException as fault:  # a redirect: the only one that `error_shape` lets through
        named(fault, request)
        raise
    return response if response.prepared else named(response, request)


def fit(given: str | None) -> str | None:
    """The caller's own name for the exchange, if it can be logged as it is."""
    return given if given is not None and FIT.fullmatch(given) else None


def new_id() -> str:
    """96 random bits in hex: enough to be alone in any log. Drawn by the hundred, since each draw asks the kernel."""
    if not _drawn:
        drawn = secrets.token_hex(12 * 128)
        _drawn.extend(drawn[at : at + 24] for at in range(0, len(drawn), 24))
    return _drawn.pop()


_drawn: Final[list[str]] = []
os.register_at_fork(after_in_child=_drawn.clear)  # or two workers would give the same names


def named(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """`response`, carrying the exchange's name; to be called before it is prepared."""
    response.headers[HEADER] = request[REQUEST_ID]
    return response
