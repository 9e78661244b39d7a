"""A task that lasts as long as a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

log = structlog.get_logger(__name__)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """`work` beside the block, ended with it. If it fails, that is logged at once, and the block goes on."""
    task = asyncio.create_task(work)
    task.add_done_callback(_done)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _done(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("background_task_failed", exc_info=fault)
