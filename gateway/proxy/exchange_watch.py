"""Ends an exchange if no byte moves for too long, the caller disconnects, or the caller's key is no longer valid.

Each exchange has one timer, which checks the limits at least once a second. Code that moves bytes only stores the time.
The watch also checks whether the caller has disconnected, because an application that mounts the gateway might have a
runner that does not cancel handlers (aiohttp's ``handler_cancellation``).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from gateway import clock
from gateway.egress.client import Timeouts
from gateway.egress.limits import Outcome
from gateway.http.abort import abort_connection, bytes_held_up
from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.facts import CALLER
from gateway.runtime import RUNTIME

CHECK_EVERY_S: Final = 1.0


class ExchangeTimeout(Exception):
    """No byte moved for `limit_s` seconds; with `total`, the whole exchange took longer than `limit_s` seconds."""

    def __init__(self, limit_s: float, *, total: bool = False) -> None:
        super().__init__(f"not finished within {limit_s:g} s" if total else f"nothing moved for {limit_s:g} s")
        self.limit_s = limit_s
        self.total = total

    def outcome(self, timeouts: Timeouts, *, waits_for_caller: bool) -> Outcome:
        """Return what the timeout says about the provider's health.

        `waits_for_caller`: whether the gateway waited for the caller's bytes. A timeout that the caller
        chose shorter than the operator's says nothing about the provider.
        """
        failed = not self.total and not waits_for_caller and self.limit_s >= timeouts.first_byte_s
        return "failed" if failed else "unknown"


def first_byte_s(options: ProxyOptions, timeouts: Timeouts) -> float:
    """Return how many seconds the provider may take until its response begins.

    The result is the caller's timeout, up to the operator's maximum. Without such a timeout, it is the default.
    """
    wanted_s = options.timeout_s
    return timeouts.first_byte_s if wanted_s is None else min(wanted_s, timeouts.max_first_byte_s)


class ExchangeWatch:
    """A context manager that cancels its task when a limit is exceeded, and then raises ExchangeTimeout.

    `limit_s`: maximum number of seconds without a byte. `total_s`: maximum duration of the whole exchange in seconds;
    None for no limit. `caller_idle_s`: replaces `limit_s` while the gateway waits for the caller's next bytes;
    otherwise None.
    """

    def __init__(self, request: web.Request, limit_s: float, total_s: float | None = None) -> None:
        self.limit_s = limit_s
        self.caller_idle_s: float | None = None
        self._request = request
        self._total_s = total_s
        self._moved_at = self._began_at = clock.monotonic()
        self._fault: ExchangeTimeout | None = None
        self._held_up_bytes = 0  # result of `bytes_held_up` at the last check

    def record_progress(self) -> None:
        """Record that bytes have just been received or sent."""
        self._moved_at = clock.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds until the time limit of the whole exchange; infinite without a limit."""
        return inf if self._total_s is None else self._began_at + self._total_s - clock.monotonic()

    @contextmanager
    def suspend_silence_limit(self) -> Iterator[None]:
        """Suspend the limit on silence while no bytes are expected. The other limits still hold."""
        limit_s, self.limit_s = self.limit_s, inf
        try:
            yield
        finally:
            self.limit_s = limit_s
            self.record_progress()

    def begin_again(self) -> None:
        """Restart the total time limit from now."""
        self._began_at = clock.monotonic()
        self.record_progress()

    def began_earlier(self, spent_s: float) -> None:
        """Shorten the total time limit by `spent_s` seconds, which were already used."""
        self._began_at -= spent_s
        self._timer.cancel()
        self._schedule_check()

    def timeout_behind_cancellation(self, *, total: bool = False) -> ExchangeTimeout | None:
        """Return the timeout that caused the CancelledError which the caller has just caught; None for another cause.

        After a timeout, the task can continue, and the watch continues too. `total`: also return a timeout of the whole
        exchange, and restart that limit.
        """
        fault = self._fault
        if fault is None or (fault.total and not total) or self._task.uncancel() > self._cancellations:
            return None
        self._fault = None
        self.begin_again() if fault.total else self.record_progress()
        self._schedule_check()
        return fault

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._schedule_check()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, fault: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._fault is not None and self._task.uncancel() <= self._cancellations and fault is not None:
            raise self._fault from fault

    def _schedule_check(self) -> None:
        check_in_s = min(CHECK_EVERY_S, self._limit_now_s / 4, max(self.left_s, 0))
        self._timer = self._loop.call_later(check_in_s, self._check_limits)

    @property
    def _limit_now_s(self) -> float:
        idle_s = self.caller_idle_s
        return self.limit_s if idle_s is None or self.limit_s == inf else idle_s

    def _check_limits(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self._task.cancel("the caller has disconnected")
            return
        self._record_reading(transport)
        if self._key_has_ended():
            abort_connection(transport)
            self._schedule_check()
        elif self._total_s is not None and self.left_s <= 0:
            self._end(ExchangeTimeout(self._total_s, total=True))
        elif clock.monotonic() - self._moved_at >= (limit_s := self._limit_now_s):
            self._end(ExchangeTimeout(limit_s))
        else:
            self._report_broken_framing()
            self._schedule_check()

    def _record_reading(self, transport: asyncio.WriteTransport) -> None:
        """Record progress if the response waits for a slow caller, and the caller has read since the last check."""
        held_up_before, self._held_up_bytes = self._held_up_bytes, bytes_held_up(transport)
        if 0 < self._held_up_bytes < held_up_before:
            self.record_progress()

    def _key_has_ended(self) -> bool:
        """Return whether the caller's key was revoked or has expired after the request was admitted."""
        caller = self._request.get(CALLER)
        if caller is None or caller.access is None:
            return False
        return self._request.app[RUNTIME].minted.has_ended(caller.access)

    def _end(self, fault: ExchangeTimeout) -> None:
        self._fault = fault
        self._task.cancel(str(fault))

    def _report_broken_framing(self) -> None:
        """Report broken chunk framing to the reader of the body, which would otherwise wait until its timeout.

        The server of an application that mounts the gateway only queues a 400 for a bad chunk. While a body is
        incomplete, the queue cannot contain anything else.
        """
        content = self._request.content
        queued = getattr(self._request.protocol, "_messages", ())
        if queued and not content.is_eof() and content.exception() is None:
            content.set_exception(web.RequestPayloadError("the body is framed wrongly"))
