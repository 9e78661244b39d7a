"""Reports the health and the readiness of the process to load balancers. No key is needed."""

from typing import Final, Literal

from aiohttp import hdrs, web

from gateway import clock
from gateway.api import responses
from gateway.errors import Code, GatewayError
from gateway.middleware.response_shape import ERROR_HEADER
from gateway.runtime import RUNTIME, Runtime
from gateway.store.preflight import POSTGRES

NOT_READY: Final[Code] = "not_ready"
INSTANCE_HEADER: Final = "Gateway-Instance"


async def health(request: web.Request) -> web.Response:
    """Respond with 200 as long as the process runs. As soon as the process serves requests, the header
    `Gateway-Instance` identifies the gateway's instance."""
    runtime = request.app[RUNTIME]
    headers = {INSTANCE_HEADER: runtime.store.instance} if runtime.serving else {}
    return web.json_response(responses.Result(result="ok"), headers=headers)


async def ready(request: web.Request) -> web.Response:
    """Respond with 200 if this node can serve requests. Respond with 503 before the start is complete, after a stop has
    begun, and during an outage of the database in which memory may not be used.

    The body has the shape of docs/compatibility.md#requests, with a member for each problem:

        "store": "away"              the database cannot be reached; with PostgreSQL, memory serves calls (ADR 23)
        "store": "damaged"           the database is damaged; calls are served if their data can be read
        "store": "full"              the disk is full; calls are served, but no token is refreshed
        "store": "read-only"         the database is read-only; as with "full"
        "clock": "off"               the node's clock differs from the database's clock by seconds
        "clock": "refused"           the node's clock differs so much that this node does not refresh tokens
        "journal": "unwritable"      replies of token endpoints cannot be written into the refresh journal
        "failover": "reconciling"    after a failover of the database, tokens are not refreshed (ADR 64)

    ``clock_offset_seconds`` is the number of seconds by which the database's clock is ahead of the node's clock. A node
    that can serve requests returns 200 even if the body has some of these members. With the query ``store=required``,
    each problem of the store and a refused clock change the status to 503. The header ``Gateway-Error`` distinguishes
    this 503 from the 503 of a proxy in front of the gateway.
    """
    status, body = await readiness(request.app[RUNTIME], required=request.query.get("store") == "required")
    if status == 200 and len(body) == 1:
        return web.json_response(body)
    headers = {hdrs.CACHE_CONTROL: "no-store", **({} if status == 200 else {ERROR_HEADER: NOT_READY})}
    return web.json_response(body, status=status, headers=headers)


async def readiness(runtime: Runtime, *, required: bool) -> tuple[int, responses.Readiness]:
    """Return the status and the body of ``/ready``. `required`: return 503 also for a problem of the store and for a
    refused clock."""
    store_away = runtime.serving and await is_store_away(runtime)
    store = _store_fault(runtime, is_unreachable=store_away)
    offset = clock.offset
    is_ready = runtime.serving and (not store_away or (has_shared_store(runtime) and runtime.live.feed.may_serve))
    if required and (store or (offset.is_reported and offset.is_refused)):
        is_ready = False
    body = responses.Readiness(result="ok" if is_ready else "not ready")
    if store is not None:
        body["store"] = store
    if offset.is_reported:
        body["clock"] = "refused" if offset.is_refused else "off"
        body["clock_offset_seconds"] = round(offset.seconds, 3)
    if runtime.serving and not runtime.journal_writable:
        body["journal"] = "unwritable"
    if runtime.serving and runtime.store.failover.pending:
        body["failover"] = "reconciling"
    return (200 if is_ready else 503), body


def _store_fault(runtime: Runtime, *, is_unreachable: bool) -> Literal["away", "damaged", "full", "read-only"] | None:
    if runtime.serving and runtime.store.damaged:
        return "damaged"
    if is_unreachable:
        return "away"
    if runtime.serving and runtime.store.full:
        return "full"
    return "read-only" if runtime.serving and runtime.store.read_only else None


def has_shared_store(runtime: Runtime) -> bool:
    """Return whether several nodes can share the store. An outage of a shared store is not a fault of this node."""
    return runtime.generation.config.store.url.startswith(POSTGRES)


async def is_store_away(runtime: Runtime) -> bool:
    """Return whether the store cannot be reached. The change feed reads a shared store at least once a second, and this
    function returns the last result. A SQLite file is read now."""
    if has_shared_store(runtime):
        return runtime.live.feed.outage_s is not None
    try:
        await runtime.store.ping()
    except GatewayError:
        return True
    return False
