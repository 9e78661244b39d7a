"""Sends messages between the parent and a worker over a socket pair, after their event loops have started.

`gateway.process.handshake` sends the first messages, before the event loops start.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

from gateway.process.handshake import LENGTH, Message, frame_message


class Channel:
    """One end of a channel between two processes.

    `on_message`: called with each message. `on_lost`: called when the other end is gone; not called if this end was
    closed before.
    """

    def __init__(self, on_message: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._writer: asyncio.StreamWriter | None = None
        self._read_task: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self, sock: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=sock)
        self._read_task = asyncio.create_task(self._read(reader), name="channel")

    @property
    def is_open(self) -> bool:
        return self._writer is not None and not self._writer.is_closing()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; do nothing if the other end is gone."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame_message(message))

    async def close(self) -> None:
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._read_task is not None:
            await asyncio.gather(self._read_task, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                self._on_message(json.loads(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            assert self._writer is not None
            self._writer.close()
            if not self._closed:
                self._on_lost()
