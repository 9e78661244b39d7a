"""Enforces the limits of the caller's key: scopes (`scope`), rate limit (`rate_limit`) and rules (`key_rules`).

`check_reach` and `check_tags` check the connections that the key may use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import hdrs, web

from gateway.access.body_rules import MAX_BODY_BYTES, TOOLS_CALL, TOOLS_LIST, read_body
from gateway.access.caller import Caller, RateState
from gateway.access.key_policy import SentRequest
from gateway.access.key_rule import WEBSOCKET
from gateway.access.refusals import (
    beyond_limits_error,
    breach_error,
    missing_scope_error,
    no_connection_error,
    no_integration_error,
    unread_body_error,
)
from gateway.access.scopes import EVERYTHING
from gateway.access.tool_filter import ToolFilter
from gateway.connections.opened import OpenedConnection
from gateway.errors import GatewayError
from gateway.http.content_coding import Decoder
from gateway.http.headers import Fields, normalized_name
from gateway.http.request_head import requested_upgrade
from gateway.middleware.chain import Handler
from gateway.middleware.facts import (
    CALLER,
    CAPABILITY,
    CONNECTION,
    DECODER,
    LISTED_TOOLS,
    PAGING,
    PROXY_OPTIONS,
    RATE_STATE,
    READ_BODY,
    RULE,
    TOOL,
    UNUSABLE,
    UPSTREAM,
    handover_of,
)
from gateway.middleware.request_message import read_limited_body
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.records.connection import ConnectionRef
from gateway.records.proxied_call import UpstreamRequest
from gateway.runtime import RUNTIME, Runtime

# ── Scopes: each handler declares the scope that the key needs; without a declaration, the key needs every scope.

NEEDS_ATTRIBUTE: Final = "__gateway_needs__"

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class KeyNeeds:
    """What a handler declares about keys.

    `scopes`: the key needs one of these scopes; empty: the key needs no scope. `limits`: whether the handler itself
    enforces the integrations and connections to which the key is limited.
    """

    scopes: tuple[str, ...]
    limits: bool


UNDECLARED: Final = KeyNeeds((EVERYTHING,), limits=False)


def needs(*scopes: str, limits: bool = False) -> Callable[[H], H]:
    """Declare which scope a key needs to call the handler.

    With several `scopes`, one of these scopes is enough. Without `scopes`, any key can call the handler. Without
    `limits`, a key that is limited to some integrations or connections is refused, because the handler does not check
    these limits.
    """

    def declare(handler: H) -> H:
        setattr(handler, NEEDS_ATTRIBUTE, KeyNeeds(scopes, limits))
        return handler

    return declare


@web.middleware
async def scope(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the key's scope. Raises Forbidden."""
    caller = request.get(CALLER)  # None for a connect session, which may call every handler of its chains
    if caller is not None and caller.access is not None:
        declaration: KeyNeeds = getattr(request.match_info.handler, NEEDS_ATTRIBUTE, UNDECLARED)
        policy = caller.policy
        if declaration.scopes and not any(policy.allows(name) for name in declaration.scopes):
            raise missing_scope_error(*declaration.scopes)
        if policy.limits_resources and not declaration.limits:
            raise beyond_limits_error("this endpoint does not support such limits")
    return await handler(request)


# ── The integrations and connections to which the key is limited.


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
    if row is None or not caller.policy.allows_tags(row.tags):
        raise no_connection_error(ref.integration_id, ref.connection_id)


async def with_remedy(request: web.Request, fault: GatewayError, ref: ConnectionRef) -> GatewayError:
    """Return the fault of a missing or unusable connection, with the next step for this caller."""
    caller, pollable = request[CALLER], CAPABILITY not in request
    links = request.app[RUNTIME].links
    return await links.with_remedy(fault, caller.policy, ref, key_id=caller.key_id, pollable=pollable)


# ── The key's rate limit: a call is counted before any other work for the call (docs/compatibility.md#rate-limits).


@web.middleware
async def rate_limit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count the call and set RATE_STATE, if the key has a rate limit. Raises TooManyRequests.

    A call that the fast path has counted is not counted again. The rate limit headers are added here to a response that
    is not prepared yet. Code that prepares a streamed response calls `add_rate_limit_headers` itself, and so does
    `error_shape` for errors.
    """
    caller = request.get(CALLER)  # None for a connect session
    access = caller.access if caller is not None else None
    from_fast_path = handover_of(request)
    if from_fast_path is not None:
        rate_state = from_fast_path.rate_state
    else:
        rate_state = access.meter.count_against_rate() if access is not None and access.meter is not None else None
    if rate_state is None:
        return await handler(request)
    request[RATE_STATE] = rate_state
    response = await handler(request)
    return response if response.prepared else add_rate_limit_headers(response, request)


def add_rate_limit_headers(response: web.StreamResponse, request: web.Request) -> web.StreamResponse:
    """Add the rate limit headers to `response`, and return `response`.

    If the provider's response already has such headers, the response stays unchanged.
    """
    rate_state = request.get(RATE_STATE)
    if rate_state is not None:
        response.headers.extend(rate_limit_fields(rate_state, response.headers.items()))
    return response


def rate_limit_fields(rate_state: RateState, present_fields: Iterable[tuple[str, str]]) -> Fields:
    """Return the rate limit fields to add to a response; empty if the response already has one of these fields.

    `present_fields`: the fields that the response has.
    """
    rate_headers = rate_state.headers()
    names = {name.lower() for name in rate_headers}
    return [] if any(name.lower() in names for name, _ in present_fields) else list(rate_headers.items())


# ── The key's rules are compared with the request as it will be sent.
#
# The rules run after the base URL was joined and the URL of the requested page was set. So the request that is checked
# is the request that is sent. If a rule needs the body, the whole body is read first, within a size limit, and exactly
# these bytes are sent.

# These fields are removed from a request that lists tools: a partial response could not be filtered as a list.
_RANGE_FIELDS: Final = (hdrs.RANGE, hdrs.IF_RANGE)
_TOO_LARGE: Final = f"A rule of this key reads the body, so the body may have at most {MAX_BODY_BYTES >> 20} MiB."


@web.middleware
async def key_rules(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the key's rules, and count the call in the key's budget.

    A dry run is not counted. Raises Forbidden if a rule forbids the request, or if the budget is used up, and
    ReconnectNeeded if the rules allow the request but its connection cannot be used.
    """
    caller = request[CALLER]
    if caller.access is not None:
        method = WEBSOCKET if requested_upgrade(request) is not None else request[UPSTREAM].method
        rule = _decide(caller, request[UPSTREAM], request_for_rules(method, request[UPSTREAM], request[CONNECTION]))
        if rule is None:
            rule = await _decide_by_body(request, caller, request[UPSTREAM])
        if rule:
            request[RULE] = rule
        if (fault := request.get(UNUSABLE)) is not None:
            raise await with_remedy(request, fault, request[CONNECTION].connection.ref) from fault
        if caller.access.meter is not None and not request[PROXY_OPTIONS].dry_run and handover_of(request) is None:
            await caller.access.meter.count_against_budget()
    return await handler(request)


def check_rules(caller: Caller, upstream: UpstreamRequest, opened: OpenedConnection, *, upgrade: bool = False) -> str:
    """Return the rule that allows the request; an empty text if the key has no rules.

    `upgrade`: whether the request asks for a WebSocket. Raises Forbidden if a rule or a host limit forbids the request,
    or if the decision needs the body.
    """
    rule = _decide(caller, upstream, request_for_rules(WEBSOCKET if upgrade else upstream.method, upstream, opened))
    if rule is None:
        raise unread_body_error()
    return rule


def _decide(caller: Caller, upstream: UpstreamRequest, request: SentRequest) -> str | None:
    """Return the rule that allows `request`, or None if the decision needs the body. Raises Forbidden.

    Return an empty text if the key has no rules.
    """
    if not caller.policy.limits_requests:
        return ""
    decision = caller.policy.decision(request)
    if isinstance(decision, str):
        return decision
    if decision.broken_limit == "unread_body":
        return None
    path = upstream.target.removeprefix(upstream.base_path).partition("?")[0]
    raise breach_error(decision, request.method, path or "/", below_base=upstream.base_path not in ("", "/"))


async def _decide_by_body(request: web.Request, caller: Caller, upstream: UpstreamRequest) -> str:
    """Read the body, and return the rule that allows the request with this body.

    Sets READ_BODY in the request. For a tool call of an MCP server, also sets TOOL. For a request that lists tools, also
    sets LISTED_TOOLS and DECODER, and removes the outgoing range fields: the whole list must be read to filter it.
    Raises Forbidden, BodyTooLarge, InvalidRequest.
    """
    if PAGING in request or request[CONNECTION].placement.body is not None:
        raise unread_body_error("The gateway would send a different body")
    await read_limited_body(request, MAX_BODY_BYTES, _TOO_LARGE)
    raw_body = await request.read()
    fields = [(name, value) for name, value in upstream.headers.items()]
    arguments = fields, upstream.target.partition("?")[2], raw_body
    is_large = len(raw_body) > INLINE_BYTES
    body = await off_loop(caller.share, read_body, *arguments) if is_large else read_body(*arguments)
    request_with_body = request_for_rules(upstream.method, upstream, request[CONNECTION])._replace(body=body)
    decide_arguments = caller, upstream, request_with_body
    is_slow = caller.policy.is_slow_for(body)
    rule = await off_loop(caller.share, _decide, *decide_arguments) if is_slow else _decide(*decide_arguments)
    if rule is None:
        raise unread_body_error()
    request[READ_BODY] = raw_body
    if not isinstance(body.mcp, str):
        if body.mcp.method == TOOLS_CALL:
            request[TOOL] = body.mcp.tool
        if body.mcp.method == TOOLS_LIST:
            request[LISTED_TOOLS] = ToolFilter(caller.policy, request_with_body)
            request[DECODER] = Decoder()
            for name in _RANGE_FIELDS:
                upstream.headers.popall(name, None)
    return rule


def request_for_rules(method: str, upstream: UpstreamRequest, opened: OpenedConnection) -> SentRequest:
    """Return the parts of the request that the key's rules check.

    `method`: the HTTP method, or WEBSOCKET for an upgrade.
    """
    names = {normalized_name(name) for name in upstream.headers}
    return sent_request(opened, method, upstream.host, upstream.target, names)


def sent_request(opened: OpenedConnection, method: str, host: str, target: str, names: Iterable[str]) -> SentRequest:
    """Return the parts of a request that the key's rules check.

    `target`: the outgoing path and query, without the credential. `names`: the names of the outgoing fields, normalized
    by `normalized_name`.
    """
    path, _, query = target.partition("?")
    return SentRequest(method, host, opened.path_for_rules(path), query, names)
