"""Collects small messages of many connections, and writes them together at the end of an event loop iteration.

A write wakes the process that reads the message, and a wake-up costs CPU. If messages are written directly one after
another, the reading process is still awake, so most wake-ups are saved. An ordinary GET costs at best 45 µs of CPU with
this batch and 54 µs without it (ADR 47)."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

MAX_MESSAGES: Final = 32  # a batch of this size is written immediately, so that its first message does not wait longer

log = structlog.get_logger(__name__)


class WriteBatch:
    """Messages to write together. `in_flight`: number of fast path requests in flight; each exchange updates it."""

    __slots__ = ("_pending", "in_flight")

    def __init__(self) -> None:
        self._pending: list[Callable[[], None]] = []
        self.in_flight = 0

    def add(self, send: Callable[[], None]) -> None:
        """Call `send` at the end of this event loop iteration.

        Call `send` immediately if no other request is in flight, because then no other message can share the batch.
        """
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
