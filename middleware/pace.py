"""How fast the key may be used: counted before anything is done for it (docs/compatibility.md#rate-limits)."""

from collections.abc import Iterable

from aiohttp import web

from gateway.access.caller import KeyPace
from gateway.http.headers import Fields
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER, PACE, handed


@web.middleware
async def pace(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn PACE where the key has a rate. Raises TooManyRequests.

    An answer that is streamed gets these headers where it is prepared, an error in `error_shape`, both by `paced`.
    """
    caller = request.get(CALLER)  # None: a connect session
    access = caller.access if caller is not None else None
    before = handed(request)
    if before is not None:
        counted = before.pace
    else:
        counted = access.meter.pace() if access is not None and access.meter is not None else None
    if counted is None:
        return await handler(request)
    request[PACE] = counted
    response = await handler(request)
    return response if response.prepared else paced(response, request)


def paced(response: web.StreamResponse, request: web.Request) -> web.StreamResponse:
    """`response`, saying how much of the rate is left; what a provider says of its own limit stays."""
    counted = request.get(PACE)
    if counted is not None:
        response.headers.extend(pace_fields(counted, response.headers.items()))
    return response


def pace_fields(counted: KeyPace, present: Iterable[tuple[str, str]]) -> Fields:
    """What is added to an answer with the fields `present`: nothing where the provider sends a limit of its own."""
    ours = counted.headers()
    names = {name.lower() for name in ours}
    return [] if any(name.lower() in names for name, _ in present) else list(ours.items())
