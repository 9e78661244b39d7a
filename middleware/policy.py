"""Whether the key may send this: its rules are held against the request as it will leave.

After the join with the base URL and after a page's address is known, so that what is looked at is what is sent.
"""

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.access.caller import Caller
from gateway.access.key_policy import WEBSOCKET, SentRequest
from gateway.access.refusals import breached
from gateway.http.fields import plain
from gateway.http.websocket import asked_for
from gateway.middleware.facts import ASKED, CALLER, UPSTREAM, handed
from gateway.records.proxied_call import UpstreamRequest


@web.middleware
async def policy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises Forbidden, also where a budget is spent."""
    caller = request[CALLER]
    if caller.access is not None:
        check(caller, request[UPSTREAM], upgrade=asked_for(request) is not None)
        if caller.access.meter is not None and not request[ASKED].dry_run and handed(request) is None:
            await caller.access.meter.spend()
    return await handler(request)


def check(caller: Caller, upstream: UpstreamRequest, *, upgrade: bool = False) -> None:
    """Raises Forbidden where a rule or a host of the key's does not allow it. `upgrade`: it asks for a WebSocket."""
    if not caller.policy.of_requests:
        return
    method = WEBSOCKET if upgrade else upstream.method
    breach = caller.policy.breach(sent(method, upstream))
    if breach is not None:
        path = upstream.target.removeprefix(upstream.base_path).partition("?")[0]
        raise breached(breach, method, path or "/", below_base=upstream.base_path not in ("", "/"))


def sent(method: str, upstream: UpstreamRequest) -> SentRequest:
    path, _, query = upstream.target.partition("?")
    return SentRequest(method, upstream.host, path, query, {plain(name) for name in upstream.headers})
