"""A POST to the agent door, as the chain or the server's fast path has read and admitted it. No I/O."""

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
    """`mount`: where its calls go, ``/proxy`` or the capability's address; `by_address`: the latter. `protocol`: the server's,
    of the connection that the message came by. `trace`: of a sampled one. `called`: a call to a provider has begun, so that
    the message must not be answered a second time.
    """

    app: web.Application
    generation: Generation
    caller: Caller
    request_id: str
    headers: Mapping[str, str]
    body: bytes
    mount: str
    by_address: bool
    protocol: Any
    remote: str | None
    trace: CallTrace | None = None
    called: bool = False

    @property
    def is_large(self) -> bool:
        """Whether reading the message would hold up the event loop."""
        return len(self.body) > INLINE_BYTES


def check_origin(origin: str | None, generation: Generation) -> None:
    """Raises Forbidden for a page of another origin: by the protocol, against DNS rebinding."""
    if origin is None or f"{generation.public_url}/".startswith(f"{origin.lower()}/"):
        return
    raise Forbidden(
        "forbidden", "The agent door is not for pages of other origins. Call it from a program, without Origin."
    )


def mount_beside(door: str) -> str:
    """The address of ``/proxy`` that belongs to the route `door`, below a host's prefix where there is one."""
    for ending in _DOORS:
        door = door.removesuffix(ending)
    return door + PROXY_MOUNT
