"""With what right: the connection's credential is laid over whatever the caller put in its place."""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.connections.opened import Opened
from gateway.errors import InvalidRequest
from gateway.http.fields import plain
from gateway.http.url import with_query
from gateway.middleware.facts import CONNECTION, UPSTREAM
from gateway.records.proxied_call import UpstreamRequest


@web.middleware
async def credentials(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write into UPSTREAM, after hop-by-hop fields are gone: ``Connection: authorization`` strips nothing of ours."""
    place(request[CONNECTION], request[UPSTREAM], has_body=request.body_exists)
    return await handler(request)


def place(opened: Opened, upstream: UpstreamRequest, *, has_body: bool) -> None:
    """The entry's slots replace, its defaults stand in; ``content-type`` only for a body.

    Asks once more whether the credential may travel there. Raises InvalidRequest ``base_url_override_not_allowed``.
    """
    base = opened.base
    at_home = (upstream.scheme, upstream.host, upstream.port) == (base.scheme, base.host, base.port)
    if not at_home and upstream.origin not in opened.allowed_origins:
        raise InvalidRequest("base_url_override_not_allowed", f"This credential does not travel to {upstream.origin}.")
    upstream.identity = opened.identity
    placement = opened.placement
    slots = {plain(name) for name, _ in placement.slots}
    if placement.signer is not None:
        slots |= {plain(name) for name in placement.signer.fields}
    # A back end that follows CGI would read X_Api_Key beside our X-Api-Key, and might take the caller's.
    for name in {name for name in upstream.headers if plain(name) in slots}:
        upstream.headers.popall(name, None)
    upstream.headers.extend(placement.slots)
    for name, value in placement.defaults:
        if name not in upstream.headers and (has_body or name.lower() != hdrs.CONTENT_TYPE.lower()):
            upstream.headers.add(name, value)
    if placement.query_slots or placement.query_defaults:
        upstream.target = with_query(upstream.target, placement.query_slots, placement.query_defaults)
