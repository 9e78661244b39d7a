"""Background tasks, and work that continues if its caller is cancelled.

If a background task fails, the failure is logged immediately, and the code that started the task continues.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


def start_background(work: Coroutine[Any, Any, None], name: str | None = None) -> "asyncio.Task[None]":
    """Start a task for `work`. If the task fails, ``background_task_failed`` is logged.

    The caller keeps a reference to the task and ends it.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


async def end_background(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancel `tasks` and wait until they have ended."""
    task_list = list(tasks)
    for task in task_list:
        task.cancel()
    await asyncio.gather(*task_list, return_exceptions=True)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` in the background during the block, and cancel `work` after the block.

    If `work` fails, the block continues.
    """
    task = start_background(work)
    try:
        yield
    finally:
        await end_background([task])


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("background_task_failed", task=task.get_name(), exc_info=fault)


class ShieldedTasks:
    """Runs work that must not stop between two steps: a client that disconnects cancels the task of its request."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. If the caller is cancelled, `work` continues."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return await asyncio.shield(task)

    async def close(self, within_s: float = 15) -> None:
        """Wait for work in progress, at most `within_s` seconds."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=within_s)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved if the caller was cancelled
