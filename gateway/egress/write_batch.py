"""Collects small messages of many connections, and writes them together at the end of an event loop iteration.

Each message wakes the process that reads it. If messages are written one after another, that process is still awake and
busy with the previous message. If other work comes between them, each write pays for a wake-up: an ordinary GET costs
at best 45 µs of CPU with this batch and 54 µs without it (ADR 47)."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

MAX_MESSAGES: Final = 32  # at this number the batch is written at once, so that its first message does not wait longer

log = structlog.get_logger(__name__)


class WriteBatch:
    """Messages to write together. `in_flight`: number of fast path requests in flight, which the exchanges update."""

    __slots__ = ("_pending", "in_flight")

    def __init__(self) -> None:
        self._pending: list[Callable[[], None]] = []
        self.in_flight = 0

    def add(self, send: Callable[[], None]) -> None:
        """Call `send` at the end of this iteration; immediately if no other request is in flight to share the
        batch."""
        if self.in_flight < 2:
            send()
            return
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._send_all)
        self._pending.append(send)
        if len(self._pending) >= MAX_MESSAGES:
            self._send_all()

    def _send_all(self) -> None:
        pending, self._pending = self._pending, []
        for send in pending:
            try:
                send()
            except Exception:
                log.exception("request_write_failed")  # the other connections must still send their messages
