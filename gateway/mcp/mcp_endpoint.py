"""Handles ``POST /mcp``: reads a message, calls ``/proxy``, and returns a result.

The path can also be below a session or a capability URL.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from aiohttp import hdrs, web

from gateway.access.refusals import CREATE_KEY, rule_and_fix
from gateway.access.scopes import PROXY
from gateway.api.request_body import read_query
from gateway.errors import Forbidden, InvalidRequest
from gateway.mcp import mcp_messages as rpc
from gateway.mcp.agent_message import AgentMessage, McpResponse, check_origin, head_of, mount_beside
from gateway.mcp.key_tools import KeyTools
from gateway.mcp.mcp_messages import McpReply, RpcError, RpcNotification, RpcRequest
from gateway.mcp.mcp_request import McpRequest, count
from gateway.mcp.tool_provider_call import provider_request
from gateway.mcp.tool_run import PreparedCall, ToolRun
from gateway.mcp.whole_responses import WholeResponses
from gateway.middleware.facts import CALLER, CAPABILITY, REQUEST_ID, TRACE
from gateway.middleware.key_limits import needs
from gateway.off_loop import off_loop
from gateway.proxy.collected_response import CollectedResponse
from gateway.records.trace import TOOL_ERROR, McpTrace
from gateway.runtime import RUNTIME, generation_of

LIST_TTL_MS: Final = 60_000
INSTRUCTIONS: Final = (
    "Each tool is a request that this key may send to a provider's API. Responses are cut to max_bytes; 'select' "
    "(JMESPath) takes the fields you need. A refusal names the rule that refused and what to do next."
)


@needs(PROXY, limits=True)
async def respond_to_mcp(request: web.Request) -> web.StreamResponse:
    """Handle one message that came through the middleware chain. Raises the same errors as `response_to`."""
    read_query(request, ())
    capability = request.get(CAPABILITY)
    resource = request.match_info.route.resource
    path = "/mcp" if resource is None else resource.canonical
    response = await response_to(
        AgentMessage(
            request.app,
            request.app[RUNTIME],
            generation_of(request),
            request[CALLER],
            request[REQUEST_ID],
            head_of(request.headers),
            lambda: request.headers.get(hdrs.AUTHORIZATION),
            await request.read(),  # the middleware chain has already read the body
            mount_beside(path) if capability is None else capability.mount.reveal(),
            capability is not None,
            request.protocol,
            request.remote,
            request.get(TRACE),
        )
    )
    return response.for_aiohttp()


async def response_to(message: AgentMessage) -> McpResponse:
    """Return the response to a message that the middleware chain or the fast path has accepted.

    Raises Forbidden for a key of gateway.yaml and for a foreign Origin, InvalidRequest for a client that does not
    accept JSON, and TooManyRequests.
    """
    caller, head, body = message.caller, message.head, message.body
    check_origin(head.origin, message.generation)
    if caller.access is None:
        raise Forbidden(
            "forbidden",
            f"A key of gateway.yaml has no limits, so agents may not use it. Create a key with rules: {CREATE_KEY}.",
            payload=rule_and_fix("key", f"Create a key for the agent: {CREATE_KEY}."),
        )
    if not rpc.accepts_json(head.accept):
        raise InvalidRequest("invalid_headers", "Accept must have application/json: responses of /mcp are JSON.")
    rpc_message = message.rpc_message
    try:
        if rpc_message is None:
            read, fields = rpc.read_message, head.mcp_fields
            rpc_message = await off_loop(caller.share, read, body, fields) if message.is_large else read(body, fields)
        if isinstance(rpc_message, RpcNotification):
            count(caller)
            reply = rpc.ACCEPTED
        else:
            make_result = _result if message.trace is None else _traced_result
            result = await make_result(McpRequest(message, rpc_message))
            reply = rpc.result_reply(rpc_message, result.members, _server(), result.ttl_ms, result.structured_json)
    except RpcError as fault:
        if not message.called:  # if a call has begun, /proxy has counted the message
            count(caller)
        request = rpc_message if isinstance(rpc_message, RpcRequest) else None
        if request is not None:
            request_id: int | str | None = request.id
        else:
            request_id = await off_loop(caller.share, rpc.id_in, body) if message.is_large else rpc.id_in(body)
        reply = rpc.error_reply(fault, request, request_id)
    if reply.body is None:
        return McpResponse(reply.status, None)
    return await _encode_reply(reply, caller.share)


async def _encode_reply(reply: McpReply, share: str) -> McpResponse:
    content = await off_loop(share, reply.content) if reply.is_large else reply.content()
    return McpResponse(reply.status, content)


def ready_call(message: AgentMessage) -> "ReadyCall | None":
    """Return the ``tools/call`` in a message, if only the provider's response must be awaited. No I/O.

    Return None, without any effect, for any other message, and for a message with a fault. Then use `response_to`.
    """
    caller, head = message.caller, message.head
    if head.origin is not None or caller.access is None or message.is_large or not rpc.accepts_json(head.accept):
        return None
    try:
        rpc_message = message.rpc_message = rpc.read_message(message.body, head.mcp_fields)
    except RpcError:
        return None
    if not isinstance(rpc_message, RpcRequest) or rpc_message.method != "tools/call":
        return None
    request = McpRequest(message, rpc_message)
    run = ToolRun(request, KeyTools(request))
    prepared = run.prepared_call(rpc_message.params)
    return None if prepared is None else ReadyCall(request, run, prepared)


class ReadyCall:
    """A ``tools/call`` that can be sent to the provider. `request`: the request to ``/proxy`` or the capability URL."""

    __slots__ = ("_prepared", "_request", "_run", "request")

    def __init__(self, request: McpRequest, run: ToolRun, prepared: PreparedCall) -> None:
        self._request = request
        self._run = run
        self._prepared = prepared
        call = prepared.call
        self.request = provider_request(request, prepared.repeatable, call.body, call.content_type)

    def content_now(self, provider_response: CollectedResponse) -> bytes | None:
        """Return the JSON text of the response to the message; None if making it takes long. Then use `response`."""
        result = self._run.result_now(self._prepared, provider_response)
        return None if result is None else self._reply(result).content()

    async def response(self) -> McpResponse:
        """Make the call, or continue it if it has begun, and return the response to the message."""
        reply = self._reply(await self._run.run_call(self._prepared))
        return await _encode_reply(reply, self._request.caller.share)

    def _reply(self, result: dict[str, Any]) -> McpReply:
        return rpc.result_reply(self._request.message, result, _server(), None, self._run.structured_json)


@cache
def _server() -> Mapping[str, str]:
    return {"name": "integration-gateway", "version": version("integration-gateway")}


CAPABILITIES: Final[dict[str, Any]] = {"tools": {}, "resources": {}}
LIST_NAMES: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""The methods that return a list, each with the list's name in the result."""
REMOVED_IN_2026: Final = frozenset({"initialize", "ping"})
"""The methods that revision 2026-07-28 has removed."""


class McpResult(NamedTuple):
    """The result of a message.

    `members`: the members of the result's JSON object. `ttl_ms`: the time for which the client can cache the result, in
    milliseconds; None if this kind of result has no such time. `structured_json`: the result's ``structuredContent`` as
    JSON text; None if that text is not known.
    """

    members: dict[str, Any]
    ttl_ms: int | None = None
    structured_json: str | None = None


async def _traced_result(request: McpRequest) -> McpResult:
    """Return the result of `_result`, and record the method and the outcome in the message's span. Raises RpcError."""
    trace, message = request.trace, request.message
    assert trace is not None
    method = message.method if message.method in rpc.METHODS else "_OTHER"
    mcp = trace.mcp = McpTrace(method, message.revision, str(message.id))
    try:
        result = await _result(request)
    except RpcError as fault:
        mcp.error = str(fault.code)
        raise
    if result.members.get("isError"):
        mcp.error = TOOL_ERROR
    return result


async def _result(request: McpRequest) -> McpResult:
    """Return the result of a request. Raises RpcError.

    Each request is counted once against the key's rate. After an RpcError, `response_to` counts the request. For a call
    to the provider, ``/proxy`` counts the request. All other requests are counted here.
    """
    method, params = request.message.method, request.message.params
    tools = KeyTools(request)
    if method in ("tools/call", "tools/list"):
        await tools.find_off_loop()
    if method == "tools/call":
        run = ToolRun(request, tools)
        return McpResult(await run.result(params), None, run.structured_json)
    if method == "resources/read":
        return McpResult(await WholeResponses(request).read(params), 0)
    if method in LIST_NAMES and params.get("cursor") is not None:
        raise RpcError(rpc.INVALID_PARAMS, "Unknown cursor: every list here fits on one page.")
    if (
        method not in LIST_NAMES
        and method != "server/discover"
        and (request.message.modern or method not in REMOVED_IN_2026)
    ):
        raise RpcError(rpc.METHOD_NOT_FOUND, f"Unknown method '{method}'.")
    request.count()
    if method == "tools/list":
        return McpResult({"tools": tools.shown_tools()}, LIST_TTL_MS)
    if method in LIST_NAMES:
        return McpResult({LIST_NAMES[method]: []}, LIST_TTL_MS)
    if method == "server/discover":
        server_facts: dict[str, Any] = {
            "supportedVersions": list(rpc.REVISIONS),
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
        return McpResult(server_facts, LIST_TTL_MS)
    if method == "ping":
        return McpResult({})
    server_facts = {
        "protocolVersion": rpc.negotiate_revision(params),
        "capabilities": CAPABILITIES,
        "serverInfo": _server(),
    }
    return McpResult({**server_facts, "instructions": INSTRUCTIONS})
