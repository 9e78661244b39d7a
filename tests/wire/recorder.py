"""The provider of the wire suite: a bare socket that records every byte, and sends what a test defines."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.http.abort import LINGER_RESET
from gateway.process.sockets import BACKLOG
from tests.wire.messages import Body, Head, Misframed, parse_head, read_body

AFTER: Final = b"/after-"
"""Targets of follow-up requests begin with this. Their response always has the target as its body, for every script."""


@dataclass(frozen=True, slots=True)
class ScriptedHttpResponse:
    """Sends `pieces` one after the other, then does `then` with the connection. `early`: respond before the body was
    read.

    ``{origin}`` is replaced with the recorder's own origin.
    """

    pieces: tuple[bytes, ...]
    then: Literal["keep", "close", "reset"] = "keep"
    early: bool = False


def sends(
    *pieces: bytes, then: Literal["keep", "close", "reset"] = "keep", early: bool = False
) -> ScriptedHttpResponse:
    return ScriptedHttpResponse(pieces, then, early)


def ok(body: bytes = b"ok", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


FINE: Final = sends(ok())
FINE_HEAD: Final = sends(ok().removesuffix(b"ok"))
Script = Callable[["RecordedRequest", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class RecordedRequest:
    """A request as received. `partial`: the received bytes of a body that was cut off; None for a complete body."""

    connection: int
    head: Head
    body: Body = field(default_factory=lambda: Body(b"", "none"))
    partial: bytes | None = None

    @property
    def method(self) -> bytes:
        return self.head.start.split(b" ")[0]

    @property
    def target(self) -> bytes:
        return self.head.start.split(b" ")[1]

    @property
    def passed_on(self) -> list[bytes]:
        """The header lines of the caller. Host, Authorization and framing are left out, because the gateway writes
        them.
        """
        ours = (b"host:", b"authorization:", b"content-length:", b"transfer-encoding:")
        return [line for line in self.head.lines if not line.lower().startswith(ours)]


@dataclass
class Recorder:
    """A provider that records requests.

    `script`: how it responds. `requests`: the requests, in order of arrival. `faults`: messages that a strict reader
    refuses.

    If `response_to` is set, its result is the response to each request, and no request is recorded.
    """

    script: ScriptedHttpResponse | Script = FINE
    response_to: Callable[[RecordedRequest], ScriptedHttpResponse] | None = None
    port: int = 0
    requests: list[RecordedRequest] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    dialled: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def authority(self) -> bytes:
        return b"127.0.0.1:%d" % self.port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22, backlog=BACKLOG)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.dialled += 1
        number = self.dialled
        self.open.add(number)
        try:
            while await self._exchange(number, reader, writer):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass  # the gateway closed the connection, or the tests have ended
        except Misframed as fault:
            self.faults.append(str(fault))
        finally:
            self.open.discard(number)
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as fault:
            if fault.partial:
                self.faults.append(f"half a head: {fault.partial!r}")
            return False
        received = RecordedRequest(number, parse_head(raw))
        if self.response_to is not None:
            return await self._response(received, self.response_to, reader, writer)
        self.requests.append(received)
        script = FINE_HEAD if self.script is FINE and received.method == b"HEAD" else self.script
        if received.target.startswith(AFTER):
            script = sends(ok(received.target))
        if not isinstance(script, ScriptedHttpResponse):
            await script(received, reader, writer)
            return False
        if script.early:
            await self._send(script, writer)
            if script.then != "keep":
                return False
        try:
            received.body = await read_body(reader, received.head, without="none")
        except asyncio.IncompleteReadError as fault:
            received.partial = fault.partial
            return False
        except ConnectionError:
            received.partial = b""
            raise
        if not script.early:
            await self._send(script, writer)
        return script.then == "keep"

    async def _response(
        self,
        received: RecordedRequest,
        response_to: Callable[[RecordedRequest], ScriptedHttpResponse],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        try:
            received.body = await read_body(reader, received.head, without="none")
        except asyncio.IncompleteReadError:
            return False  # the caller disconnected
        script = response_to(received)
        await self._send(script, writer)
        return script.then == "keep"

    async def _send(self, script: ScriptedHttpResponse, writer: asyncio.StreamWriter) -> None:
        for n, piece in enumerate(script.pieces):
            if n:
                await turns()
            writer.write(piece.replace(b"{origin}", b"http://" + self.authority))
            await writer.drain()
        if script.then == "reset":
            await turns()  # the sent bytes must arrive before the reset
            peer: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            writer.transport.abort()


async def turns(count: int = 30) -> None:
    """Let the event loop run `count` iterations, so that written bytes arrive and are processed."""
    for _ in range(count):
        await asyncio.sleep(0)
