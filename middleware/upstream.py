"""Finds the connection of a proxied call, and builds the outgoing request.

The request consists of the provider's base URL, the caller's raw path and headers, and the credential.
"""

from collections.abc import Container
from functools import lru_cache
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from gateway.access.caller import Caller
from gateway.access.refusals import no_integration_error
from gateway.connections.opened import OpenedConnection, Placement
from gateway.errors import InvalidRequest, MethodNotAllowed, NotFound, ReconnectNeeded
from gateway.generation import Generation
from gateway.http import headers, proxy_options, url
from gateway.http.headers import Fields, from_wire, normalized_name
from gateway.http.request_head import ALLOW, FORBIDDEN_METHODS
from gateway.http.url import with_query
from gateway.middleware.facts import (
    CALLER,
    CAPABILITY,
    CONNECTION,
    ENVIRONMENT,
    PROXY_OPTIONS,
    TIMING,
    UNUSABLE,
    UPSTREAM,
)
from gateway.middleware.key_limits import check_reach, check_tags, with_remedy
from gateway.origin import ParsedUrl, covers
from gateway.records.connection import ConnectionRef
from gateway.records.integration import DROP, TraceHeaders
from gateway.records.proxied_call import PROXY_PATH, UpstreamRequest
from gateway.records.trace import TRACE_FIELDS
from gateway.runtime import RUNTIME, generation_of

# ── Two headers or the capability URL name the connection.


@web.middleware
async def connection(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the connection that the request names, and set PROXY_OPTIONS and CONNECTION.

    Raises InvalidRequest for invalid and mistyped headers, and the errors of `ConnectionCache.open_connection`. If the
    end user must authorize again and the key has rules, sets UNUSABLE instead of raising ReconnectNeeded: a request
    that the rules forbid gets their refusal.

    A connection that is in memory and fresh is returned without yielding to the event loop.
    """
    capability = request.get(CAPABILITY)
    options = proxy_options.parse_proxy_options(request.headers, capability.ref[1:] if capability is not None else None)
    ref = ConnectionRef(request[ENVIRONMENT].name, options.integration_id, options.connection_id)
    runtime, caller = request.app[RUNTIME], request[CALLER]
    request[PROXY_OPTIONS] = options
    proxy_options.check_own_headers(request.headers)
    check_reach(caller, ref)
    opened = runtime.live.peek(ref)
    if opened is None or not caller.policy.allows_tags(opened.connection.tags):
        opened = await _load_connection(request, caller, ref)
    request[CONNECTION] = opened
    return await handler(request)


async def _load_connection(request: web.Request, caller: Caller, ref: ConnectionRef) -> OpenedConnection:
    runtime = request.app[RUNTIME]
    with request[TIMING].waiting_for_token():
        try:
            await check_tags(runtime, caller, ref)
            return await runtime.live.open_connection(*ref)
        except (NotFound, ReconnectNeeded) as fault:
            if isinstance(fault, ReconnectNeeded) and caller.policy.limits_requests:
                unusable = await runtime.live.open_unusable(ref)
                if unusable is not None:
                    request[UNUSABLE] = fault
                    return unusable
            if fault.code == "unknown_provider_config" and caller.policy.limits_resources:
                # The new error does not suggest an existing name, which this key may not learn.
                raise no_integration_error(ref.environment, ref.integration_id) from fault
            raise await with_remedy(request, fault, ref) from fault


# ── The connection's base URL, and the caller's path, query and header fields.


@web.middleware
async def upstream(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Build the outgoing request without the credential, and set UPSTREAM.

    Raises MethodNotAllowed, and InvalidRequest ``bad_path``, ``invalid_headers`` or ``base_url_override_not_allowed``.
    """
    if request.method in FORBIDDEN_METHODS:
        raise MethodNotAllowed("method_not_allowed", f"{request.method} is not proxied.", headers=ALLOW, close=True)
    base = _base_url(request[CONNECTION], request[PROXY_OPTIONS].base_url)
    target = url.origin_form(request.raw_path, request.headers.get(hdrs.HOST, ""))
    capability = request.get(CAPABILITY)
    mount, token, mount_text = route_prefix(request), "", None
    if capability is not None:
        mount, token, mount_text = capability.mount.reveal(), capability.token.reveal(), f"{mount}/<capability>"
    request[UPSTREAM] = UpstreamRequest(
        method=request.method,
        scheme=base.scheme,
        host=base.host,
        port=base.port,
        target=provider_target(request[CONNECTION], base, target, mount, mount_text),
        headers=CIMultiDict(headers.request_fields(from_wire(request.raw_headers), token)),
        base_path=base.path,
    )
    return await handler(request)


def route_prefix(request: web.Request) -> str:
    """Return the start of every path of this route, including a host application's prefix: ``/gateway/proxy``."""
    resource = request.match_info.route.resource
    return resource.canonical.partition("{")[0].rstrip("/") if resource is not None else PROXY_PATH


def provider_target(
    opened: OpenedConnection, base: ParsedUrl, target: str, mount: str, shown: str | None = None
) -> str:
    """Return the target of the outgoing request, without the credential's query parameters.

    `base`: the base URL of the call. `target`: the caller's target, in origin form. `mount`, `shown`: see
    `parse_proxied_target`. Raises InvalidRequest ``bad_path``.
    """
    proxied_target = url.parse_proxied_target(target, mount, shown)
    if opened.secret_base is None:
        proxied_target = url.without_base(proxied_target, base)
    return url.join_target(base.path, proxied_target)


def _base_url(opened: OpenedConnection, override: ParsedUrl | None) -> ParsedUrl:
    own_base = opened.base
    if override is None:
        return own_base
    allowed_origins = opened.allowed_origins | {own_base.origin}
    if not covers(allowed_origins, override.origin):
        http_hint = "" if override.scheme == "https" else ", and its network to egress.allow, because it is plain http"
        allowed_names = allowed_origins if opened.secret_base is None else allowed_origins - {own_base.origin}
        raise InvalidRequest(
            "base_url_override_not_allowed",
            f"Base-Url-Override {override.origin} is not allowed; allowed: {', '.join(sorted(allowed_names)) or 'none'}. "
            f"To allow it, add it to allowed_origins of the integration{http_hint}.",
        )
    return override


# ── The connection's credential replaces all fields of the caller with the same names.

CONTENT_TYPE: Final = "content-type"


@web.middleware
async def credentials(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write the credential into UPSTREAM.

    The hop-by-hop fields were removed before, so ``Connection: authorization`` from the caller cannot remove the
    credential.
    """
    opened, upstream = request[CONNECTION], request[UPSTREAM]
    place_credential(opened, upstream, has_body=request.body_exists)
    if trace_headers(opened, generation_of(request)) == DROP:
        for name in TRACE_FIELDS:
            upstream.headers.popall(name, None)
    return await handler(request)


def place_credential(opened: OpenedConnection, upstream: UpstreamRequest, *, has_body: bool) -> None:
    """Write the slots and the default fields of the provider's catalog entry into `upstream`.

    Slots carry the credential and replace the caller's fields. Default fields are added if the caller did not send
    them; the default ``content-type`` is added only if there is a body. As a second check, raises InvalidRequest
    ``base_url_override_not_allowed`` if the credential may not be sent to this origin.
    """
    base = opened.base
    is_own_origin = (upstream.scheme, upstream.host, upstream.port) == (base.scheme, base.host, base.port)
    if not is_own_origin and not covers(opened.allowed_origins, upstream.origin):
        raise InvalidRequest(
            "base_url_override_not_allowed", f"This connection's credential may not be sent to {upstream.origin}."
        )
    upstream.identity = opened.identity
    placement = opened.placement
    credential_names = replaced_names(placement)
    for name in {name for name in upstream.headers if normalized_name(name) in credential_names}:
        upstream.headers.popall(name, None)
    upstream.headers.extend(placement.slots)
    if placement.defaults:
        present_names = {name.lower() for name in upstream.headers}
        upstream.headers.extend(default_fields(placement, present_names, has_body=has_body))
    if placement.query_slots or placement.query_defaults:
        upstream.target = with_query(upstream.target, placement.query_slots, placement.query_defaults)


def trace_headers(opened: OpenedConnection, generation: Generation) -> TraceHeaders:
    """Return how to treat ``traceparent`` and ``tracestate``: the integration's setting, else
    `egress.trace_headers`."""
    return opened.integration.trace_headers or generation.config.egress.trace_headers


def replaced_names(placement: Placement) -> frozenset[str]:
    """Return the normalized names of the fields that the credential replaces.

    The caller's fields with these names are never passed on. Names are compared in normalized form, because a CGI back
    end does not distinguish ``X_Api_Key`` from ``X-Api-Key``. Such a back end could use the caller's value instead of
    the credential.
    """
    signed = placement.signer.fields if placement.signer is not None else ()
    return _normalized_names((*[name for name, _ in placement.slots], *signed))


@lru_cache(maxsize=1024)
def _normalized_names(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalized_name, names))


def default_fields(placement: Placement, present_names: Container[str], *, has_body: bool) -> Fields:
    """Return the default fields of the provider's entry that the request does not have.

    `present_names`: the names of the request's fields, in lower case. The default ``content-type`` is returned only if the
    request has a body.
    """
    return [
        (name, value)
        for name, value in placement.defaults
        if name.lower() not in present_names and (has_body or name.lower() != CONTENT_TYPE)
    ]
