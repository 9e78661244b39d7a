"""A request's body on its way out: framed as declared, no faster than the provider takes it, never more than declared."""

import asyncio
from collections.abc import Callable

from gateway.egress.exchange import Body


class Torn(Exception):
    """The body did not have the length that its head declared."""


class Upload:
    """Writes `head` and then `body` to the transport; `done` hears of the end, with the fault if there was one.

    The head leaves together with the first piece if that is at hand, and else at once. After `stop` nothing is told.
    """

    __slots__ = ("_body", "_done", "_drained", "_head", "_paused", "_task", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        body: Body,
        head: bytes,
        done: Callable[[Exception | None], None],
        *,
        paused: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._body = body
        self._head = head
        self._done = done
        self._paused = paused
        self._drained: asyncio.Future[None] | None = None
        self._task = loop.create_task(self._send())
        self._task.add_done_callback(self._ended)
        loop.call_soon(self._flush)  # runs after the task's first step

    def pause(self) -> None:
        self._paused = True

    def go_on(self) -> None:
        self._paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def stop(self) -> None:
        self._head = b""
        self._task.cancel()

    async def _send(self) -> None:
        sent, length = 0, self._body.length
        async for piece in self._body.pieces:
            if not piece:
                continue
            sent += len(piece)
            if length is None:
                self._write(b"%x\r\n" % len(piece), piece, b"\r\n")
            elif sent > length:
                raise Torn
            else:
                self._write(piece)
            if self._paused:
                await self._drain()
        if length is None:
            self._write(b"0\r\n\r\n")
        elif sent != length:
            raise Torn

    def _write(self, *parts: bytes) -> None:
        head, self._head = self._head, b""
        self._transport.writelines((head, *parts) if head else parts)

    def _flush(self) -> None:
        if self._head:
            self._write()

    async def _drain(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        try:
            await self._drained
        finally:
            self._drained = None

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            fault = task.exception()
            self._done(fault if fault is None or isinstance(fault, Exception) else Torn())
