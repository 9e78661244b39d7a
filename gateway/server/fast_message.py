"""Handles messages to the MCP endpoint on the fast path, without aiohttp's request object and the middlewares.

    bytes ▸ start_message    reads the head of one ``POST /mcp`` (or ``POST /c/<capability>/mcp``) and the received part
                             of its body; remembers repeated heads without the values that differ (`known_heads`);
                             checks key, scope, content type and size by the rules of the middlewares in
                             `surfaces.AGENT`
          ▸ begin            sends the call of a ``tools/call`` to the provider, if only the provider's response must be
                             awaited; gets the response to any other message from `gateway.mcp.mcp_endpoint`, in a task
          ▸ _send            writes the response with the same head as aiohttp

A call that began without a task continues in a task if it lasts longer than a second, if its response is large, or if
the middleware chain must continue it. Until a call to a provider begins, the fast path sends no errors. It passes
unusual messages, and messages that must be refused, to the middleware chain with their bytes unchanged.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from aiohttp import hdrs, web, web_response
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict

from gateway import clock
from gateway.access.caller import Access, Caller
from gateway.access.key_forms import CAPABILITY_FORM
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError
from gateway.mcp.agent_message import MCP_PREFIX, AgentMessage, McpResponse, MessageHead, head_of
from gateway.mcp.lazy_endpoint import MCP_MODES
from gateway.middleware.access_log import MAX_PATH_CHARS, unfinished_result
from gateway.middleware.request_message import is_json
from gateway.middleware.response_shape import (
    ERROR_HEADER,
    REQUEST_ID_FIELD,
    accepts_stream,
    new_id,
    refusal_response,
    unhandled_error,
)
from gateway.middleware.who_calls import REFERRER_POLICY, mask_secrets_in_path
from gateway.observe.logs import current_trace_id
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import CollectedResponse, InProcessRequest
from gateway.records.audit import current_actor
from gateway.records.operation import current_request_id
from gateway.records.proxied_call import PROXY_PATH, ExchangeRecord
from gateway.records.trace import TRACESTATE, current_refresh, current_trace, logged_traceparent, trace_id_of
from gateway.runtime import RUNTIME, Runtime
from gateway.server.known_heads import MAX_HEAD_LINES, ArrivedHead, KnownHead, KnownHeads, header_lines
from gateway.server.request_lines import LineReader, RequestLines

if TYPE_CHECKING:
    from gateway.mcp.mcp_endpoint import ReadyCall

MCP_PATH: Final = "/mcp"
CAPABILITY_MCP_PATH: Final = "/c/{capability}/mcp"
_LINE: Final = re.compile(rf"POST (?:/mcp|(/c/{CAPABILITY_FORM})/mcp) HTTP/1\.1\r\n".encode())
_NO_REFERRER: Final = f"{': '.join(REFERRER_POLICY)}\r\n"
_JSON_HEAD: Final = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: application/json; charset=utf-8\r\n"

log = structlog.get_logger(__name__)


class MessageClient(Protocol):
    """The caller's connection, implemented in `client_protocol`."""

    @property
    def peername(self) -> Any: ...

    def queue_piece(self, piece: bytes, write_batch: WriteBatch) -> None:
        """Queue `piece` for the next write to the caller."""

    def response_sent(self, *, last: bool) -> None:
        """Called when the response has been sent. `last`: its head announced that the connection closes."""

    def hand_back(self, data: bytes) -> None:
        """Let the middleware chain handle the message. `data`: the bytes of the message received so far."""

    def start_call(
        self, request: InProcessRequest, on_change: Callable[[], None], caller: Caller | None
    ) -> "MessageCall | None":
        """Prepare the message's call to the provider; None if the middleware chain must handle the call."""


class MessageCall(Protocol):
    """A message's call to the provider, implemented in `in_process_exchange`."""

    has_ended: bool
    handover: FastPathHandover | None
    on_change: Callable[[], None] | None

    def begin(self) -> None:
        """Send the call's request to the provider."""

    def leave(self, *, stopped: bool) -> None:
        """End the call, because the agent has disconnected."""

    def response(self) -> CollectedResponse:
        """Return the collected response."""


class KnownMessage(KnownHead):
    """The meaning of the header lines of messages below `mount`.

    `fields`: the fields of the first message with this head.
    """

    __slots__ = ("_mcp_at", "_shared_head", "_tracestate_at", "fields")

    def __init__(self, mount: str, key: str, lines: RequestLines, fields: MessageHead) -> None:
        super().__init__(mount, key, lines)
        self.fields = fields
        self._shared_head: MessageHead | None = None  # the fields of all messages with this head, if no value differs
        self._tracestate_at: int | None = None  # index of the value among the values that differ
        self._mcp_at: list[int | None] = []  # the same for each of `fields.mcp_fields`; empty if no value differs

    def vary(self, varying: Sequence[tuple[bytes, bytes]]) -> bool:
        """Prepare the head for messages with other values in the lines `varying`.

        Return False if that is impossible, or if one of the fields contains the key, which must not be remembered.
        """
        if self.lines.decided_together or not super().vary(varying):
            return False
        name_indexes = [
            (name.lower, self.value_at.get(index)) for index, (name, _) in enumerate(self.lines.passed_lines)
        ]
        self._tracestate_at = next((index for name, index in name_indexes if name == TRACESTATE), None)
        value_indexes = [index for name, index in name_indexes if name.startswith(MCP_PREFIX)]
        self._mcp_at = value_indexes if any(index is not None for index in value_indexes) else []
        return True

    def fields_of(self, arrived: "ArrivedHead[KnownMessage]") -> MessageHead:
        """Return the fields of a message with this head, with the message's own values."""
        values, tracestate_at = arrived.values, self._tracestate_at
        if not values and self._shared_head is not None and self._shared_head.head_id is self.head_id:
            return self._shared_head
        shared_fields = self.fields
        mcp_fields = shared_fields.mcp_fields
        if self._mcp_at:
            mcp_fields = [
                field if index is None else (field[0], values[index].decode())
                for field, index in zip(mcp_fields, self._mcp_at, strict=True)
            ]
        message_head = MessageHead(
            shared_fields.accept,
            shared_fields.origin,
            shared_fields.user_agent,
            arrived.traceparent,
            shared_fields.tracestate if tracestate_at is None else values[tracestate_at].decode(),
            mcp_fields,
            self.head_id,
        )
        self._shared_head = None if values else message_head
        return message_head


def read_head(reader: LineReader, lines: bytes, mount: bytes | None) -> ArrivedHead[KnownMessage] | None:
    """Return the head of a message; None if the middleware chain must handle the message.

    `lines`: header lines; each line begins with CRLF. `mount`: path of a capability URL; None for ``/mcp``.
    """
    if lines.count(b"\n") > MAX_HEAD_LINES:
        return None
    path = PROXY_PATH if mount is None else mount.decode("ascii")
    token = "" if mount is None else path.rpartition("/")[2]
    request_lines = reader.message(lines[2:], token)
    if request_lines is None or bool(token) is bool(request_lines.key):
        return None
    fields: CIMultiDict[str] = CIMultiDict()
    for _, line in request_lines.passed_lines:
        name, _, value = line.decode().partition(": ")
        fields.add(name, value)
    if not is_json(fields.get(hdrs.CONTENT_TYPE)):
        return None
    key, request_lines.key = token or request_lines.key, ""  # the lines can be remembered, but not their key
    return ArrivedHead(KnownMessage(path, key, request_lines, head_of(fields)), "", request_lines.length)


class McpFastPath:
    """The fast path for messages to the MCP endpoint (``/mcp``).

    `taken`: number of messages that the fast path began to handle. `handed_back`: number of messages among them that
    the middleware chain had to handle. `heads`: remembered heads.
    """

    def __init__(self, app: web.Application, reader: LineReader, write_batch: WriteBatch) -> None:
        self.app = app
        self.runtime: Runtime = app[RUNTIME]
        self.reader = reader
        self.heads: KnownHeads[KnownMessage] = KnownHeads()
        self.write_batch = write_batch
        self.taken = 0
        self.handed_back = 0

    def start_message(self, client: MessageClient, data: bytes) -> "tuple[FastMessage, bytes, bytes] | None":
        """Return the message, the part of its body received so far, and the bytes that follow the message.

        Return None, without any effect, if the middleware chain must handle the message.
        """
        request_line = _LINE.match(data)
        if request_line is None:
            return None
        head_lines = header_lines(data, request_line)
        if head_lines is None:
            return None
        (lines, body_at), mount = head_lines, request_line[1]
        arrived = self.heads.find(lines, mount) or read_head(self.reader, lines, mount)
        if arrived is None or not arrived.length or arrived.length > INLINE_BYTES:
            return None
        caller = self._caller(arrived.known)
        if caller is None:
            return None
        if arrived.known.head_id is None:  # only after `_caller`, so that a client without a key cannot fill the memory
            self.heads.remember(lines, mount, arrived)
        body_end = body_at + arrived.length
        head, body = data[:body_at], data[body_at:body_end]
        self.taken += 1
        return FastMessage(self, client, head, arrived, caller), body, data[body_end:]

    def forget(self) -> None:
        self.heads.forget()

    def _caller(self, known_message: KnownMessage) -> Caller | None:
        """Return the caller if its key is in memory and may be used here; None if the middleware chain must decide."""
        by_capability = known_message.mount != PROXY_PATH
        caller = self.runtime.current.generation.keys.find_known(known_message.key_digest)
        access = None if caller is None else caller.access
        if access is None or caller is None or not access.policy.may_proxy:
            return None
        if (access.key.kind == "capability") is not by_capability or (
            by_capability and self._provider_serves_mcp(access)
        ):
            return None
        return caller

    def _provider_serves_mcp(self, access: Access) -> bool:
        """Return whether ``/mcp`` below this capability URL belongs to the provider, not to the MCP endpoint.

        Return True also for an unknown provider.
        """
        generation, bound_to = self.runtime.current.generation, access.bound_connection
        if bound_to is None:
            return True
        integration = generation.integrations.find(bound_to.environment, bound_to.integration_id)
        provider = generation.catalog.get(integration.provider) if integration is not None else None
        return provider is None or provider.auth_mode.startswith(MCP_MODES)


class FastMessage(AgentMessage):
    """A message to the MCP endpoint. The caller's connection calls the same methods as on a `FastExchange`.

    `body` is empty until the whole body has arrived. `task`: the task that gets the response; None if the message has
    none. `call`: the call that began without a task; None if there is none, and after a task has taken the call or the
    message has ended. `last`: whether the connection closes after the response.
    """

    # initial values, in the class because every message makes an object
    task: asyncio.Task[None] | None = None
    call: MessageCall | None = None
    last = False
    _task_began = _has_ended = _stopped = False
    # whether a part of the body came after the key was looked up, so that the key may have ended
    _body_arrived_later = False
    _ready_call: "ReadyCall | None" = None  # the message's call, if it began without a task; None after the end
    _wake_call: Callable[[], None] | None = None

    def __init__(
        self,
        fast_path: McpFastPath,
        client: MessageClient,
        head: bytes,
        arrived: ArrivedHead[KnownMessage],
        caller: Caller,
    ) -> None:
        known_message = arrived.known
        self._fast_path = fast_path
        self._head_bytes = head
        self._received: list[bytes] = []
        self._missing_bytes = arrived.length or 0
        self._began = clock.monotonic()
        self.app = fast_path.app
        self.runtime = fast_path.runtime
        self.generation = fast_path.runtime.current.generation
        self.caller = caller
        self.request_id = arrived.request_id or new_id()
        self.head = known_message.fields_of(arrived)
        self.body = b""
        self.mount = known_message.mount
        self.by_capability = known_message.mount != PROXY_PATH
        self.protocol: MessageClient = client
        peer = client.peername
        self.remote = str(peer[0]) if isinstance(peer, (tuple, list)) else peer and str(peer)
        self.trace = None
        self.called = False
        self.rpc_message = None

    def authorization(self) -> str | None:
        """Return the value of ``Authorization``.

        The field is read from the message again, because remembered heads do not contain the key.
        """
        request_lines = self._fast_path.reader.message(self._head_bytes.partition(b"\r\n")[2][:-4])
        return None if request_lines is None or not request_lines.key else f"Bearer {request_lines.key}"

    def begin(self, body: bytes) -> None:
        """Add `body` to the message's body. When the body is complete, handle the message."""
        if body:
            self._received.append(body)
            self._missing_bytes -= len(body)
        if self._missing_bytes:
            return
        self.body = b"".join(self._received)
        tracing = self.runtime.tracing
        trace = self.trace = None if tracing is None else tracing.begin(self.head.traceparent, self._began)
        if trace is not None:
            trace.route = CAPABILITY_MCP_PATH if self.by_capability else MCP_PATH
        if not self._start_call():
            self._continue_in_task()

    def _start_call(self) -> bool:
        """Begin the message's call to the provider without a task, if only the provider's response must be awaited.

        Return False, without any effect, for other messages. A traced message and the first use of a key also need a
        task: its context names the request in records.
        """
        access = self.caller.access
        if self.trace is not None or access is None or self.runtime.minted.is_first_use(access):
            return False
        try:
            ready_call = _endpoint().ready_call(self)
            caller = None if self._body_arrived_later else self.caller
            call = (
                None if ready_call is None else self.protocol.start_call(ready_call.request, self._call_changed, caller)
            )
        except Exception:  # noqa: BLE001 (the same fault occurs in the task, which reports it)
            return False
        if call is None:
            return False
        self.called = True
        self._ready_call, self.call = ready_call, call
        call.begin()
        return True

    def _call_changed(self) -> None:
        """Send the response if the call has ended; otherwise, and after a fault, let a task continue."""
        ready_call, call, content = self._ready_call, self.call, None
        assert ready_call is not None
        assert call is not None
        if call.has_ended and call.handover is None:
            try:
                content = ready_call.content_now(call.response())
            except Exception:  # noqa: BLE001 (the same fault occurs in the task, which reports it)
                content = None
        if content is None:
            self._continue_in_task()
        else:
            self._send_json(content)

    def _continue_in_task(self) -> None:
        if self.call is not None:
            self.call.on_change = None
        self.task = asyncio.get_running_loop().create_task(self._respond())

    # ── methods that the caller's connection calls, as on a `FastExchange`

    @property
    def waits_for_caller(self) -> bool:
        return self._missing_bytes > 0

    def is_unframed_body(self, size: int) -> bool:
        """Return whether the next `size` bytes are part of the message."""
        return self._missing_bytes >= size

    def feed_request(self, data: bytes) -> bytes:
        """Add the next bytes to the body; return the bytes that follow the body."""
        own_bytes, rest = data[: self._missing_bytes], data[self._missing_bytes :]
        self._body_arrived_later = True
        self.begin(own_bytes)
        return rest

    def pause(self) -> None:
        """Do nothing: the response is sent in one piece."""

    def resume(self) -> None:
        """Do nothing: the response is sent in one piece."""

    def announce_close(self) -> None:
        self.last = True

    def enforce_time_limits(self, _now: float) -> None:
        """Give a message with an incomplete body to the middleware chain, which has time limits for bodies.

        If the body is complete, wake the call to the provider, which enforces its own time limits in a task.
        """
        if self._missing_bytes:
            self._hand_back()
        elif self.task is None and self._ready_call is not None:
            self._continue_in_task()
        elif self._wake_call is not None:
            self._wake_call()

    def detach_call(self) -> MessageCall | None:
        """Return `call` and forget it, because the task that continues the call ends it."""
        call, self.call = self.call, None
        return call

    def watch(self, wake: Callable[[], None] | None) -> None:
        """Call `wake` about once a second, until the next call of this method. None: call nothing from now on."""
        self._wake_call = wake

    def caller_left(self, *, stopped: bool) -> None:
        """Record that the caller's connection is closed.

        `stopped`: whether the gateway closed the connection, because the gateway stops.
        """
        self._stopped = stopped
        if self.task is not None:
            self.task.cancel()
        if not self._task_began and not self._has_ended:  # a task that has begun records the end
            if self.call is not None:
                self.call.leave(stopped=stopped)
            self._record_left()
        self._end()

    def _end(self) -> None:
        """Mark the message as ended, and release its call, which refers to this object.

        Otherwise these objects stay in memory until the garbage collector finds them, which costs 10 µs a message.
        """
        self._has_ended = True
        self._ready_call = self.call = None

    def _hand_back(self) -> None:
        self._end()
        self._fast_path.handed_back += 1
        self.protocol.hand_back(b"".join((self._head_bytes, *self._received)))

    # ── the response

    async def _respond(self) -> None:
        self._task_began = True
        self._set_context()
        try:
            response = await self._response()
        except asyncio.CancelledError:
            self._record_left()
            raise
        if self._has_ended:
            return
        if response is None:
            self._hand_back()
        else:
            self._send(response)

    def _send(self, response: McpResponse | web.Response) -> None:
        if isinstance(response, McpResponse) and response.status == 200 and response.content is not None:
            self._send_json(response.content)
            return
        aiohttp_response = response.for_aiohttp() if isinstance(response, McpResponse) else response
        if self.by_capability:
            aiohttp_response.headers.update([REFERRER_POLICY])
        aiohttp_response.headers[REQUEST_ID_FIELD] = self.request_id
        error_code, size = aiohttp_response.headers.get(ERROR_HEADER), aiohttp_response.content_length or 0
        self._send_bytes(response_bytes(aiohttp_response, last=self.last), aiohttp_response.status, error_code, size)

    def _send_json(self, content: bytes) -> None:
        own_lines = f"{_NO_REFERRER if self.by_capability else ''}{REQUEST_ID_FIELD}: {self.request_id}\r\n"
        self._send_bytes(json_response_bytes(content, own_lines, last=self.last), 200, None, len(content))

    def _send_bytes(self, data: bytes, status: int, error_code: str | None, size: int) -> None:
        """Send the response `data`. `error_code`: the code of an error of the gateway. `size`: the length of its body."""
        self._end()
        self._record_message(status, error_code, size)
        self.protocol.queue_piece(data, self._fast_path.write_batch)
        self.protocol.response_sent(last=self.last)

    def _set_context(self) -> None:
        """Set the context for logs and audit, as the first middlewares of the chain do."""
        trace, traceparent = self.trace, self.head.traceparent
        # set even if None, because the task can have the context of another request
        current_trace.set(trace)
        current_refresh.set(None)
        current_trace_id.set(trace_id_of(trace, traceparent))
        current_request_id.set(self.request_id)
        current_actor.set(self.caller.actor(self.remote or ""))
        self.runtime.minted.record_first_use(self.caller, self.remote or "")

    async def _response(self) -> McpResponse | web.Response | None:
        """Return the response to the message.

        Return None if an error occurs before a call to a provider begins. The middleware chain then reports the error.
        """
        try:
            waiting_response = (
                _endpoint().response_to(self) if self._ready_call is None else self._ready_call.response()
            )
            response: McpResponse = await waiting_response
            return response
        except Exception as fault:
            if not self.called:
                return None
            error = fault if isinstance(fault, GatewayError) else unhandled_error(self.request_id)
            if error is not fault:
                log.exception("unhandled", request_id=self.request_id, method="POST")
            self.last = self.last or error.close
            trace_id = trace_id_of(self.trace, self.head.traceparent)
            return refusal_response(error, trace_id, json_rpc=accepts_stream(self.head.accept))

    def _record_left(self) -> None:
        self._record_message(*unfinished_result(stopped=self._stopped), 0)

    def _record_message(self, status: int, error: str | None, bytes_out: int) -> None:
        """Record the message as `middleware.access_log` records a request that is not proxied."""
        path = mask_secrets_in_path(self.mount + MCP_PATH)[:MAX_PATH_CHARS] if self.by_capability else MCP_PATH
        trace, key = self.trace, self.caller.key
        self.runtime.call_queue.record(
            # The arguments are positional, because keyword arguments take three times as long.
            ExchangeRecord(
                clock.now(),
                self.request_id,
                self.caller.environment.name,
                "",
                "",
                "POST",
                "",
                path,
                status,
                round((clock.monotonic() - self._began) * 1000, 3),
                sum(map(len, self._received)),
                bytes_out,
                error,
                None,
                None,
                None,
                None if key is None else key.id,
                logged_traceparent(trace, self.head.traceparent),
                None,
                0,
                trace,
            )
        )


@cache
def _endpoint() -> ModuleType:
    from gateway.mcp import mcp_endpoint  # imported at the first message, to start faster

    return mcp_endpoint


def json_response_bytes(content: bytes, own_lines: str, *, last: bool) -> bytes:
    """Return the bytes of a 200 response with the JSON text `content`, equal to the result of `response_bytes`.

    `own_lines`: header lines of this response, each with its CRLF. `last`: whether the connection closes after this response.
    """
    server = web_response.SERVER_SOFTWARE  # type: ignore[attr-defined]  # the gateway's, by `hide_versions`
    close = "Connection: close\r\n" if last else ""
    length, date = len(content), rfc822_formatted_time()
    lines = f"{_JSON_HEAD}{own_lines}Content-Length: {length}\r\nDate: {date}\r\nServer: {server}\r\n{close}\r\n"
    return lines.encode() + content


def response_bytes(response: web.Response, *, last: bool) -> bytes:
    """Return head and body as aiohttp sends them. `last`: whether the connection closes after this response."""
    body = response.body
    content = body if isinstance(body, bytes) else b""
    headers: CIMultiDict[str] = response.headers
    headers[hdrs.CONTENT_LENGTH] = str(len(content))
    headers[hdrs.DATE] = rfc822_formatted_time()
    headers[hdrs.SERVER] = web_response.SERVER_SOFTWARE  # type: ignore[attr-defined]  # the gateway's, by `hide_versions`
    if last:
        headers[hdrs.CONNECTION] = "close"
    lines = [f"HTTP/1.1 {response.status} {response.reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join((*lines, "", "")).encode() + content
