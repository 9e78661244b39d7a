"""Collects small messages of many connections, and writes them together at the end of an event loop iteration.

Each message wakes its reader. If messages are written one after another, the reader is still awake and busy with the
previous one. If other work comes between them, each write pays for the wake-up: at best a plain GET costs 45 µs of CPU
with this batch and 54 without (ADR 47).
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

MOST: Final = 32  # at this number all are written, so that the first of them does not wait longer

log = structlog.get_logger(__name__)


class WriteBatch:
    """Messages to write together. `in_flight`: number of fast path requests in flight; the exchanges count it."""

    __slots__ = ("_due", "in_flight")

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self.in_flight = 0

    def add(self, send: Callable[[], None]) -> None:
        """Call `send` at the end of this iteration; immediately if no other request is in flight to share the
        batch."""
        if self.in_flight < 2:
            send()
            return
        if not self._due:
            asyncio.get_running_loop().call_soon(self._all)
        self._due.append(send)
        if len(self._due) >= MOST:
            self._all()

    def _all(self) -> None:
        due, self._due = self._due, []
        for send in due:
            try:
                send()
            except Exception:
                log.exception("request_write_failed")  # the other connections must still send their messages
