"""Who acts, for the audit trail: the key, the connect session or the browser, and the address that it came from."""

from aiohttp import web

from gateway.access.caller import Caller
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER, CONNECT_SESSION
from gateway.records.audit import AuditActor
from gateway.records.audit import acting as acting_now


@web.middleware
async def acting(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set `gateway.records.audit.acting` for as long as the request is handled. To stand behind what learns who calls."""
    token = acting_now.set(_actor(request))
    try:
        return await handler(request)
    finally:
        acting_now.reset(token)  # the next request on this connection may be another's


def _actor(request: web.Request) -> AuditActor:
    caller: Caller | None = request.get(CALLER)
    address, session = request.remote or "", request.get(CONNECT_SESSION)
    if caller is not None:
        return caller.actor(address)
    if session is None:
        return AuditActor("browser", address=address)
    key_id = int(session.key_id) if session.key_id else None
    return AuditActor("session", key_id=key_id, session=session.digest[:16], address=address)
