"""A call by address alone: ``/c/<capability>/…`` says who calls and on whose behalf; no header need do so."""

import re
from typing import Final
from urllib.parse import quote, unquote

from aiohttp import web

from gateway.access.caller import Caller
from gateway.access.known_keys import unknown
from gateway.middleware.bearer_key import caller_of
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER, CAPABILITY, ENVIRONMENT
from gateway.records.access import Capability
from gateway.secret import Secret, digest

PLACE: Final = "capability"  # in the route
REFERRER_POLICY: Final = ("Referrer-Policy", "no-referrer")
_PLACE_OF_ONE: Final = re.compile(r"(^/c/|/c/(?=gw_cap_))([^/?]+)")
_MINTED: Final = re.compile(r"gw_(?:cap|sk)_[A-Za-z0-9_-]+")
_STAY: Final = "/?&=:@!$'()*+,;~"


@web.middleware
async def capability(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn CALLER, ENVIRONMENT and CAPABILITY. Raises Unauthorized.

    An answer that is streamed is made `unreferred` where it is prepared, an error in `error_shape`.
    """
    token = request.match_info[PLACE]
    caller = await caller_of(request, token, "capability")
    request[CALLER] = caller
    request[ENVIRONMENT] = caller.environment
    request[CAPABILITY] = capability_of(caller, Secret(token), mounted(request, token))
    response = await handler(request)
    return response if response.prepared else unreferred(response, request)


def capability_of(caller: Caller, token: Secret, mount: str) -> Capability:
    """Raises Unauthorized for a key that is bound to no connection."""
    ref = caller.access.bound_to if caller.access is not None else None
    if ref is None:
        raise unknown("capability")
    return Capability(Secret(mount), token, ref)


def mounted(request: web.Request, token: str) -> str:
    resource = request.match_info.route.resource
    prefix = resource.canonical.partition("{")[0] if resource is not None else "/c/"
    return prefix + token


def unreferred(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """`response`; to a call by capability with our policy in place of any other, so that no page learns its address."""
    if CAPABILITY in request:
        name, value = REFERRER_POLICY
        response.headers[name] = value
    return response


def masked(path: str) -> str:
    """`path` fit for a log: a capability in it, or a key, is replaced by the first characters of its digest.

    However it is spelled (the router decodes before it matches) and wherever it stands: a mistyped address holds it too.
    """
    plainly = unquote(path) if "%" in path else path
    if plainly != path and (_PLACE_OF_ONE.search(plainly) or _MINTED.search(plainly)):
        path = quote(plainly, safe=_STAY)
    path = _PLACE_OF_ONE.sub(lambda found: found[1] + digest(found[2])[:8], path, count=1)
    return _MINTED.sub(lambda found: digest(found[0])[:8], path)
