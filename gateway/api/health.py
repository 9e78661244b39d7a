"""Health and readiness of the process, for load balancers; no key is needed."""

from typing import Final, Literal

from aiohttp import hdrs, web

from gateway import clock
from gateway.api import responses
from gateway.errors import Code, GatewayError
from gateway.middleware.response_shape import MARK
from gateway.runtime import RUNTIME, Runtime
from gateway.store.preflight import POSTGRES

NOT_READY: Final[Code] = "not_ready"
INSTANCE: Final = "Gateway-Instance"


async def health(request: web.Request) -> web.Response:
    """Respond with 200 as long as the process runs. The header `Gateway-Instance` names the instance, once it
    serves."""
    runtime = request.app[RUNTIME]
    headers = {INSTANCE: runtime.store.instance} if runtime.serving else {}
    return web.json_response(responses.Result(result="ok"), headers=headers)


async def ready(request: web.Request) -> web.Response:
    """Respond with 200 while this node serves, and with 503 before that and from the moment a stop begins.

    If a shared database is away, nodes that serve from memory stay at 200; the body reports ``"store": "away"``, and
    with the query ``store=required`` the status is 503 (ADR 0023). A damaged database is reported as ``"store":
    "damaged"`` in the same way: readable data is served. A full disk is ``"store": "full"``: calls are served, but no
    token is refreshed. A clock that differs from the database's by seconds is ``"clock": "off"``; by so much that this
    node does not refresh tokens, ``"clock": "refused"``, which with ``store=required`` is also 503;
    ``clock_offset_seconds`` is how far the database's clock is ahead. ``"journal": "unwritable"``: token endpoints'
    replies cannot be journaled. ``"failover": "reconciling"``: after a failover of the database, tokens are not
    refreshed (ADR 64). These two do not change the status. The body is that of docs/compatibility.md#requests;
    ``Gateway-Error`` distinguishes this 503 from one of a proxy in front of the gateway.
    """
    status, body = await readiness(request.app[RUNTIME], required=request.query.get("store") == "required")
    if status == 200 and len(body) == 1:
        return web.json_response(body)
    headers = {hdrs.CACHE_CONTROL: "no-store", **({} if status == 200 else {MARK: NOT_READY})}
    return web.json_response(body, status=status, headers=headers)


async def readiness(runtime: Runtime, *, required: bool) -> tuple[int, responses.Readiness]:
    """Return status and body of ``/ready``. `required`: the database must be usable."""
    away = runtime.serving and await store_away(runtime)
    store = _store_fault(runtime, away=away)
    offset = clock.offset
    serves = runtime.serving and (not away or (shared(runtime) and runtime.live.feed.serves))
    if required and (store or (offset.reported and offset.refused)):
        serves = False
    body = responses.Readiness(result="ok" if serves else "not ready")
    if store is not None:
        body["store"] = store
    if offset.reported:
        body["clock"] = "refused" if offset.refused else "off"
        body["clock_offset_seconds"] = round(offset.seconds, 3)
    if runtime.serving and not runtime.journal_writable:
        body["journal"] = "unwritable"
    if runtime.serving and runtime.store.failover.pending:
        body["failover"] = "reconciling"
    return (200 if serves else 503), body


def _store_fault(runtime: Runtime, *, away: bool) -> Literal["away", "damaged", "full"] | None:
    if runtime.serving and runtime.store.damaged:
        return "damaged"
    if away:
        return "away"
    return "full" if runtime.serving and runtime.store.full else None


def shared(runtime: Runtime) -> bool:
    """Return whether other nodes may use the store too. If it is away, that is no fault of this node."""
    return runtime.generation.config.store.url.startswith(POSTGRES)


async def store_away(runtime: Runtime) -> bool:
    """Return whether the store is away. A shared store is polled every second, and this returns the last result; a
    SQLite file is read now."""
    if shared(runtime):
        return runtime.live.feed.away_s is not None
    try:
        await runtime.store.ping()
    except GatewayError:
        return True
    return False
