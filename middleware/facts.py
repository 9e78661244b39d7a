"""The facts that the middleware chain stores in a request, under typed keys.

The comment at a key names the middleware that sets the key.
"""

from typing import Protocol, cast

from aiohttp import web

from gateway.access.caller import Caller, RateState
from gateway.access.tool_filter import ToolFilter
from gateway.connections.opened import OpenedConnection
from gateway.errors import GatewayError
from gateway.http.content_coding import Decoder
from gateway.http.proxy_options import ProxyOptions
from gateway.records import trace
from gateway.records.access import Capability, Environment
from gateway.records.connecting import ConnectSession
from gateway.records.proxied_call import CallTiming, Paging, ResponseShape, UpstreamRequest
from gateway.records.trace import CallTrace

REQUEST_ID = web.RequestKey("request_id", str)  # set by request_id
TIMING = web.RequestKey("timing", CallTiming)  # set by access_log; `connection` and `forward` add their waiting times
TRACE = web.RequestKey("trace", CallTrace)  # set by access_log; absent if the request is not sampled
CALLER = web.RequestKey("caller", Caller)  # set by bearer_key or capability
ENVIRONMENT = web.RequestKey("environment", Environment)  # set by bearer_key, capability or session_token
CAPABILITY = web.RequestKey("capability", Capability)  # set by capability; absent in a call without a capability URL
READ_BODY = web.RequestKey("read_body", bytes)  # set by key_rules if a rule needs the body; absent: the body is unread
IN_PROCESS = web.RequestKey("in_process", bool)  # set by the MCP endpoint for its calls to providers; otherwise absent
# Set by the MCP endpoint, or by key_rules for a call to an MCP server; absent if the request is not a tool call.
TOOL = web.RequestKey("tool", str)
# Set by key_rules for a request that lists tools: decides which tools stay in the response's list.
LISTED_TOOLS = web.RequestKey("listed_tools", ToolFilter)
RULE = web.RequestKey("rule", str)  # set by key_rules, or by error_shape for a refusal; absent if the key has no rules
RATE_STATE = web.RequestKey("rate_state", RateState)  # set by rate_limit; absent if the key has no rate limit
CONNECT_SESSION = web.RequestKey("connect_session", ConnectSession)  # set by session_token
PROXY_OPTIONS = web.RequestKey("proxy_options", ProxyOptions)  # set by connection
CONNECTION = web.RequestKey("connection", OpenedConnection)  # set by connection
# Set by connection if the credential cannot be used: the error that key_rules raises if the key's rules allow the request.
UNUSABLE = web.RequestKey("unusable", GatewayError)
UPSTREAM = web.RequestKey("upstream", UpstreamRequest)  # set by upstream; credentials adds the credential to it
PAGING = web.RequestKey("paging", Paging)  # set by paginate; absent if the caller wants a single response, unchanged
SHAPE = web.RequestKey("shape", ResponseShape)  # set by shape; absent if the caller wants the whole response
# Set by forward for a response with missing scopes, if the key may get a link at which the end user grants them.
CONNECT_URL = web.RequestKey("connect_url", str)
DECODER = web.RequestKey("decoder", Decoder)  # set by decompress, shape or key_rules; absent if nothing is decoded


class CountedCall(Protocol):
    """A call that the fast path has already counted for its key.

    `rate_state`: the state of the key's rate limit; None if the key has no rate limit. `trace`: the trace of the call;
    None if the call is not sampled.
    """

    rate_state: RateState | None
    trace: CallTrace | None


def request_trace_id(request: web.BaseRequest) -> str | None:
    """Return the trace id in TRACE or, without TRACE, in the caller's ``traceparent``; None if there is none."""
    return trace.trace_id_of(request.get(TRACE), request.headers.get(trace.TRACEPARENT))


def handover_of(request: web.BaseRequest) -> CountedCall | None:
    """Return the state of a request that the fast path has begun and handed over; None for any other request."""
    return cast("CountedCall | None", getattr(request.protocol, "handover", None))
