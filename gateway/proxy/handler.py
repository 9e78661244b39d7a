"""Runs one exchange, from the caller's request to the end of the response."""

from collections.abc import Iterator

from aiohttp import hdrs, web

from gateway.access.scopes import PROXY
from gateway.egress.egress_errors import EgressError
from gateway.egress.provider_exchange import ProviderExchange
from gateway.http.content_coding import CodingError
from gateway.http.headers import MalformedResponse
from gateway.http.passed_head import ATTEMPTS
from gateway.http.request_head import requested_upgrade
from gateway.middleware.access_log import logged_path
from gateway.middleware.facts import CALLER, CONNECT_URL, CONNECTION, PAGING, PROXY_OPTIONS, UPSTREAM
from gateway.middleware.key_limits import needs
from gateway.proxy.attempts import Attempts
from gateway.proxy.caller_body import CallerBody
from gateway.proxy.exchange_watch import ExchangeTimeout, ExchangeWatch, first_byte_s
from gateway.proxy.no_response import error_for_caller
from gateway.proxy.page_fetch import PageAttempts
from gateway.proxy.paged_response import page_stream, pass_pages
from gateway.proxy.passed_response import (
    PassedResponse,
    ResponseBody,
    body_of,
    response_of,
    switching_response,
    with_gateway_fields,
)
from gateway.proxy.posted_list import read_posted_list
from gateway.proxy.shaped_response import (
    FilteredEvents,
    filtered_head,
    filtered_whole,
    is_event_stream,
    is_filtered,
    is_shaped,
    shaped_response,
)
from gateway.proxy.upgrade_tunnel import Tunnel
from gateway.runtime import RUNTIME, generation_of


@needs(PROXY, limits=True)
async def forward(request: web.Request) -> web.StreamResponse:
    """Send `request[UPSTREAM]` with the caller's body, and pass the response on, whatever its status.

    Raises a GatewayError if there is no response to pass on. After the response has begun, a failure closes the
    caller's connection.
    """
    timeouts = generation_of(request).egress.timeouts
    watch = ExchangeWatch(request, first_byte_s(request[PROXY_OPTIONS], timeouts), timeouts.total_s)
    upload = CallerBody(request, watch)
    upgrade = requested_upgrade(request)
    attempts = (PageAttempts if PAGING in request else Attempts)(request, upload, watch, upgrade)
    response: PassedResponse | None = None
    try:
        with watch:
            upstream = request[UPSTREAM]
            if upload.inflated:
                upstream.headers.popall(hdrs.CONTENT_ENCODING, None)
            posted_list = await read_posted_list(request, upload) if PAGING in request else None
            upload.exchange = exchange = await attempts.response()
            watch.record_progress()
            watch.limit_s = timeouts.idle_s
            await _record_refused_scopes(request, attempts, watch)
            if upgrade is not None and exchange.status == 101:
                response = with_gateway_fields(switching_response(request, exchange, upgrade), request, attempts.count)
                await _relay(exchange, response, request, watch)
                return response
            if PAGING in request and 200 <= exchange.status < 300:
                response = with_gateway_fields(page_stream(), request, attempts.count)
                if upgrade is not None:
                    response.force_close()
                limit_s = first_byte_s(request[PROXY_OPTIONS], timeouts)
                await pass_pages(request, exchange, response, upload, watch, limit_s, posted_list)
                return response
            body = await body_of(request, exchange)
            if upgrade is None and is_shaped(request, exchange):
                response, content = await shaped_response(request, exchange, body, watch, attempts.count)
                await _write_whole(content, response, request)
                return response
            response = _head(request, exchange, body, attempts.count)
            if upgrade is not None:
                response.force_close()  # after an upgrade request, the server reads no HTTP from this connection
            await _pass_on(exchange, body, response, request, watch)
    except (EgressError, CodingError, ExchangeTimeout, MalformedResponse) as fault:
        if response is None or not response.prepared:
            error = error_for_caller(fault, request, upload)
            error.headers[ATTEMPTS] = str(attempts.count)
            error.close |= upgrade is not None
            raise error from fault
        response.abort()
    except ConnectionError:  # the caller disconnected during the response, or the provider reset an upgraded connection
        if response is None:
            raise
        response.abort()
    finally:
        if upload.exchange is not None:
            upload.exchange.close()
    return response


async def _relay(
    exchange: ProviderExchange, response: PassedResponse, request: web.Request, watch: ExchangeWatch
) -> None:
    """Relay bytes between the caller and the provider after a 101. There is no limit on silence."""
    await response.prepare(request)
    tunnel = Tunnel(request)
    try:
        with watch.suspend_silence_limit():
            await tunnel.run(exchange)
    finally:
        response.count(tunnel.bytes_out)


def _head(request: web.Request, exchange: ProviderExchange, body: ResponseBody, attempts: int) -> PassedResponse:
    """Return the head of the response for the caller. Raises MalformedResponse."""
    if is_filtered(request, exchange):
        return filtered_head(request, exchange, body, attempts)
    return with_gateway_fields(response_of(request, exchange, decoded=body.decoder is not None), request, attempts)


async def _pass_on(
    exchange: ProviderExchange, body: ResponseBody, response: PassedResponse, request: web.Request, watch: ExchangeWatch
) -> None:
    """Pass the body on piece by piece.

    If the response is a list of tools, first remove the tools that the key does not allow.
    """
    if not is_filtered(request, exchange):
        await _write_parts(body, response, request, watch)
        return
    if is_event_stream(exchange):
        await _write_parts(FilteredEvents(request, body), response, request, watch)
        return
    content = await filtered_whole(request, body, watch)
    response.set_length_of(content)
    await _write_whole(content, response, request)


async def _write_whole(content: bytes, response: PassedResponse, request: web.Request) -> None:
    response.head_with_first_write = True
    await response.prepare(request)
    await response.write(content)
    await response.write_eof()


async def _write_parts(
    body: ResponseBody | FilteredEvents, response: PassedResponse, request: web.Request, watch: ExchangeWatch
) -> None:
    response.head_with_first_write = isinstance(body, ResponseBody) and body.has_arrived
    await response.prepare(request)
    parts: Iterator[bytes] | None = body.first
    while parts is not None:
        for part in parts:
            if part:
                await response.write(part)
                watch.record_progress()
        parts = await body.next()
        watch.record_progress()
    await response.write_eof()


# ── Records a 403 for missing scopes, and adds a link at which the end user can grant the scopes.
#
# The caller gets the provider's response unchanged, with the link in the header field Gateway-Connect-Url.


async def _record_refused_scopes(request: web.Request, attempts: Attempts, watch: ExchangeWatch) -> None:
    """Record the scopes that a 403 names as missing, and set CONNECT_URL, a link at which the end user can grant them.

    A 403 from another origin than the connection's own API is not recorded.
    """
    scopes = attempts.refused_scopes
    if scopes is None or not attempts.at_own_api:
        return
    runtime, caller, opened = request.app[RUNTIME], request[CALLER], request[CONNECTION]
    with watch.suspend_silence_limit():
        path = logged_path(request[UPSTREAM].base_path, request[UPSTREAM].target)
        drift = await runtime.live.scope_refusals.record(opened, scopes, path)
        if drift.missing:
            url = await runtime.links.scopes_link(caller.policy, opened.connection, key_id=caller.key_id)
            if url is not None:
                request[CONNECT_URL] = url
