"""Limits the calls to each origin: concurrency limit, circuit breaker and retry budget."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final, Literal

import structlog

from gateway import clock
from gateway.egress.egress_errors import CallNotAttempted
from gateway.origin import origin_of

# ── Stops calling a provider that is down, so that callers do not wait for a response that cannot come.
#
# The circuit opens when 20 calls to a provider fail within 10 s: the provider cannot be reached, resets the connection
# or sends nothing. The circuit stays closed if the provider sent 20 responses in that time, because one bad resource of
# a working provider must not block its other resources. Any response, even a 500, proves that the provider is up.

FAILURES_TO_OPEN: Final = 20
FAILURE_WINDOW_S: Final = 10.0
OPEN_S: Final = 30.0
PROBE_RETRY_AFTER_S: Final = 1  # Retry-After for other calls while one call probes the provider


class CircuitBreaker:
    """The circuit breaker of one origin. Times are monotonic seconds.

    `responses`: number of responses, counted by `OriginLimits.release`. `open_until`: when the next call may probe the
    provider; 0.0 if the circuit is closed.
    """

    __slots__ = ("_failures", "_probing", "open_until", "responses")

    def __init__(self) -> None:
        self.responses = 0
        self._failures: deque[tuple[float, int]] = deque(maxlen=FAILURES_TO_OPEN)
        self.open_until = 0.0
        self._probing = False

    @property
    def is_closed(self) -> bool:
        """Whether the circuit is closed, so that calls pass."""
        return self.open_until == 0.0

    def try_probe_s(self, now: float) -> float:
        """Let this call probe the provider and return 0.0, or return the seconds after which a call may probe.

        Call this only if the circuit is open.
        """
        if now < self.open_until:
            return self.open_until - now
        if self._probing:
            return PROBE_RETRY_AFTER_S
        self._probing = True
        return 0.0

    def record_failure(self, now: float, *, probe: bool) -> bool:
        """Record a call without a response; return whether it opened the circuit."""
        if probe:
            self.open_until, self._probing = now + OPEN_S, False
            return True
        if not self.is_closed:
            return False
        failures = self._failures
        failures.append((now, self.responses))
        first_failure_at, responses_then = failures[0]
        if (
            len(failures) < FAILURES_TO_OPEN
            or now - first_failure_at > FAILURE_WINDOW_S
            or self.responses - responses_then >= FAILURES_TO_OPEN
        ):
            return False
        failures.clear()
        self.open_until = now + OPEN_S
        return True

    def record_recovery(self) -> None:
        """Close the circuit, because the probe got a response."""
        self.open_until, self._probing = 0.0, False
        self._failures.clear()

    def end_probe_without_result(self) -> None:
        """End a probe without a result, for example because its caller disconnected. The next call probes again."""
        self._probing = False

    def is_idle(self, now: float) -> bool:
        """Return whether the circuit breaker has no state to keep."""
        return self.is_closed and (not self._failures or now - self._failures[-1][0] > FAILURE_WINDOW_S)


# ── Limits the retries sent to a provider to a fifth of the calls to that provider, plus a small allowance.
#
# Without this limit, retries multiply the load of a provider when it fails under load.

RETRY_SHARE: Final = 0.2
MAX_SAVED_RETRIES: Final = 100.0  # maximum number of saved retries
ALLOWANCE: Final = 10.0  # number of retries with which each origin starts
# The allowance grows again by this many retries per second, so that a provider with few calls can be retried too.
ALLOWANCE_PER_S: Final = 0.5


class RetryBudget:
    """The retry budget of one origin. `requests`: number of calls, incremented by the code that makes the call."""

    __slots__ = ("_counted_requests", "_credit", "_seen_at", "requests")

    def __init__(self, now: float) -> None:
        self.requests = 0
        self._counted_requests = 0
        self._credit = ALLOWANCE
        self._seen_at = now

    def try_spend(self, now: float) -> bool:
        """Take one retry from the budget; return False if the budget has none. `now`: monotonic seconds."""
        earned = (self.requests - self._counted_requests) * RETRY_SHARE
        refilled = max(0.0, min(ALLOWANCE - self._credit, (now - self._seen_at) * ALLOWANCE_PER_S))
        self._credit = min(MAX_SAVED_RETRIES, self._credit + earned + refilled)
        self._counted_requests, self._seen_at = self.requests, now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


# ── Limits the calls that wait for the response of one provider, so that a slow provider does not block other calls.


@dataclass(frozen=True, slots=True)
class ConcurrencySettings:
    """The settings of a concurrency limit.

    `outstanding`: maximum number of calls whose response has not begun. `waiting`: maximum number of calls that wait
    for a place. `wait_s`: maximum wait of such a call, in seconds.
    """

    outstanding: int = 1000
    waiting: int = 5000
    wait_s: float = 10.0


class NoFreePlace(Exception):
    """No place became free in time, or too many calls already wait for a place."""


class ConcurrencyLimit:
    """Limits the calls to one origin whose response has not begun. Each such call has a place.

    Release each acquired place exactly once. `outstanding`: number of places in use. `waiting`: number of calls that
    wait for a place. `limits`: the settings; call `admit` after a change.
    """

    __slots__ = ("_queue", "limits", "outstanding", "waiting")

    def __init__(self, limits: ConcurrencySettings) -> None:
        self.outstanding = 0
        self.waiting = 0
        self.limits = limits
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()  # any waiting call can give up

    def try_acquire(self) -> bool:
        """Take a place without waiting; return False if no place is free."""
        if self.outstanding >= self.limits.outstanding:
            return False
        self.outstanding += 1
        return True

    async def acquire(self) -> None:
        """Wait for a free place. Waiting calls get places in the order of their arrival.

        Raises NoFreePlace after `wait_s` seconds, or immediately if too many calls wait.
        """
        if self.waiting >= self.limits.waiting:
            raise NoFreePlace
        place = asyncio.get_running_loop().create_future()
        self._queue[place] = None
        self.waiting += 1
        try:
            async with asyncio.timeout(self.limits.wait_s):
                await place
        except BaseException as fault:
            if place.done() and not place.cancelled():
                self.release()  # the place was granted at the same moment
            place.cancel()
            if isinstance(fault, TimeoutError):
                raise NoFreePlace from None
            raise
        finally:
            self._queue.pop(place, None)
            self.waiting -= 1

    def release(self) -> None:
        """Release a place, and give it to the call that has waited longest."""
        self.outstanding -= 1
        if self._queue:
            self.admit()

    def admit(self) -> None:
        """Give free places to waiting calls, in the order of their arrival."""
        while self._queue and self.outstanding < self.limits.outstanding:
            place, _ = self._queue.popitem(last=False)
            if not place.done():
                self.outstanding += 1
                place.set_result(None)


Origin = tuple[str, str, int]
"""Scheme, host and port."""
Outcome = Literal["responded", "failed", "unknown"]

MAX_ORIGINS: Final = 10_000  # above this number, origins without state are forgotten
RETRY_AFTER_S: Final = 5

log = structlog.get_logger(__name__)


class OriginLimits:
    """Concurrency limit, circuit breaker and retry budget of one origin.

    A call acquires a place before it is sent, and releases it when the response's head has arrived or can no longer
    arrive.
    """

    __slots__ = ("breaker", "budget", "concurrency", "origin")

    def __init__(self, origin: Origin, limits: ConcurrencySettings) -> None:
        self.origin = origin
        self.concurrency = ConcurrencyLimit(limits)
        self.breaker = CircuitBreaker()
        self.budget = RetryBudget(clock.monotonic())

    def try_acquire(self) -> bool:
        """Acquire a place if this is possible without waiting. If this returns False, await `acquire`."""
        return self.breaker.open_until == 0.0 and self.concurrency.try_acquire()

    async def acquire(self) -> bool:
        """Wait for a place; return True if this call probes whether the provider is up. Raises CallNotAttempted."""
        probe = not self.breaker.is_closed and self._begin_probe()
        if self.concurrency.try_acquire():
            return probe
        try:
            await self.concurrency.acquire()
        except BaseException as fault:
            if probe:
                self.breaker.end_probe_without_result()
            if isinstance(fault, NoFreePlace):
                raise CallNotAttempted(
                    f"Too many calls to {self.name} wait for a response (egress.limits in gateway.yaml). "
                    f"Send fewer at a time, or retry in {RETRY_AFTER_S} s.",
                    reason="too_many_outstanding",
                    retry_after_s=RETRY_AFTER_S,
                ) from None
            raise
        return probe

    def release(self, outcome: Outcome, *, probe: bool) -> None:
        """Release the place, and record the result of the call.

        Call this exactly once after `try_acquire` returned True or `acquire` returned. `probe`: what `acquire`
        returned; False after `try_acquire`.
        """
        self.concurrency.release()
        breaker = self.breaker
        if outcome == "responded":
            breaker.responses += 1
            if probe:
                breaker.record_recovery()
                log.info("circuit_closed", origin=self.name)
        elif outcome == "failed":
            if breaker.record_failure(clock.monotonic(), probe=probe):
                log.warning("circuit_opened", origin=self.name)
        elif probe:
            breaker.end_probe_without_result()

    def is_idle(self, now: float) -> bool:
        """Return whether no call uses these limits, and the limits have no state to keep. `now`: monotonic seconds."""
        return self.concurrency.outstanding == 0 and self.concurrency.waiting == 0 and self.breaker.is_idle(now)

    def _begin_probe(self) -> bool:
        wait_s = ceil(self.breaker.try_probe_s(clock.monotonic()))
        if wait_s:
            raise CallNotAttempted(
                f"{self.name} did not respond to the last calls, so its circuit breaker is open. Retry in {wait_s} s.",
                reason="provider_unreachable",
                retry_after_s=wait_s,
            )
        return True

    @property
    def name(self) -> str:
        """The origin as text, for example ``https://api.example.com:443``."""
        return origin_of(*self.origin)


class EgressLimits:
    """The limits of all origins. The limits of an origin are made at its first use.

    A reload of the configuration keeps the limits, so an open circuit stays open.
    """

    def __init__(self, limits: ConcurrencySettings | None = None) -> None:
        self._limits = limits or ConcurrencySettings()
        self._by_origin: dict[Origin, OriginLimits] = {}

    def for_origin(self, origin: Origin) -> OriginLimits:
        origin_limits = self._by_origin.get(origin)
        if origin_limits is None:
            if len(self._by_origin) >= MAX_ORIGINS:
                self._sweep()
            origin_limits = self._by_origin[origin] = OriginLimits(origin, self._limits)
        return origin_limits

    def apply_settings(self, limits: ConcurrencySettings) -> None:
        """Apply new settings. If the limit is lower now, calls in flight continue; if it is higher, waiting calls
        start."""
        self._limits = limits
        for origin_limits in self._by_origin.values():
            origin_limits.concurrency.limits = limits
            origin_limits.concurrency.admit()

    def __iter__(self) -> Iterator[OriginLimits]:
        """Iterate over the limits of all origins, for metrics."""
        return iter(list(self._by_origin.values()))

    def _sweep(self) -> None:
        now = clock.monotonic()
        self._by_origin = {
            origin: origin_limits for origin, origin_limits in self._by_origin.items() if not origin_limits.is_idle(now)
        }
