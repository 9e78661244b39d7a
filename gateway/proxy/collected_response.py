"""A call to ``/proxy`` that begins in this process: its request, and its whole response."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass

Room = Callable[[int], Awaitable[None]]
"""Waits for memory, when a response has grown to this many bytes."""


@dataclass(slots=True)
class InProcessRequest:
    """A request to `mount`, ``/proxy`` or ``/c/<capability>``, that begins in this process.

    `target`: path and query below `mount`. `authorization` returns the field with the key, None for a capability URL.
    `passed_on`: the other fields that the message passes on. `message_head_id`: stands for both while the head of the
    message is remembered; None if it is not. `traceparent`: replaces the one of `passed_on`. `request_id`: of the
    message. `tool`: name of the MCP tool that makes the call. `limit_bytes`: maximum size of the response's body;
    `limit_s`: maximum time.
    """

    method: str
    mount: str
    target: str
    authorization: Callable[[], str | None]
    passed_on: Mapping[str, str]
    message_head_id: bytes | None
    integration_id: str
    connection_id: str
    traceparent: str | None
    content_type: str | None
    body: bytes | None
    request_id: str
    tool: str | None
    limit_bytes: int
    limit_s: float

    @property
    def head_id(self) -> Hashable:
        """What the header fields depend on, besides connection, length and trace. A capability URL allows only one
        connection."""
        connection_id = "" if self.mount == "/proxy" else self.connection_id
        traced = self.traceparent is not None
        return self.message_head_id, self.integration_id, connection_id, self.content_type, traced

    def fields(self) -> dict[str, str]:
        """Return all header fields, as a client would send them."""
        fields = {"Host": "gateway", **self.passed_on}
        if (key := self.authorization()) is not None:
            fields["Authorization"] = key
        if self.traceparent is not None:
            fields["traceparent"] = self.traceparent
        fields["Provider-Config-Key"] = self.integration_id
        fields["Connection-Id"] = self.connection_id
        fields["Decompress"] = "true"
        if self.content_type is not None:
            fields["Content-Type"] = self.content_type
        if self.body is not None:
            fields["Content-Length"] = str(len(self.body))
        return fields


@dataclass(slots=True)
class CollectedResponse:
    """The response that a caller of ``/proxy`` would have received.

    `media_type`: its Content-Type, empty if it has none. `by_gateway`: it is an error of the gateway, not the
    provider's response. `complete`: all of it has arrived. Otherwise it broke off, or it was `too_large` to be held.
    `headers` returns its header fields, which are parsed when they are needed.
    """

    status: int
    media_type: str
    by_gateway: bool
    headers: Callable[[], Mapping[str, str]]
    body: bytes
    complete: bool = True
    too_large: bool = False
