"""Defines the request and the collected response of a call to ``/proxy`` that begins in this process."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass

from gateway.records.proxied_call import PROXY_PATH

Room = Callable[[int], Awaitable[None]]
"""Waits until there is memory for a response. The argument is the current size of the response in bytes."""


@dataclass(slots=True)
class InProcessRequest:
    """A request that begins in this process, because a message to the MCP endpoint calls a tool.

    - `mount`: ``/proxy`` or ``/c/<capability>``
    - `target`: path and query below `mount`
    - `authorization`: returns the value of ``Authorization``, or None for a capability URL
    - `user_agent`: the message's ``User-Agent``; None if not sent
    - `message_head_id`: identifies the key and `user_agent`; None if the head of the message is not remembered
    - `traces`: the fields of the trace
    - `request_id`: request id of the message
    - `tool`: name of the MCP tool that makes the call
    - `limit_bytes`: maximum size of the response's body
    - `limit_s`: maximum duration in seconds
    """

    method: str
    mount: str
    target: str
    authorization: Callable[[], str | None]
    user_agent: str | None
    message_head_id: bytes | None
    integration_id: str
    connection_id: str
    traces: Mapping[str, str]
    content_type: str | None
    body: bytes | None
    request_id: str
    tool: str | None
    limit_bytes: int
    limit_s: float

    @property
    def head_id(self) -> Hashable:
        """The facts that determine the header fields, except connection, length and the values of the trace.

        The connection is included for a capability URL, because the URL allows only one connection.
        """
        connection_id = "" if self.mount == PROXY_PATH else self.connection_id
        return self.message_head_id, self.integration_id, connection_id, self.content_type, tuple(self.traces)

    def fields(self) -> dict[str, str]:
        """Return all header fields, as a client would send them."""
        fields = {"Host": "gateway"}
        if self.user_agent is not None:
            fields["User-Agent"] = self.user_agent
        fields |= self.traces
        if (key := self.authorization()) is not None:
            fields["Authorization"] = key
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

    - `media_type`: value of ``Content-Type``; empty if the response has no such field
    - `by_gateway`: True for an error of the gateway, False for a response of the provider
    - `headers`: returns the header fields, which are parsed only when needed
    - `complete`: whether the whole body has arrived. If not, the response broke off, or it was `too_large` for the
      memory limit.
    """

    status: int
    media_type: str
    by_gateway: bool
    headers: Callable[[], Mapping[str, str]]
    body: bytes
    complete: bool = True
    too_large: bool = False
