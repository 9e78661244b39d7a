"""A 403 because the token lacks scopes: noted, and answered with a link by which the end user grants them.

The provider's answer passes as it is; the link travels in a header field of ours.
"""

from aiohttp import web

from gateway.egress.provider_exchange import ProviderExchange
from gateway.http.scope_challenge import refused_scopes
from gateway.middleware.access_log import path_below
from gateway.middleware.facts import CALLER, CONNECT_URL, CONNECTION, UPSTREAM
from gateway.proxy.exchange_watch import ExchangeWatch
from gateway.runtime import RUNTIME


async def note_refused_scopes(
    request: web.Request, exchange: ProviderExchange, watch: ExchangeWatch, *, at_home: bool
) -> None:
    """`at_home`: the answer is of the connection's own API, whose word about scopes counts."""
    scopes = refused_scopes(exchange.status, exchange.headers)
    if scopes is None or not at_home:
        return
    runtime, caller, opened = request.app[RUNTIME], request[CALLER], request[CONNECTION]
    with watch.resting():
        path = path_below(request[UPSTREAM].base_path, request[UPSTREAM].target)
        drift = await runtime.live.scope_refusals.note(opened, scopes, path)
        if drift.missing:
            url = await runtime.links.for_scopes(caller.policy, opened.connection, key_id=caller.key_id)
            if url is not None:
                request[CONNECT_URL] = url
