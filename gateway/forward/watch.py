"""Watches one exchange: ends it when nothing has moved for too long, or when the caller has left.

One timer an exchange, which looks about once a second; whatever moves bytes only notes the time. The caller's leaving
is noticed here because a foreign runner may be set not to cancel handlers (aiohttp's ``handler_cancellation``).
"""

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web

from gateway import clock

_LOOK_EVERY_S = 1.0


class StoodStill(Exception):
    """Nothing moved for `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"nothing moved for {limit_s:g} s")
        self.limit_s = limit_s


class Watch:
    """Entered by the task it may cancel. On the way out a cancellation of its own making becomes StoodStill."""

    def __init__(self, request: web.Request, limit_s: float) -> None:
        self.limit_s = limit_s
        self._request = request
        self._moved_at = clock.monotonic()
        self._stood_still = False

    def moved(self) -> None:
        """Bytes went one way or the other."""
        self._moved_at = clock.monotonic()

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._plan()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, fault: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._stood_still and self._task.uncancel() <= self._cancellations and fault is not None:
            raise StoodStill(self.limit_s) from fault

    def _plan(self) -> None:
        self._timer = self._loop.call_later(min(_LOOK_EVERY_S, self.limit_s / 4), self._look)

    def _look(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self._task.cancel("the caller has left")
        elif clock.monotonic() - self._moved_at >= self.limit_s:
            self._stood_still = True
            self._task.cancel("nothing moves")
        else:
            self._tell_of_bad_framing()
            self._plan()

    def _tell_of_bad_framing(self) -> None:
        """After a bad chunk aiohttp's server queues its 400 behind us, and lets us wait for the body's rest.

        Nothing else can be in the queue while a body is unfinished.
        """
        content = self._request.content
        queued = getattr(self._request.protocol, "_messages", ())
        if queued and not content.is_eof() and content.exception() is None:
            content.set_exception(web.RequestPayloadError("the body is framed wrongly"))
