"""Makes a tool's call to the provider: a request to ``/proxy`` in this process, with the caller's own key."""

import re
from dataclasses import dataclass
from typing import Final

from gateway.egress.page_memory import Reservation
from gateway.mcp.agent_message import AgentMessage
from gateway.mcp.in_process_call import call_in_process
from gateway.mcp.mcp_request import McpRequest
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.collected_response import CollectedResponse, InProcessRequest
from gateway.records.trace import TRACEPARENT, TRACESTATE

MAX_RESPONSE_BYTES: Final = 8 << 20  # maximum size of a provider's response, decoded
COPIES_IN_MEMORY: Final = 3  # a response is in memory three times: as received, as values, and as the text to send
MAX_CALL_S: Final = 120.0  # maximum time that an agent waits, also for an endless stream
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE: Final = re.compile(r"[\x20-\x7e]{1,512}")


@dataclass(slots=True)
class RepeatableCall:
    """A call to the provider, with the data to send the same call again.

    `tool`: the name of the MCP tool that made the call; None if no tool made the call.
    """

    method: str
    target: str
    connection: str
    tool: str | None = None


def _without_key() -> None:
    """Return no key, because a capability URL needs no key."""


class ResponseMemory:
    """The part of the shared page memory that is reserved for one response."""

    def __init__(self, outer: AgentMessage) -> None:
        self._outer = outer
        self._reserved: Reservation | None = None

    async def room(self, size: int) -> None:
        """Reserve memory when a response first exceeds `INLINE_BYTES`. `size`: the response's current size in bytes.

        Raises NoPageMemory if there is not enough memory.
        """
        if size > INLINE_BYTES and self._reserved is None:
            outer = self._outer
            wait_s = outer.generation.config.egress.limits.wait_s
            memory = outer.runtime.page_memory
            self._reserved = await memory.reserve(outer.caller.share, COPIES_IN_MEMORY * MAX_RESPONSE_BYTES, wait_s)

    def release(self) -> None:
        if self._reserved is not None:
            self._reserved.release()


async def call_proxy(
    request: McpRequest,
    repeatable: RepeatableCall,
    body: bytes | None,
    content_type: str | None,
    memory: ResponseMemory,
) -> CollectedResponse:
    """Make the call through ``/proxy`` or the capability URL, with the caller's own key.

    Raises NoPageMemory, and TimeoutError after `MAX_CALL_S`.
    """
    call = provider_request(request, repeatable, body, content_type)
    return await call_in_process(request.outer, call, memory.room)


def provider_request(
    request: McpRequest, call: RepeatableCall, body: bytes | None, content_type: str | None
) -> InProcessRequest:
    """Return the request to ``/proxy`` or the capability URL, with the caller's own key."""
    outer = request.outer
    traceparent, tracestate = outer.head.traceparent, outer.head.tracestate
    if outer.trace is not None:
        traceparent = outer.trace.traceparent()  # the call belongs to the message's trace
    meta = request.message.params.get("_meta")
    if isinstance(meta, dict):
        meta_traceparent, meta_tracestate = meta.get("traceparent"), meta.get("tracestate")
        if isinstance(meta_traceparent, str) and _TRACEPARENT.fullmatch(meta_traceparent):
            # A tracestate belongs to the traceparent that it came with (W3C Trace Context §3.3).
            traceparent = meta_traceparent
            is_valid = isinstance(meta_tracestate, str) and _TRACESTATE.fullmatch(meta_tracestate)
            tracestate = meta_tracestate if is_valid else None
    traces = {} if traceparent is None else {TRACEPARENT: traceparent}
    if tracestate is not None:
        traces[TRACESTATE] = tracestate
    integration, _, connection_id = call.connection.partition("/")
    return InProcessRequest(
        call.method,
        outer.mount,
        call.target,
        _without_key if outer.by_capability else outer.authorization,
        outer.head.user_agent,
        outer.head.head_id,
        integration,
        connection_id,
        traces,
        content_type,
        body,
        outer.request_id,
        call.tool,
        MAX_RESPONSE_BYTES,
        MAX_CALL_S,
    )
