"""With what right: the connection's credential is laid over whatever the caller put in its place."""

from collections.abc import Container
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.connections.opened import Opened, Placement
from gateway.errors import InvalidRequest
from gateway.generation import Generation
from gateway.http.headers import Fields, plain
from gateway.http.origin import covers
from gateway.http.url import with_query
from gateway.middleware.facts import CONNECTION, UPSTREAM
from gateway.records.integration import DROP, TraceHeaders
from gateway.records.proxied_call import UpstreamRequest
from gateway.records.trace import TRACE_FIELDS
from gateway.runtime import generation_of

CONTENT_TYPE: Final = "content-type"


@web.middleware
async def credentials(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write into UPSTREAM, after hop-by-hop fields are gone: ``Connection: authorization`` strips nothing of ours."""
    opened, upstream = request[CONNECTION], request[UPSTREAM]
    place(opened, upstream, has_body=request.body_exists)
    if trace_headers(opened, generation_of(request)) == DROP:
        for name in TRACE_FIELDS:
            upstream.headers.popall(name, None)
    return await handler(request)


def place(opened: Opened, upstream: UpstreamRequest, *, has_body: bool) -> None:
    """The entry's slots replace, its defaults stand in; ``content-type`` only for a body.

    Asks once more whether the credential may travel there. Raises InvalidRequest ``base_url_override_not_allowed``.
    """
    base = opened.base
    at_home = (upstream.scheme, upstream.host, upstream.port) == (base.scheme, base.host, base.port)
    if not at_home and not covers(opened.allowed_origins, upstream.origin):
        raise InvalidRequest("base_url_override_not_allowed", f"This credential does not travel to {upstream.origin}.")
    upstream.identity = opened.identity
    placement = opened.placement
    replaced = replaced_names(placement)
    for name in {name for name in upstream.headers if plain(name) in replaced}:
        upstream.headers.popall(name, None)
    upstream.headers.extend(placement.slots)
    present = {name.lower() for name in upstream.headers}
    upstream.headers.extend(default_fields(placement, present, has_body=has_body))
    if placement.query_slots or placement.query_defaults:
        upstream.target = with_query(upstream.target, placement.query_slots, placement.query_defaults)


def trace_headers(opened: Opened, generation: Generation) -> TraceHeaders:
    """What becomes of ``traceparent`` and ``tracestate``: as the integration says, else as `egress.trace_headers` does."""
    return opened.integration.trace_headers or generation.config.egress.trace_headers


def replaced_names(placement: Placement) -> frozenset[str]:
    """The names, spelled plainly, under which nothing of the caller's travels on.

    A back end that follows CGI would read ``X_Api_Key`` beside our ``X-Api-Key``, and might take the caller's.
    """
    signed = placement.signer.fields if placement.signer is not None else ()
    return frozenset(plain(name) for name in (*(name for name, _ in placement.slots), *signed))


def default_fields(placement: Placement, present: Container[str], *, has_body: bool) -> Fields:
    """The entry's fields that stand in where there is none of that name in `present` (lower case); a type only for a body."""
    return [
        (name, value)
        for name, value in placement.defaults
        if name.lower() not in present and (has_body or name.lower() != CONTENT_TYPE)
    ]
