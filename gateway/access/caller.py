"""The caller of a request, its rights, and the use of its key: calls per minute (rate) and calls in total (budget).

Each worker counts the rate for itself. For a budget, a worker first reserves a part of the remaining calls in the
store: at most a twentieth, and at most 1,000 calls. So all workers and nodes together never exceed the budget. If a
part has at least 100 calls, the worker reserves the next part when half of the calls are used. So no call waits for the
store.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gateway import clock
from gateway.access.key_policy import Policy
from gateway.access.refusals import CREATE_KEY, rule_and_fix
from gateway.access.scopes import EVERYTHING
from gateway.background import ShieldedTasks, start_background
from gateway.errors import Forbidden, GatewayError, TooManyRequests
from gateway.records.access import Environment, MintedKey
from gateway.records.audit import AuditActor
from gateway.records.connection import ConnectionRef
from gateway.text import counted
from gateway.timestamps import iso

WINDOW_S: Final = 60.0
MAX_RESERVED: Final = 1000
MIN_PART_TO_RESERVE_AHEAD: Final = 100
"""If a part has at least this many calls, the worker reserves the next part before these calls are used up. Near the
end of a budget, the parts are smaller. The worker then reserves a part only when a call needs it."""

ReserveCalls = Callable[[int], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class RateState:
    """The state of a key's rate limit, as response headers report it (docs/compatibility.md#rate-limits).

    `reset_at`: the end of the current minute, in seconds since 1970.
    """

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
    """Counts the calls of a key.

    `rate`: maximum calls per minute; None means no maximum. `budget`: maximum calls in total; None means no maximum.

    `reserve_calls(limit)` reserves up to `limit` calls of the budget in the store, and returns how many it reserved. A
    negative `limit` returns calls to the store.
    """

    def __init__(self, rate: int | None, budget: int | None, reserve_calls: ReserveCalls) -> None:
        self.rate = rate
        self.budget = budget
        self._reserve_calls = reserve_calls
        self._minute_began_at = -math.inf
        self._calls_in_minute = 0
        self._reserved = 0
        self._refill_at = -1  # the next part is reserved when this number of calls is left; -1: not reserved in advance
        self._spent_at = 0.0
        self._refill_lock = asyncio.Lock()
        self._refilling: asyncio.Task[None] | None = None
        self._reservations = ShieldedTasks()

    def count_against_rate(self) -> RateState | None:
        """Count one call and return the new state of the rate limit; None if the key has no rate.

        Raises TooManyRequests if the calls of this minute are used up.
        """
        if self.rate is None:
            return None
        now = clock.monotonic()
        if now - self._minute_began_at >= WINDOW_S:
            self._minute_began_at, self._calls_in_minute = now, 0
        left_s = max(1, math.ceil(self._minute_began_at + WINDOW_S - now))
        reset_at = int(clock.now().timestamp()) + left_s
        if self._calls_in_minute >= self.rate:
            retry_at = iso(clock.now() + timedelta(seconds=left_s))
            raise TooManyRequests(
                "too_many_request",
                f"Rate limit of this key exceeded: {counted(self.rate, 'call')} a minute. Retry in {left_s} s.",
                payload={
                    "limit": self.rate,
                    "retry_at": retry_at,
                    **rule_and_fix("rate", f"Wait {left_s} s, then send the request again."),
                },
                retry_after_s=left_s,
                headers=RateState(self.rate, 0, reset_at).headers(),
            )
        self._calls_in_minute += 1
        return RateState(self.rate, self.rate - self._calls_in_minute, reset_at)

    async def count_against_budget(self) -> None:
        """Spend one call of the budget.

        Raises Forbidden if no call is left, and Unavailable if the store cannot be written.
        """
        if self.budget is None:
            return
        if not self._reserved:
            async with self._refill_lock:
                if not self._reserved:
                    await self._reserve_part()
        if not self._reserved:
            raise Forbidden(
                "forbidden",
                f"The budget of this key, {counted(self.budget, 'call')} in total, is used up.",
                payload={"limit": self.budget, **rule_and_fix("budget", f"Use a new key: {CREATE_KEY}.")},
            )
        self._spend_reserved()

    def count(self) -> tuple[bool, RateState | None]:
        """Count one call against the rate and the budget, if this needs no I/O and both limits allow the call.

        Return whether the call was counted, and the state of the rate limit (None if the key has no rate). If the call
        was not counted, call `count_against_rate` and `count_against_budget`: they reserve calls in the store, or raise
        the error.
        """
        if self.budget is not None and not self._reserved:
            return False, None
        try:
            rate_state = self.count_against_rate()
        except TooManyRequests:
            return False, None
        if self.budget is not None:
            self._spend_reserved()
        return True, rate_state

    def _spend_reserved(self) -> None:
        self._reserved -= 1
        self._spent_at = clock.monotonic()
        if self._reserved == self._refill_at and self._refilling is None:
            self._refilling = start_background(self._refill(), "budget_refill")

    async def _refill(self) -> None:
        try:
            async with self._refill_lock:
                await self._reserve_part()
        except GatewayError:
            """If no reserved call is left, the next call tries again, and raises the store's error."""
        finally:
            self._refilling = None

    async def _reserve_part(self) -> None:
        """Reserve a part of the budget in the store. If the call that needs it is cancelled, later calls can use the part."""
        await self._reservations.run(self._reserve())

    async def _reserve(self) -> None:
        part = await self._reserve_calls(MAX_RESERVED)
        self._reserved += part
        self._refill_at = part // 2 if part >= MIN_PART_TO_RESERVE_AHEAD else -1

    async def return_unspent(self, idle_s: float = 0.0) -> bool:
        """Return unspent calls to the store, unless a call was spent within the last `idle_s` seconds.

        Return whether calls are still reserved. If the store fails, the calls count as used, because the store may have
        accepted them before it failed.
        """
        if self._refilling is not None:
            await asyncio.wait([self._refilling])
        await self._reservations.close()
        if self._reserved and clock.monotonic() - self._spent_at >= idle_s:
            unspent, self._reserved = self._reserved, 0
            await self._reserve_calls(-unspent)
        return self._reserved > 0


# ── The caller: an environment and, for a minted key, the rights of the key in this environment.

UNLIMITED: Final = Policy((EVERYTHING,), ())


@dataclass(slots=True)
class Access:
    """A minted key in use.

    `meter`: counts the key's calls; None if the key has neither a rate nor a budget. `ends_at`: when the key expires,
    in seconds since 1970; infinity if the key does not expire. `has_unsaved_use`: whether the store still has to record
    a use of the key. `parents`: the ids of the key's ancestors, the nearest first. `last_actor`: the cached last result
    of `Caller.actor`.
    """

    key: MintedKey
    policy: Policy
    meter: Meter | None
    ends_at: float
    has_unsaved_use: bool = False
    parents: tuple[int, ...] = ()
    last_actor: AuditActor | None = field(default=None, compare=False, repr=False)

    @property
    def is_valid(self) -> bool:
        return self.ends_at == math.inf or clock.now().timestamp() < self.ends_at

    @property
    def bound_connection(self) -> ConnectionRef | None:
        """The only connection that a capability can use; None for a secret key."""
        if self.key.kind != "capability":
            return None
        connection_name = next(name for key_limits in self.key.limits for name in key_limits.connections)
        integration_id, _, connection_id = connection_name.partition("/")
        return ConnectionRef(self.key.environment, integration_id, connection_id)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    `access`: the minted key; None for a key of gateway.yaml, which can do everything in its environment.
    """

    environment: Environment
    access: Access | None = None

    @property
    def policy(self) -> Policy:
        return UNLIMITED if self.access is None else self.access.policy

    @property
    def key(self) -> MintedKey | None:
        return None if self.access is None else self.access.key

    @property
    def share(self) -> str:
        """The name by which shared resources, such as a thread, are divided fairly among callers.

        For a minted key, the name is the key's id. For a key of gateway.yaml, the name is the name of its environment.
        """
        return self.environment.name if self.access is None else str(self.access.key.id)

    @property
    def key_id(self) -> str:
        """The id under which the key's connect sessions are counted; empty for all keys of gateway.yaml together."""
        return "" if self.access is None else str(self.access.key.id)

    def actor(self, address: str) -> AuditActor:
        """Return the actor for the audit trail: this key, used from the IP address `address`."""
        if self.access is None:
            return AuditActor("configured_key", address=address)
        access, actor = self.access, self.access.last_actor
        if actor is None or actor.address != address:
            key = access.key
            actor = AuditActor("key", key_id=key.id, name=key.name, parents=access.parents, address=address)
            access.last_actor = actor
        return actor


def build_access(
    key: MintedKey, meter: Meter | None, parents: tuple[int, ...] = (), policy: Policy | None = None
) -> Access:
    """Return the key's rights. `policy`: the key's policy, if it is built already."""
    ends_at = math.inf if key.expires_at is None else key.expires_at.timestamp()
    return Access(key, policy or Policy(key.scopes, key.limits), meter, ends_at, parents=parents)


def compiled_policy(key: MintedKey) -> Policy:
    """Return the key's policy with all rules compiled. Call this in a thread if `is_slow_to_compile` returns True."""
    policy = Policy(key.scopes, key.limits)
    policy.compile()
    return policy
