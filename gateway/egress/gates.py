"""The gate before each provider origin: bulkhead, circuit breaker and retry budget under one look-up."""

from collections.abc import Iterator
from math import ceil
from typing import Final, Literal

import structlog

from gateway import clock
from gateway.egress.breaker import Breaker
from gateway.egress.budget import Budget
from gateway.egress.bulkhead import Bulkhead, Full, Limits
from gateway.egress.errors import TurnedAway

Origin = tuple[str, str, int]
"""Scheme, host and port."""
Outcome = Literal["answered", "failed", "untold"]

MOST_GATES: Final = 10_000  # of which those that remember nothing are dropped
COME_BACK_S: Final = 5

log = structlog.get_logger(__name__)


class Gate:
    """Whoever passes it leaves by the same, when the answer's head is there or cannot come any more."""

    __slots__ = ("breaker", "budget", "bulkhead", "origin")

    def __init__(self, origin: Origin, limits: Limits) -> None:
        self.origin = origin
        self.bulkhead = Bulkhead(limits)
        self.breaker = Breaker()
        self.budget = Budget(clock.monotonic())

    def enter_at_once(self) -> bool:
        """Pass if nothing is in the way, as nearly always; such a call is no probe. False: ask `enter`."""
        return self.breaker.open_until == 0.0 and self.bulkhead.enter()

    async def enter(self) -> bool:
        """Wait for a place. True: this call tries whether the provider is back. Raises TurnedAway."""
        probe = not self.breaker.closed and self._try_again()
        if self.bulkhead.enter():
            return probe
        try:
            await self.bulkhead.wait()
        except BaseException as ended:
            if probe:
                self.breaker.untold()
            if isinstance(ended, Full):
                raise TurnedAway(
                    f"{self.name} has more calls outstanding than it may have. Send fewer at once, or come back "
                    f"in {COME_BACK_S} s; egress.limits in gateway.yaml sets how many there may be.",
                    reason="too_many_outstanding",
                    retry_after_s=COME_BACK_S,
                ) from None
            raise
        return probe

    def leave(self, outcome: Outcome, *, probe: bool) -> None:
        """Once for every `enter` that returned, with what it said."""
        self.bulkhead.leave()
        breaker = self.breaker
        if outcome == "answered":
            breaker.answers += 1
            if probe:
                breaker.recovered()
                log.info("provider_is_back", origin=self.name)
        elif outcome == "failed":
            if breaker.failed(clock.monotonic(), probe=probe):
                log.warning("provider_given_up_for_now", origin=self.name)
        elif probe:
            breaker.untold()

    def idle(self, now: float) -> bool:
        return self.bulkhead.outstanding == 0 and self.bulkhead.waiting == 0 and self.breaker.idle(now)

    def _try_again(self) -> bool:
        wait_s = ceil(self.breaker.refusal_s(clock.monotonic()))
        if wait_s:
            raise TurnedAway(
                f"{self.name} has not answered its last calls, so it is left alone for now. Come back in {wait_s} s.",
                reason="provider_unreachable",
                retry_after_s=wait_s,
            )
        return True

    @property
    def name(self) -> str:
        """``https://api.example.com:443``"""
        scheme, host, port = self.origin
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Gates:
    """One gate an origin, made on first use."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._gates: dict[Origin, Gate] = {}

    def to(self, origin: Origin) -> Gate:
        gate = self._gates.get(origin)
        if gate is None:
            if len(self._gates) >= MOST_GATES:
                self._sweep()
            gate = self._gates[origin] = Gate(origin, self._limits)
        return gate

    def __iter__(self) -> Iterator[Gate]:
        """For metrics."""
        return iter(list(self._gates.values()))

    def _sweep(self) -> None:
        now = clock.monotonic()
        self._gates = {origin: gate for origin, gate in self._gates.items() if not gate.idle(now)}
