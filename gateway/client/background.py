"""An event loop that runs behind a program without one."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread, started when first used; anew in a process that was forked from this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items, each asked for when the one before is done with. Whoever leaves early closes what they come from."""
        end = object()

        async def following() -> Any:
            return await anext(items, end)

        async def close() -> None:
            await items.aclose()  # type: ignore[attr-defined]

        try:
            while (item := self.run(following())) is not end:
                yield item
        finally:
            self.run(close())

    @property
    def used_here(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="gateway-client", daemon=True)
                self._thread.start()
                self._pid = os.getpid()
            return self._loop
