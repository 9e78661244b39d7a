"""The facts that the chain has learned about a request: typed keys.

The comment beside a key names the middleware that sets it.
"""

from typing import Protocol, cast

from aiohttp import web

from gateway.access.caller import Caller, RateState
from gateway.access.tool_filter import ToolFilter
from gateway.connections.opened import Opened
from gateway.http.content_coding import Decoder
from gateway.http.proxy_options import ProxyOptions
from gateway.records.access import Capability, Environment
from gateway.records.connecting import ConnectSession
from gateway.records.proxied_call import Paging, ResponseShape, Timing, UpstreamRequest
from gateway.records.trace import CallTrace, trace_id_in

REQUEST_ID = web.RequestKey("request_id", str)  # request_id
TIMING = web.RequestKey("timing", Timing)  # access_log; `connection` and `forward` add their waiting times
TRACE = web.RequestKey("trace", CallTrace)  # access_log; absent: not sampled
CALLER = web.RequestKey("caller", Caller)  # bearer_key, capability
ENVIRONMENT = web.RequestKey("environment", Environment)  # bearer_key, capability
CAPABILITY = web.RequestKey("capability", Capability)  # capability; absent: called by headers
READ_BODY = web.RequestKey("read_body", bytes)  # key_rules; absent: no rule needed the body, which is still unread
TOOL = web.RequestKey("tool", str)  # the agent door, or key_rules for a call to an MCP server; absent: not a tool call
# key_rules; decides which tools of the response's list are shown
LISTED_TOOLS = web.RequestKey("listed_tools", ToolFilter)
RULE = web.RequestKey("rule", str)  # key_rules, or error_shape for a refusal; absent: the key has no rules
PACE = web.RequestKey("pace", RateState)  # pace; absent: the key has no rate
CONNECT_SESSION = web.RequestKey("connect_session", ConnectSession)  # session_token
PROXY_OPTIONS = web.RequestKey("asked", ProxyOptions)  # connection
CONNECTION = web.RequestKey("connection", Opened)  # connection
UPSTREAM = web.RequestKey("upstream", UpstreamRequest)  # upstream, then credentials writes into it
PAGING = web.RequestKey("paging", Paging)  # paginate; absent: one response is passed on unchanged
SHAPE = web.RequestKey("shape", ResponseShape)  # shape; absent: the whole response is wanted
# forward; absent: the response does not ask for scopes, or the key gets no link
CONNECT_URL = web.RequestKey("connect_url", str)
DECODER = web.RequestKey("decoder", Decoder)  # decompress; absent: bytes pass unchanged


class CountedCall(Protocol):
    """A call that has been counted for its key.

    `pace`: the key's rate limit, if it has one. `trace`: trace of a sampled call.
    """

    pace: RateState | None
    trace: CallTrace | None


def trace_id_of(request: web.BaseRequest) -> str | None:
    """Return the trace id of the caller's ``traceparent`` or, if a trace begins here, of that trace."""
    trace = request.get(TRACE)
    return trace_id_in(request.headers.get("traceparent")) if trace is None else trace.trace_id


def handover_of(request: web.BaseRequest) -> CountedCall | None:
    """Return the state that the fast path hands over with a request it has begun; None for other requests."""
    return cast("CountedCall | None", getattr(request.protocol, "handover", None))
