"""Enforces the key's limits: its scope (which handlers), its rate (pace), and its rules (key_rules)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import hdrs, web

from gateway.access.body_rules import MAX_BODY_BYTES, TOOLS_CALL, TOOLS_LIST, read_body
from gateway.access.caller import Caller, RateState
from gateway.access.key_policy import WEBSOCKET, SentRequest
from gateway.access.refusals import beyond_limits_error, breach_error, missing_scope_error, unread_body_error
from gateway.access.scopes import EVERYTHING
from gateway.access.tool_filter import ToolFilter
from gateway.connections.opened import Opened
from gateway.http.content_coding import Decoder
from gateway.http.headers import Fields, normalized_name
from gateway.http.request_head import requested_upgrade
from gateway.middleware.chain import Handler
from gateway.middleware.facts import (
    CALLER,
    CONNECTION,
    DECODER,
    LISTED_TOOLS,
    PACE,
    PAGING,
    PROXY_OPTIONS,
    READ_BODY,
    RULE,
    TOOL,
    UPSTREAM,
    handover_of,
)
from gateway.middleware.request_message import read_within
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.records.proxied_call import UpstreamRequest

# ── Scopes: each handler declares which scope it needs; a handler without a declaration needs all of them.

NEEDS_ATTRIBUTE: Final = "__gateway_needs__"

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Needs:
    """A handler's declaration. `scopes`: any one of these is needed, none if empty. `limits`: the handler itself
    enforces the key's integrations and connections."""

    scopes: tuple[str, ...]
    limits: bool


UNDECLARED: Final = Needs((EVERYTHING,), limits=False)


def needs(*scopes: str, limits: bool = False) -> Callable[[H], H]:
    """Declare which scope a handler needs. With several, one of them is enough;
    with none, any key may call the handler.

    Without `limits`, keys limited to some integrations or connections are refused,
    since the handler does not check them.
    """

    def declare(handler: H) -> H:
        setattr(handler, NEEDS_ATTRIBUTE, Needs(scopes, limits))
        return handler

    return declare


@web.middleware
async def scope(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the key's scope. Raises Forbidden."""
    caller = request.get(CALLER)  # None: a connect session, which may call every handler of its chains
    if caller is not None and caller.access is not None:
        declaration: Needs = getattr(request.match_info.handler, NEEDS_ATTRIBUTE, UNDECLARED)
        policy = caller.policy
        if declaration.scopes and not any(policy.allows(name) for name in declaration.scopes):
            raise missing_scope_error(*declaration.scopes)
        if policy.of_resources and not declaration.limits:
            raise beyond_limits_error("this endpoint does not support such limits")
    return await handler(request)


# ── The key's rate: the call is counted before any work is done for it (docs/compatibility.md#rate-limits).


@web.middleware
async def pace(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set PACE if the key has a rate. Raises TooManyRequests.

    `add_pace_headers` adds the rate's headers: to a streamed response when it is prepared, to an error in
    `error_shape`.
    """
    caller = request.get(CALLER)  # None: a connect session
    access = caller.access if caller is not None else None
    from_fast_path = handover_of(request)
    if from_fast_path is not None:
        key_pace = from_fast_path.pace
    else:
        key_pace = access.meter.pace() if access is not None and access.meter is not None else None
    if key_pace is None:
        return await handler(request)
    request[PACE] = key_pace
    response = await handler(request)
    return response if response.prepared else add_pace_headers(response, request)


def add_pace_headers(response: web.StreamResponse, request: web.Request) -> web.StreamResponse:
    """Add the rate limit headers to `response`, and return it. If the provider sends such headers, they stay and ours
    are not added."""
    key_pace = request.get(PACE)
    if key_pace is not None:
        response.headers.extend(pace_fields(key_pace, response.headers.items()))
    return response


def pace_fields(key_pace: RateState, present: Iterable[tuple[str, str]]) -> Fields:
    """Return the rate limit fields to add to a response with the fields `present`:
    none if it has one of them already."""
    ours = key_pace.headers()
    names = {name.lower() for name in ours}
    return [] if any(name.lower() in names for name, _ in present) else list(ours.items())


# ── The key's rules: they are matched against the request as it will be sent.
#
# They run after the join with the base URL, and after a page's URL is known, so the checked request is the sent one. If
# a rule needs the body, the whole body is read first, within a limit, and exactly those bytes are sent.

_RANGE_FIELDS: Final = (hdrs.RANGE, hdrs.IF_RANGE)  # a part of a response is not a list
_TOO_LARGE: Final = f"A rule of this key reads the body, so the body may have at most {MAX_BODY_BYTES >> 20} MiB."


@web.middleware
async def key_rules(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the key's rules, and spend a call from its budget. Raises Forbidden, also if the budget is spent."""
    caller = request[CALLER]
    if caller.access is not None:
        method = WEBSOCKET if requested_upgrade(request) is not None else request[UPSTREAM].method
        rule = _decide(caller, request[UPSTREAM], request_for_rules(method, request[UPSTREAM], request[CONNECTION]))
        if rule is None:
            rule = await _decide_by_body(request, caller, request[UPSTREAM])
        if rule:
            request[RULE] = rule
        if caller.access.meter is not None and not request[PROXY_OPTIONS].dry_run and handover_of(request) is None:
            await caller.access.meter.spend()
    return await handler(request)


def check_rules(caller: Caller, upstream: UpstreamRequest, opened: Opened, *, upgrade: bool = False) -> str:
    """Return the rule that allows the request, empty if the key has no rules. `upgrade`: it asks for a WebSocket.

    Raises Forbidden if a rule or a host limit forbids the request, or allows it only with a certain body.
    """
    rule = _decide(caller, upstream, request_for_rules(WEBSOCKET if upgrade else upstream.method, upstream, opened))
    if rule is None:
        raise unread_body_error()
    return rule


def _decide(caller: Caller, upstream: UpstreamRequest, request: SentRequest) -> str | None:
    """Decide as `check_rules` does; return None if the decision needs the body. Raises Forbidden."""
    if not caller.policy.of_requests:
        return ""
    decided = caller.policy.decision(request)
    if isinstance(decided, str):
        return decided
    if decided.broken == "unread_body":
        return None
    path = upstream.target.removeprefix(upstream.base_path).partition("?")[0]
    raise breach_error(decided, request.method, path or "/", below_base=upstream.base_path not in ("", "/"))


async def _decide_by_body(request: web.Request, caller: Caller, upstream: UpstreamRequest) -> str:
    """Return the rule that allows this body.

    Set READ_BODY, TOOL, LISTED_TOOLS. Raises Forbidden, BodyTooLarge, InvalidRequest.
    """
    if PAGING in request or request[CONNECTION].placement.body is not None:
        raise unread_body_error("The gateway would send a different body")
    await read_within(request, MAX_BODY_BYTES, _TOO_LARGE)
    raw = await request.read()
    head = [(name, value) for name, value in upstream.headers.items()]
    arguments = head, upstream.target.partition("?")[2], raw
    large = len(raw) > INLINE_BYTES
    body = await off_loop(caller.share, read_body, *arguments) if large else read_body(*arguments)
    with_body = request_for_rules(upstream.method, upstream, request[CONNECTION])._replace(body=body)
    decide = caller, upstream, with_body
    slow = caller.policy.is_slow_for(body)
    rule = await off_loop(caller.share, _decide, *decide) if slow else _decide(*decide)
    if rule is None:
        raise unread_body_error()
    request[READ_BODY] = raw
    if not isinstance(body.mcp, str):
        if body.mcp.method == TOOLS_CALL:
            request[TOOL] = body.mcp.tool
        if body.mcp.method == TOOLS_LIST:
            request[LISTED_TOOLS] = ToolFilter(caller.policy, with_body)
            request[DECODER] = Decoder()
            for name in _RANGE_FIELDS:
                upstream.headers.popall(name, None)
    return rule


def request_for_rules(method: str, upstream: UpstreamRequest, opened: Opened) -> SentRequest:
    """Return the request as the key's rules see it. `method`: WEBSOCKET for an upgrade."""
    path, _, query = upstream.target.partition("?")
    return SentRequest(
        method, upstream.host, opened.path_for_rules(path), query, {normalized_name(name) for name in upstream.headers}
    )
