"""The bounded queue behind `access_log`, written to the store in batches: a request never waits for its own record."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import structlog

from gateway.errors import GatewayError
from gateway.records.exchange import Exchange

BOUND: Final = 10_000
BATCH: Final = 500
EVERY_S: Final = 1.0

log = structlog.get_logger(__name__)


class Sink(Protocol):
    async def add_many(self, exchanges: Sequence[Exchange]) -> None: ...


class RequestLog:
    """`dropped` counts the records that found the queue full."""

    def __init__(self, bound: int = BOUND) -> None:
        self._queue: deque[Exchange] = deque()
        self._bound = bound
        self._sink: Sink | None = None
        self._writing = asyncio.Lock()
        self.dropped = 0

    def note(self, exchange: Exchange) -> None:
        """Take a record, or drop it where the store does not keep up."""
        if len(self._queue) >= self._bound:
            self.dropped += 1
        else:
            self._queue.append(exchange)

    async def write_to(self, sink: Sink, every_s: float = EVERY_S) -> None:
        """Write batches for as long as the application runs."""
        self._sink = sink
        while True:
            await asyncio.sleep(every_s)
            with suppress(GatewayError):  # the store tells its trouble itself; the batch stays queued
                await self._write()

    async def close(self) -> None:
        """Write what is left; a store that cannot take it any more loses records, never requests."""
        try:
            await self._write()
        except GatewayError as fault:
            log.warning("request_log_lost", records=len(self._queue), detail=fault.message)
        if self.dropped:
            log.warning("request_log_dropped", records=self.dropped)

    async def _write(self) -> None:
        async with self._writing:  # the last write may come while one of every second is under way
            while self._queue and self._sink is not None:
                batch = [self._queue[n] for n in range(min(BATCH, len(self._queue)))]
                await self._sink.add_many(batch)
                for _ in batch:
                    self._queue.popleft()
