"""Works off the outbox: every process of every node sends what it can claim, so that none waits for another.

Nothing runs while there is nothing to send: the loop sleeps until something has changed in the store, until the next attempt
is due, or for the length of a slow poll. A process that dies between a receiver's 200 and our note of it leaves a lease that
runs out, and the event is sent again under the same ``webhook-id``: at least once, never lost (Standard Webhooks).
"""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.catalog.load import Catalog
from gateway.config import Config
from gateway.egress.client import Egress
from gateway.errors import GatewayError
from gateway.metrics import Metrics
from gateway.metrics.families import DELIVERIES
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.records.event import PRIMARY, SECONDARY, Delivery, DeliveryState, Outcome
from gateway.store import Store
from gateway.vault import VaultError
from gateway.webhooks.backoff import Answer, outcome
from gateway.webhooks.body import message, size_of
from gateway.webhooks.keys import KnownKeys
from gateway.webhooks.lane import AT_ONCE, Pace
from gateway.webhooks.send import send
from gateway.webhooks.sign import signed

LEASE: Final = timedelta(seconds=60)  # well above the longest attempt
MOST: Final = 64  # sent at once by a process, to all targets together
POLL_S: Final = 30.0
SHORTEST_S: Final = 0.05
AGAIN_S: Final = 5.0  # where the store cannot be asked

log = structlog.get_logger(__name__)


class Deliverer:
    """One a process. `wake` may be called by whoever has written an event, as often as they like."""

    def __init__(self, store: Store, config: Config, catalog: Catalog, egress: Egress, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.turn_to(config, catalog, egress)
        self._owner = uuid.uuid4().hex
        self._bell = asyncio.Event()
        self._paces: dict[tuple[str, str], Pace] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._closed = False

    def turn_to(self, config: Config, catalog: Catalog, egress: Egress) -> None:
        """Work by another configuration; what is being sent goes to where it was meant to."""
        self._config, self._catalog, self._egress = config, catalog, egress
        self._keys = KnownKeys(config, self._store)
        self._store.outbox.targets_of = self._targets_of

    def key_changed(self) -> None:
        """What is sent from now on is signed with the new one."""
        self._keys.forget()

    def wake(self) -> None:
        """There may be something to send."""
        self._bell.set()

    async def run(self) -> None:
        """For as long as the gateway runs."""
        while True:
            try:
                pause_s = await self.once()
            except Exception as fault:
                known = isinstance(fault, GatewayError)
                log.warning("events_not_sent", detail=str(fault), again_in_s=AGAIN_S, exc_info=None if known else fault)
                pause_s = AGAIN_S
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._bell.wait()

    async def once(self) -> float:
        """Begin to send all that can be sent now. Returns how many seconds until there may be more."""
        self._bell.clear()
        work = await self._store.deliveries.work(clock.now())
        ticks = clock.monotonic()
        soonest = POLL_S
        for lane in work.lanes:
            pace = self._paces.setdefault(lane, Pace())
            limit = min(pace.free(ticks), MOST - len(self._sending))
            if limit > 0 and not self._closed:
                await self._begin(lane, pace, limit)
            elif pace.resting_until > ticks:
                soonest = min(soonest, pace.resting_until - ticks)
        for lane in [lane for lane, pace in self._paces.items() if pace.idle(ticks)]:
            del self._paces[lane]
        if work.next_at is not None:
            soonest = min(soonest, (work.next_at - clock.now()).total_seconds())
        return max(soonest, SHORTEST_S)

    async def idle(self) -> None:
        """Wait until what has been begun is over."""
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def close(self, within_s: float = 3.0) -> None:
        """Let what is being sent end, and leave the rest to others, or to the next start."""
        self._closed = True
        if self._sending:
            await asyncio.wait(set(self._sending), timeout=within_s)
        for task in list(self._sending):
            task.cancel()
        left = await asyncio.gather(*self._sending, return_exceptions=True)
        if left:
            try:
                await self._store.deliveries.release(self._owner)
            except GatewayError as fault:
                log.warning("events_not_handed_over", detail=fault.message)

    async def _begin(self, lane: tuple[str, str], pace: Pace, limit: int) -> None:
        now = clock.now()
        claimed = await self._store.deliveries.claim(lane, owner=self._owner, now=now, ttl=LEASE, limit=limit)
        for delivery in claimed:
            pace.running += 1
            task = asyncio.create_task(self._deliver(delivery, pace), name="deliver_event")
            self._sending.add(task)
            task.add_done_callback(lambda done, pace=pace: self._ended(done, pace))  # type: ignore[misc]

    def _ended(self, task: "asyncio.Task[None]", pace: Pace) -> None:
        self._sending.discard(task)
        pace.running -= 1
        if pace.running <= AT_ONCE // 2:  # not at each single end: what is free is filled by several at once
            self._bell.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            detail = fault.message if isinstance(fault, GatewayError) else str(fault)
            log.error("event_not_settled", detail=detail, exc_info=None if isinstance(fault, GatewayError) else fault)

    async def _deliver(self, delivery: Delivery, pace: Pace) -> None:
        url = self._address(delivery)
        if url is None:
            why = f"environment '{delivery.environment}' has no {delivery.target} webhook_url any more"
            await self._settle(delivery, Outcome(DeliveryState.DEAD, None, why))
            return
        try:
            body, fields = await self._message(delivery)
        except VaultError as fault:  # another attempt may find the key, but not soon
            await self._judge(delivery, Answer(None, f"what is stored cannot be opened: {fault}"), Pace())
            return
        answer = await send(self._egress, url, body, fields, clock.now())
        await self._judge(delivery, answer, pace)

    async def _message(self, delivery: Delivery) -> tuple[bytes, dict[str, str]]:
        """Body and header fields as they are sent now. Raises VaultError."""
        content = await self._store.deliveries.content(delivery)
        entry = self._catalog.get(content.provider)
        told = delivery, content, entry.auth_mode if entry is not None else None
        body, fields = message(*told) if size_of(content) <= INLINE_BYTES else await off_loop(message, *told)
        keys = await self._keys.of(delivery.environment)
        return body, fields | signed(body, delivery.message_id, int(clock.now().timestamp()), keys)

    async def _judge(self, delivery: Delivery, answer: Answer, pace: Pace) -> None:
        if pace.note(answer, clock.monotonic()):
            log.info("webhook_target_back", environment=delivery.environment, target=_kind(delivery.target))
            await self._store.deliveries.hurry((delivery.environment, delivery.target), clock.now())
        await self._settle(delivery, outcome(delivery, answer, clock.now()))

    async def _settle(self, delivery: Delivery, came: Outcome) -> None:
        if not await self._store.deliveries.settle(delivery, came, owner=self._owner, now=clock.now()):
            return
        word = "failed" if came.state is DeliveryState.PENDING else came.state.value
        self._metrics.add(DELIVERIES, delivery.environment, word)
        if came.state is DeliveryState.DELIVERED:
            return
        log.warning(
            "event_not_delivered",
            environment=delivery.environment,
            message=delivery.message_id,
            told=delivery.event,
            target=_kind(delivery.target),
            attempts=delivery.attempts + 1,
            detail=came.detail,
            dead=came.state is DeliveryState.DEAD,
        )

    def _targets_of(self, environment: str) -> tuple[str, ...]:
        return tuple(name for name, url in self._urls(environment) if url)

    def _address(self, delivery: Delivery) -> str | None:
        named = dict(self._urls(delivery.environment))
        return named.get(delivery.target) if delivery.target in {PRIMARY, SECONDARY} else delivery.target

    def _urls(self, environment: str) -> Iterator[tuple[str, str | None]]:
        declared = self._config.environments.get(environment)
        if declared is not None:
            yield PRIMARY, declared.webhook_url
            yield SECONDARY, declared.webhook_url_secondary


def _kind(target: str) -> str:
    """For the log: an address may hold what is nobody's business."""
    return target if target in {PRIMARY, SECONDARY} else "override"
