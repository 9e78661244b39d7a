"""A POST to the agent door after the chain or the fast path has read and admitted it. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from gateway.access.caller import Caller
from gateway.errors import Forbidden
from gateway.generation import Generation
from gateway.off_loop import INLINE_BYTES
from gateway.records.trace import CallTrace

PROXY_MOUNT: Final = "/proxy"
_DOORS: Final = ("/mcp", "/session/{session_id}", "/sessions/{session_id}")


@dataclass(slots=True)
class AgentMessage:
    """A POST to the agent door.

    `mount`: base path of its calls, ``/proxy`` or ``/c/<capability>``. `by_capability`: the message came to a capability
    URL. `protocol`: the server protocol of the connection that received the message. `trace`: trace of a sampled
    message. `called`: a call to a provider has begun, so the message must not be handled a second time.
    """

    app: web.Application
    generation: Generation
    caller: Caller
    request_id: str
    headers: Mapping[str, str]
    body: bytes
    mount: str
    by_capability: bool
    protocol: Any
    remote: str | None
    trace: CallTrace | None = None
    called: bool = False

    @property
    def is_large(self) -> bool:
        """Whether parsing the message would block the event loop for too long."""
        return len(self.body) > INLINE_BYTES


def check_origin(origin: str | None, generation: Generation) -> None:
    """Raise Forbidden if a page of another origin sends the message. The protocol demands it, against DNS rebinding."""
    if origin is None or f"{generation.public_url}/".startswith(f"{origin.lower()}/"):
        return
    raise Forbidden(
        "forbidden", "Web pages of other origins may not call the agent door. Call it from a program, without Origin."
    )


def mount_beside(door: str) -> str:
    """Return the path of ``/proxy`` beside the route `door`, including a host application's prefix."""
    for ending in _DOORS:
        door = door.removesuffix(ending)
    return door + PROXY_MOUNT
