"""When an event is tried again, and when no more. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gateway.records.event import Delivery, DeliveryState, Outcome

FIRST_S: Final = 2.0
FACTOR: Final = 2.0
LONGEST_S: Final = 900.0  # 2 s, 4 s, 8 s … 8 min, then every quarter of an hour
JITTER: Final = 0.2

GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a receiver; `status` None where there was none, and `fault` says why. `wait_s`: its Retry-After."""

    status: int | None
    fault: str | None = None
    wait_s: float | None = None

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def outcome(delivery: Delivery, answer: Answer, now: datetime, chance: Callable[[], float] = random.random) -> Outcome:
    """What follows from `answer`, the latest to an event that was tried `delivery.attempts` times before.

    410 is the receiver's word that nobody is there any more (Standard Webhooks). All else that is not 2xx is tried again
    until `give_up_at`, redirects too, which are not followed: a signed body goes to no address that nobody configured.
    """
    if answer.taken:
        return Outcome(DeliveryState.DELIVERED, answer.status)
    why = answer.fault or f"the receiver answered {answer.status}"
    if answer.status == GONE:
        return Outcome(DeliveryState.DEAD, answer.status, "the receiver answered 410: it wants no more events")
    wait_s = max(delay_s(delivery.attempts, chance), answer.wait_s or 0.0)
    left_s = (delivery.give_up_at - now).total_seconds()
    if left_s <= 0:
        return Outcome(DeliveryState.DEAD, answer.status, f"given up after a day: {why}")
    return Outcome(DeliveryState.PENDING, answer.status, why, now + timedelta(seconds=min(wait_s, left_s)))


def delay_s(attempts: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds until the next attempt, after one that failed; `attempts` were made before that one."""
    grown = min(FIRST_S * FACTOR ** min(attempts, 20), LONGEST_S)
    return grown * (1 + JITTER * (2 * chance() - 1))
