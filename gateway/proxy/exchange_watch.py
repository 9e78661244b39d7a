"""Watches one exchange: ends it when nothing has moved for too long, when the caller has left, or when its key has ended.

One timer an exchange, which looks about once a second; whatever moves bytes only notes the time. The caller's leaving
is noticed here because a foreign runner may be set not to cancel handlers (aiohttp's ``handler_cancellation``).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Self

from aiohttp import web

from gateway import clock
from gateway.egress.client import Timeouts
from gateway.http.abort import cut
from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.facts import CALLER
from gateway.runtime import RUNTIME

_LOOK_EVERY_S = 1.0


class StoodStill(Exception):
    """Nothing moved for `limit_s`; with `total`, all of it has taken as long as it may, however much moved."""

    def __init__(self, limit_s: float, *, total: bool = False) -> None:
        super().__init__(f"not finished within {limit_s:g} s" if total else f"nothing moved for {limit_s:g} s")
        self.limit_s = limit_s
        self.total = total


def first_byte_s(options: ProxyOptions, timeouts: Timeouts) -> float:
    """How long the provider may stay silent: what the caller asks for, within what the operator allows."""
    asked_s = options.timeout_s
    return timeouts.first_byte_s if asked_s is None else min(asked_s, timeouts.max_first_byte_s)


class ExchangeWatch:
    """Entered by the task it may cancel. On the way out a cancellation of its own making becomes StoodStill.

    `limit_s`: how long nothing may move. `total_s`: how long all of it may take, None for any time. `caller_idle_s`: in
    place of `limit_s` while the caller's next bytes are awaited, None while they are not.
    """

    def __init__(self, request: web.Request, limit_s: float, total_s: float | None = None) -> None:
        self.limit_s = limit_s
        self.caller_idle_s: float | None = None
        self._request = request
        self._total_s = total_s
        self._moved_at = self._began_at = clock.monotonic()
        self._fault: StoodStill | None = None

    def moved(self) -> None:
        """Bytes went one way or the other."""
        self._moved_at = clock.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds until the time limit of the whole exchange."""
        return inf if self._total_s is None else self._began_at + self._total_s - clock.monotonic()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Lift the limit on silence while nothing is meant to move; the caller may still leave, and the total time is limited."""
        limit_s, self.limit_s = self.limit_s, inf
        try:
            yield
        finally:
            self.limit_s = limit_s
            self.moved()

    def begin_again(self) -> None:
        """Give what is watched from here on `total_s` of its own."""
        self._began_at = clock.monotonic()
        self.moved()

    def began_earlier(self, spent_s: float) -> None:
        """So many seconds of the time for all of it are gone already."""
        self._began_at -= spent_s
        self._timer.cancel()
        self._plan()

    def taken_back(self, *, total: bool = False) -> StoodStill | None:
        """Return the timeout behind a CancelledError if this watch caused it; the task then goes on, watched again.

        `total`: also where the time for all of it was over.
        """
        fault = self._fault
        if fault is None or (fault.total and not total) or self._task.uncancel() > self._cancellations:
            return None
        self._fault = None
        self.begin_again() if fault.total else self.moved()
        self._plan()
        return fault

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
        if self._fault is not None and self._task.uncancel() <= self._cancellations and fault is not None:
            raise self._fault from fault

    def _plan(self) -> None:
        look_in_s = min(_LOOK_EVERY_S, self._limit_now_s / 4, max(self.left_s, 0))
        self._timer = self._loop.call_later(look_in_s, self._look)

    @property
    def _limit_now_s(self) -> float:
        idle_s = self.caller_idle_s
        return self.limit_s if idle_s is None or self.limit_s == inf else idle_s

    def _look(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self._task.cancel("the caller has left")
        elif self._key_is_over():
            cut(transport)
            self._plan()
        elif self._total_s is not None and self.left_s <= 0:
            self._end(StoodStill(self._total_s, total=True))
        elif clock.monotonic() - self._moved_at >= (limit_s := self._limit_now_s):
            self._end(StoodStill(limit_s))
        else:
            self._tell_of_bad_framing()
            self._plan()

    def _key_is_over(self) -> bool:
        """Return whether the caller's key has been revoked, or has expired, since the request was let in."""
        caller = self._request.get(CALLER)
        if caller is None or caller.access is None:
            return False
        return self._request.app[RUNTIME].minted.over(caller.access)

    def _end(self, fault: StoodStill) -> None:
        self._fault = fault
        self._task.cancel(str(fault))

    def _tell_of_bad_framing(self) -> None:
        """Report a bad chunk to the reader of the body: aiohttp's server only queues its 400, and leaves the reader waiting.

        Nothing else can be in the queue while a body is unfinished.
        """
        content = self._request.content
        queued = getattr(self._request.protocol, "_messages", ())
        if queued and not content.is_eof() and content.exception() is None:
            content.set_exception(web.RequestPayloadError("the body is framed wrongly"))
