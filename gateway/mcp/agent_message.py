"""A POST to the MCP endpoint that the middleware chain or the fast path has read and accepted. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import hdrs, web
from multidict import MultiMapping

from gateway.access.caller import Caller
from gateway.errors import Forbidden
from gateway.generation import Generation
from gateway.middleware.response_shape import accept_of
from gateway.off_loop import INLINE_BYTES
from gateway.records.proxied_call import PROXY_PATH
from gateway.records.trace import TRACEPARENT, TRACESTATE, CallTrace
from gateway.runtime import Runtime

if TYPE_CHECKING:
    from gateway.mcp.mcp_messages import RpcNotification, RpcRequest

MCP_PREFIX: Final = "mcp-"
_MCP_PATHS: Final = ("/mcp", "/session/{session_id}", "/sessions/{session_id}")


class MessageHead(NamedTuple):
    """The header fields of a message that the MCP endpoint reads, except the key.

    `accept`, `origin`, `user_agent`, `traceparent`, `tracestate`: the value of the header; None if the client did not
    send the header. `mcp_fields`: the fields with names that begin with ``Mcp-``, in order. `head_id`: identifies the
    key and all fields before `traceparent` in the fast path's memory; None if the fast path does not remember them.
    """

    accept: str | None
    origin: str | None
    user_agent: str | None
    traceparent: str | None
    tracestate: str | None
    mcp_fields: Sequence[tuple[str, str]]
    head_id: bytes | None = None


def head_of(headers: MultiMapping[str]) -> MessageHead:
    """Return the head of a message with these header fields."""
    return MessageHead(
        accept_of(headers),
        headers.get(hdrs.ORIGIN),
        headers.get(hdrs.USER_AGENT),
        headers.get(TRACEPARENT),
        headers.get(TRACESTATE),
        [(name, value) for name, value in headers.items() if name.lower().startswith(MCP_PREFIX)],
    )


@dataclass(slots=True, eq=False)
class AgentMessage:
    """A POST to the MCP endpoint. The fast path's `FastMessage` is one.

    - `authorization`: returns the value of the header Authorization; None if the client did not send the header
    - `mount`: the base path of the message's calls to the provider, ``/proxy`` or ``/c/<capability>``
    - `by_capability`: whether the client sent the message to a capability URL
    - `protocol`: the server protocol of the connection that received the message
    - `trace`: the trace of the message; None if the message is not sampled
    - `called`: whether a call to the provider has begun. After that, the message must not be handled a second time.
    - `rpc_message`: the message in the body, if the body has been parsed and is valid
    """

    app: web.Application
    runtime: Runtime
    generation: Generation
    caller: Caller
    request_id: str
    head: MessageHead
    authorization: Callable[[], str | None]
    body: bytes
    mount: str
    by_capability: bool
    protocol: Any
    remote: str | None
    trace: CallTrace | None = None
    called: bool = False
    rpc_message: "RpcRequest | RpcNotification | None" = None

    @property
    def is_large(self) -> bool:
        """Whether parsing the message would block the event loop for too long."""
        return len(self.body) > INLINE_BYTES


class McpResponse(NamedTuple):
    """The response to a message. `content`: the body as JSON text; None if the response has no body."""

    status: int
    content: bytes | None

    def for_aiohttp(self) -> web.Response:
        if self.content is None:
            return web.Response(status=self.status)
        headers = {hdrs.CACHE_CONTROL: "no-store"}
        return web.Response(
            body=self.content, status=self.status, headers=headers, content_type="application/json", charset="utf-8"
        )


def check_origin(origin: str | None, generation: Generation) -> None:
    """Raise Forbidden if a web page of another origin sends the message.

    The protocol requires this check, as a protection against DNS rebinding.
    """
    if origin is None or f"{generation.public_url}/".startswith(f"{origin.lower()}/"):
        return
    raise Forbidden(
        "forbidden", "Web pages of other origins may not call the MCP endpoint. Call it from a program, without Origin."
    )


def mount_beside(path: str) -> str:
    """Return the path of ``/proxy`` for the MCP endpoint at `path`.

    Keeps the prefix that a host application adds to all paths.
    """
    for ending in _MCP_PATHS:
        path = path.removesuffix(ending)
    return path + PROXY_PATH
