"""The caller of a request, its rights, and the use of its key: calls per minute (rate) and calls in total (budget).

Each worker counts the rate for itself. Calls of a budget are reserved in the store before any of them is made, a
twentieth of the rest at a time and 1,000 at most: all workers and nodes together never exceed the budget. For a large
budget the next part is reserved when half of the last part is used, so that no call waits for the store.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gateway import clock
from gateway.access.key_policy import Policy
from gateway.access.refusals import CREATE, rule_and_fix
from gateway.access.scopes import EVERYTHING
from gateway.background import start_background
from gateway.errors import Forbidden, GatewayError, TooManyRequests
from gateway.records.access import Environment, MintedKey
from gateway.records.audit import AuditActor
from gateway.records.connection import ConnectionRef
from gateway.text import counted
from gateway.timestamps import iso

WINDOW_S: Final = 60.0
MOST_AT_ONCE: Final = 1000
AHEAD_FROM: Final = 100
"""Parts of at least this many calls are refilled ahead: near its end a budget is taken only as it is needed."""

ReserveCalls = Callable[[int], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class KeyPace:
    """The rate limit as a caller sees it (docs/compatibility.md#rate-limits). `reset_at`: seconds since 1970."""

    limit: int
    remaining: int
    reset_at: int

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_at),
        }


class Meter:
    """Counts the calls of a key. `reserve_calls(most)` reserves up to `most` calls of the budget in the store; negative:
    returns them.

    `rate`, `budget` None: without that limit.
    """

    def __init__(self, rate: int | None, budget: int | None, reserve_calls: ReserveCalls) -> None:
        self.rate = rate
        self.budget = budget
        self._reserve_calls = reserve_calls
        self._begun_at = -math.inf
        self._taken = 0
        self._held = 0
        self._low = -1  # when this many calls are left, the next part is set aside
        self._spent_at = 0.0
        self._turn = asyncio.Lock()
        self._refilling: asyncio.Task[None] | None = None

    def pace(self) -> KeyPace | None:
        """Count one call of this minute; None without a rate. Raises TooManyRequests."""
        if self.rate is None:
            return None
        now = clock.monotonic()
        if now - self._begun_at >= WINDOW_S:
            self._begun_at, self._taken = now, 0
        left_s = max(1, math.ceil(self._begun_at + WINDOW_S - now))
        reset_at = int(clock.now().timestamp()) + left_s
        if self._taken >= self.rate:
            retry_at = iso(clock.now() + timedelta(seconds=left_s))
            raise TooManyRequests(
                "too_many_request",
                f"Rate limit of this key exceeded: {counted(self.rate, 'call')} a minute. Retry in {left_s} s.",
                payload={
                    "limit": self.rate,
                    "retry_at": retry_at,
                    **rule_and_fix("rate", f"Wait {left_s} s, then send it again."),
                },
                retry_after_s=left_s,
                headers=KeyPace(self.rate, 0, reset_at).headers(),
            )
        self._taken += 1
        return KeyPace(self.rate, self.rate - self._taken, reset_at)

    async def spend(self) -> None:
        """Spend one call of the budget. Raises Forbidden if none is left."""
        if self.budget is None:
            return
        if not self._held:
            async with self._turn:
                if not self._held:
                    await self._take_more()
        if not self._held:
            raise Forbidden(
                "forbidden",
                f"The budget of this key, {counted(self.budget, 'call')} in total, is used up.",
                payload={"limit": self.budget, **rule_and_fix("budget", f"Ask them for a new key: {CREATE}.")},
            )
        self._spend_held()

    def count(self) -> tuple[bool, KeyPace | None]:
        """Count one call of the rate and the budget if both are known to allow it; return whether, and `pace`."""
        if self.budget is not None and not self._held:
            return False, None
        try:
            counted = self.pace()
        except TooManyRequests:
            return False, None
        if self.budget is not None:
            self._spend_held()
        return True, counted

    def _spend_held(self) -> None:
        self._held -= 1
        self._spent_at = clock.monotonic()
        if self._held == self._low and self._refilling is None:
            self._refilling = start_background(self._refill(), "budget_refill")

    async def _refill(self) -> None:
        try:
            async with self._turn:
                await self._take_more()
        except GatewayError:
            """The call that finds nothing set aside asks the store itself, and says why it cannot."""
        finally:
            self._refilling = None

    async def _take_more(self) -> None:
        taken = await self._reserve_calls(MOST_AT_ONCE)
        self._held += taken
        self._low = taken // 2 if taken >= AHEAD_FROM else -1

    async def give_back(self, idle_s: float = 0.0) -> None:
        """Return unspent calls to the store, unless the meter was used within the last `idle_s`."""
        if self._refilling is not None:
            await asyncio.wait([self._refilling])
        if self._held and clock.monotonic() - self._spent_at >= idle_s:
            held, self._held = self._held, 0
            await self._reserve_calls(-held)


# ── The caller: an environment and, for a minted key, its rights there.

UNBOUNDED: Final = Policy((EVERYTHING,), ())


@dataclass(slots=True)
class Access:
    """A minted key in use. `ends_at`: seconds since 1970. `used`: whether it was used since the last use was stored.
    `parents`: the ids of its ancestors, the nearest first."""

    key: MintedKey
    policy: Policy
    meter: Meter | None
    ends_at: float
    used: bool = False
    parents: tuple[int, ...] = ()

    @property
    def alive(self) -> bool:
        return self.ends_at == math.inf or clock.now().timestamp() < self.ends_at

    @property
    def bound_to(self) -> ConnectionRef | None:
        """The one connection that a capability leads to; None for a key."""
        if self.key.kind != "capability":
            return None
        named = next(name for one in self.key.limits for name in one.connections)
        integration_id, _, connection_id = named.partition("/")
        return ConnectionRef(self.key.environment, integration_id, connection_id)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. `access` None: a key of gateway.yaml, which may do everything in its environment."""

    environment: Environment
    access: Access | None = None

    @property
    def policy(self) -> Policy:
        return UNBOUNDED if self.access is None else self.access.policy

    @property
    def key(self) -> MintedKey | None:
        return None if self.access is None else self.access.key

    @property
    def share(self) -> str:
        """The name under which the caller shares common resources: the minted key, or the environment for its other keys."""
        return self.environment.name if self.access is None else str(self.access.key.id)

    @property
    def key_id(self) -> str:
        """The id under which the key's connect sessions are counted; empty for all keys of gateway.yaml together."""
        return "" if self.access is None else str(self.access.key.id)

    def actor(self, address: str) -> AuditActor:
        """Return the actor for the audit trail: this key, used from that network address."""
        if self.access is None:
            return AuditActor("configured_key", address=address)
        key = self.access.key
        return AuditActor("key", key_id=key.id, name=key.name, parents=self.access.parents, address=address)


def access_of(key: MintedKey, meter: Meter | None, parents: tuple[int, ...] = ()) -> Access:
    ends_at = math.inf if key.expires_at is None else key.expires_at.timestamp()
    return Access(key, Policy(key.scopes, key.limits), meter, ends_at, parents=parents)
