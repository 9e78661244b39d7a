"""Finds the connection of a proxied call in the caller's environment.

Two headers or the capability URL name the connection.
"""

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.access.caller import Caller
from gateway.access.refusals import no_connection_error, no_integration_error
from gateway.connections.opened import Opened
from gateway.errors import NotFound, ReconnectNeeded
from gateway.http import proxy_options
from gateway.middleware.facts import CALLER, CAPABILITY, CONNECTION, ENVIRONMENT, PROXY_OPTIONS, TIMING
from gateway.records.connection import ConnectionRef
from gateway.records.proxied_call import CallTiming
from gateway.runtime import RUNTIME, Runtime


@web.middleware
async def proxied(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the request as proxied, so that the call log has it even if the key's scope or rate limit refuses it."""
    request[TIMING].proxied = True
    return await handler(request)


@web.middleware
async def connection(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the connection that the request names, and set PROXY_OPTIONS and CONNECTION.

    Raises InvalidRequest for invalid and mistyped headers, and the errors of `ConnectionCache.open_connection`.

    A connection that is in memory and fresh is returned without yielding to the event loop.
    """
    called_by = request.get(CAPABILITY)
    options = proxy_options.parse_proxy_options(request.headers, called_by.ref[1:] if called_by is not None else None)
    ref = ConnectionRef(request[ENVIRONMENT].name, options.integration_id, options.connection_id)
    runtime, caller = request.app[RUNTIME], request[CALLER]
    request[PROXY_OPTIONS] = options
    proxy_options.check_own_headers(request.headers)
    check_reach(caller, ref)
    opened = runtime.live.peek(ref)
    if opened is None or not caller.policy.fits(opened.connection.tags):
        opened = await _load_connection(runtime, caller, ref, request[TIMING], pollable=called_by is None)
    request[CONNECTION] = opened
    return await handler(request)


def check_reach(caller: Caller, ref: ConnectionRef) -> None:
    """Raise NotFound if the key's limits exclude the integration or the connection. The store is not read."""
    policy = caller.policy
    if not policy.limits_resources:
        return
    if not policy.reaches_integration(ref.integration_id):
        raise no_integration_error(ref.environment, ref.integration_id)
    if not policy.reaches(ref.integration_id, ref.connection_id):
        raise no_connection_error(ref.integration_id, ref.connection_id)


async def check_tags(runtime: Runtime, caller: Caller, ref: ConnectionRef) -> None:
    """Raise NotFound if no connection with this name has the tags that the key is limited to.

    The store is read for every connection name, so that the response time does not reveal whether a connection is
    missing or only forbidden for this key.
    """
    if not caller.policy.limits_tags:
        return
    row = await runtime.store.connections.get(ref)
    if row is None or not caller.policy.fits(row.tags):
        raise no_connection_error(ref.integration_id, ref.connection_id)


async def _load_connection(
    runtime: Runtime, caller: Caller, ref: ConnectionRef, timing: CallTiming, *, pollable: bool
) -> Opened:
    with timing.waiting_for_token():
        try:
            await check_tags(runtime, caller, ref)
            return await runtime.live.open_connection(*ref)
        except (NotFound, ReconnectNeeded) as fault:
            if fault.code == "unknown_provider_config" and caller.policy.limits_resources:
                # The new error does not suggest an existing name, which this key may not learn.
                raise no_integration_error(ref.environment, ref.integration_id) from fault
            with_remedy = runtime.links.with_remedy
            raise await with_remedy(fault, caller.policy, ref, key_id=caller.key_id, pollable=pollable) from fault
