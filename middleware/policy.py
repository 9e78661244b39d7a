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
from gateway.middleware.facts import ASKED, CALLER, RULE, UPSTREAM, handed
from gateway.records.proxied_call import UpstreamRequest


@web.middleware
async def policy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises Forbidden, also where a budget is spent."""
    caller = request[CALLER]
    if caller.access is not None:
        rule = check(caller, request[UPSTREAM], upgrade=asked_for(request) is not None)
        if rule:
            request[RULE] = rule
        if caller.access.meter is not None and not request[ASKED].dry_run and handed(request) is None:
            await caller.access.meter.spend()
    return await handler(request)


def check(caller: Caller, upstream: UpstreamRequest, *, upgrade: bool = False) -> str:
    """The rule that allows it, empty where the key has none. `upgrade`: it asks for a WebSocket.

    Raises Forbidden where a rule or a host of the key's does not allow it.
    """
    if not caller.policy.of_requests:
        return ""
    method = WEBSOCKET if upgrade else upstream.method
    decided = caller.policy.decision(sent(method, upstream))
    if isinstance(decided, str):
        return decided
    path = upstream.target.removeprefix(upstream.base_path).partition("?")[0]
    raise breached(decided, method, path or "/", below_base=upstream.base_path not in ("", "/"))


def sent(method: str, upstream: UpstreamRequest) -> SentRequest:
    path, _, query = upstream.target.partition("?")
    return SentRequest(method, upstream.host, path, query, {plain(name) for name in upstream.headers})
