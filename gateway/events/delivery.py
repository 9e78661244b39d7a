"""Delivers the events in the outbox: attempts, retries, and the number of parallel requests per target.

Every process of every node sends the events that it can claim, so no process waits for another.

The loop sleeps until the store changes, the next attempt is due, or `POLL_S` seconds have passed. A process can die
after a receiver's 200 and before it stores the result. Then the lease of the process expires, and the event is sent
again with the same ``webhook-id``. So each event is delivered at least once (Standard Webhooks).
"""

import asyncio
import math
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from aiohttp import hdrs
from multidict import CIMultiDict

from gateway import clock
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.egress.provider_exchange import Body, ProviderExchange
from gateway.errors import GatewayError, exc_info_of
from gateway.events.event_body import build_message, webhook_size
from gateway.events.signatures import SigningKeyCache, signature_fields
from gateway.generation import CurrentGeneration
from gateway.http.retry import seconds_until
from gateway.observe.metrics import DELIVERIES, Metrics
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.origin import parse_url
from gateway.records.event import PRIMARY, SECONDARY, Delivery, DeliveryOutcome, DeliveryState
from gateway.records.operation import Operation, RecordOperation
from gateway.records.proxied_call import UpstreamRequest
from gateway.records.trace import CAUSE, trace_id_in
from gateway.store import Store
from gateway.vault import VaultError

# ── When an event is sent again, and when it is given up. These functions are pure.

FIRST_DELAY_S: Final = 2.0
BACKOFF_FACTOR: Final = 2.0
MAX_DELAY_S: Final = 900.0  # 2 s, 4 s, 8 s … 8 min, then every 15 min
JITTER: Final = 0.2

GONE: Final = 410


@dataclass(frozen=True, slots=True)
class ReceiverResponse:
    """The response of a receiver. `status`: None without a response. `fault`: why no response could be read.
    `wait_s`: the header Retry-After in seconds; None without this header."""

    status: int | None
    fault: str | None = None
    wait_s: float | None = None

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def outcome(
    delivery: Delivery, response: ReceiverResponse, now: datetime, random_part: Callable[[], float] = random.random
) -> DeliveryOutcome:
    """Decide the state of a delivery after its latest attempt. `response`: the response to this attempt.
    `delivery.attempts`: the number of earlier attempts.

    410 means that the receiver wants no more events (Standard Webhooks). After any other response except 2xx, the event
    is sent again until `give_up_at`. This includes redirects, which are not followed, because a signed body is sent
    only to configured URLs.
    """
    if response.is_success:
        return DeliveryOutcome(DeliveryState.DELIVERED, response.status)
    reason = response.fault or f"the receiver responded with {response.status}"
    if response.status == GONE:
        return DeliveryOutcome(
            DeliveryState.DEAD, response.status, "the receiver responded with 410: it wants no more events"
        )
    wait_s = max(delay_s(delivery.attempts, random_part), response.wait_s or 0.0)
    left_s = (delivery.give_up_at - now).total_seconds()
    if left_s <= 0:
        return DeliveryOutcome(DeliveryState.DEAD, response.status, f"given up after a day: {reason}")
    return DeliveryOutcome(DeliveryState.PENDING, response.status, reason, now + timedelta(seconds=min(wait_s, left_s)))


def outcome_without_url(delivery: Delivery, now: datetime) -> DeliveryOutcome:
    """Decide the state of a delivery if gateway.yaml of this node has no URL for its target.

    For `NO_URL_FOR`, another node can send the event: its gateway.yaml may be newer.
    """
    reason = f"environment '{delivery.environment}' has no {delivery.target} webhook_url"
    if now - delivery.at >= NO_URL_FOR:
        return DeliveryOutcome(DeliveryState.DEAD, None, f"{reason} any more")
    return DeliveryOutcome(DeliveryState.PENDING, None, reason, now + timedelta(seconds=NO_URL_PAUSE_S))


def delay_s(attempts: int, random_part: Callable[[], float] = random.random) -> float:
    """Return the seconds from a failed attempt to the next attempt. `attempts`: the number of attempts before the
    failed attempt."""
    base_delay = min(FIRST_DELAY_S * BACKOFF_FACTOR ** min(attempts, 20), MAX_DELAY_S)
    return base_delay * (1 + JITTER * (2 * random_part() - 1))


# ── The number of parallel requests per target: fewer for a failing target, so that other targets are not affected.

MAX_PER_TARGET: Final = 8  # maximum parallel requests of this process to one target
PROVEN_S: Final = 600.0  # a target whose latest request succeeded within this time is proven to respond
FAILURES_UNTIL_DOWN: Final = 3  # a target is down after this number of failures in a row
PROBE_S: Final = 2.0
MAX_PROBE_S: Final = 60.0


@dataclass(slots=True)
class TargetPace:
    """The pace of this process for one queue, which is one target of an environment. `running`: requests in progress.
    `failures`: failures in a row. `resting_until`: monotonic seconds before which no request starts. `succeeded_at`:
    when the latest request succeeded, in monotonic seconds."""

    running: int = 0
    failures: int = 0
    resting_until: float = 0.0
    succeeded_at: float = -math.inf

    def free_slots(self, now: float) -> int:
        """Return how many more requests may start now."""
        if now < self.resting_until:
            return 0
        return (1 if self.is_down else MAX_PER_TARGET) - self.running

    @property
    def is_down(self) -> bool:
        return self.failures >= FAILURES_UNTIL_DOWN

    def is_proven(self, now: float) -> bool:
        """Return whether the target responds. Other targets can hang, so they get only a part of all requests."""
        return not self.failures and now - self.succeeded_at < PROVEN_S

    def record(self, response: ReceiverResponse, now: float) -> bool:
        """Count the result of one delivery. Return True if the target was down and has recovered."""
        was_down = self.is_down
        if response.is_success:
            self.failures, self.resting_until, self.succeeded_at = 0, 0.0, now
            return was_down
        self.failures += 1
        if response.wait_s:  # a wait of 0 s, for example for a date in the past, does not replace the pause
            self.resting_until = max(self.resting_until, now + min(response.wait_s, 3600.0))
        elif self.is_down:
            self.resting_until = now + min(PROBE_S * 2.0 ** min(self.failures - FAILURES_UNTIL_DOWN, 10), MAX_PROBE_S)
        return False

    def can_be_dropped(self, now: float) -> bool:
        """Return whether this object can be dropped: no request is running, and no result is recent."""
        is_recent = now <= self.resting_until + MAX_PROBE_S if self.failures else self.is_proven(now)
        return not self.running and not is_recent


# ── One attempt: a signed POST through the egress guard; redirects are not followed.

TIMEOUT_S: Final = 20.0  # until the head of the response, connecting included
READ_BYTES: Final = 1 << 16  # maximum part of a response's body that is read to keep the connection reusable
READ_S: Final = 1.0
USER_AGENT: Final = "integration-gateway"


async def send(egress: Egress, url: str, body: bytes, fields: Mapping[str, str], now: datetime) -> ReceiverResponse:
    """Send an event; return the receiver's response. Errors are returned in `fault`, not raised. `now`: the current
    time, to convert a Retry-After that is a date."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            exchange = await _post(egress, url, body, fields)
    except TimeoutError:
        return ReceiverResponse(None, f"no response within {TIMEOUT_S:g} s")
    except EgressError as fault:
        # With a 2xx status, the receiver has the event, even if the rest of the response's head is too large.
        return ReceiverResponse(fault.status, fault.message)
    except ValueError as fault:
        return ReceiverResponse(None, f"the URL cannot be called: {fault}")
    await _drain(exchange)
    retry_after = next((value for name, value in exchange.headers if name.lower() == "retry-after"), None)
    return ReceiverResponse(exchange.status, wait_s=None if retry_after is None else seconds_until(retry_after, now))


async def _post(egress: Egress, url: str, body: bytes, fields: Mapping[str, str]) -> ProviderExchange:
    url_parts = parse_url(url)
    path = url[url.index("//") + 2 :].partition("?")[0].partition("/")
    target = (path[1] + path[2] or "/") + url_parts.query
    headers = CIMultiDict({hdrs.USER_AGENT: USER_AGENT, **fields})
    request = UpstreamRequest("POST", url_parts.scheme, url_parts.host, url_parts.port, target, headers)
    try:
        return await egress.send(request, Body(_single_piece(body), len(body), whole=body))
    except EgressError as fault:
        if fault.kind != "unreachable" or not fault.sent:
            raise
        # Perhaps the receiver closed the idle connection. Sending twice is safe, because the message keeps its id.
        return await egress.send(request, Body(_single_piece(body), len(body), whole=body), on_new_connection=True)


async def _single_piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _drain(exchange: ProviderExchange) -> None:
    """Read the beginning of the body and ignore errors: only the status matters."""
    read_bytes = 0
    try:
        with suppress(EgressError, TimeoutError):
            async with asyncio.timeout(READ_S):
                while read_bytes < READ_BYTES and (piece := await exchange.read()):
                    read_bytes += len(piece)
    finally:
        exchange.close()


LEASE: Final = timedelta(seconds=60)  # much longer than an attempt can take
MAX_PARALLEL: Final = 64  # maximum parallel requests of a process, to all targets together
MAX_UNPROVEN: Final = 32  # maximum parallel requests of a process to all targets that are not proven to respond
MAX_WORK_S: Final = 0.05  # after a longer search for due events, the next search waits `WORK_PAUSE` times as long
WORK_PAUSE: Final = 3
POLL_S: Final = 30.0
MIN_PAUSE_S: Final = 0.05
ERROR_PAUSE_S: Final = 5.0  # pause after an error of the store
# During the roll-out of a new gateway.yaml, another node can have the URL that this node lacks.
NO_URL_PAUSE_S: Final = 60.0
NO_URL_FOR: Final = timedelta(hours=1)

log = structlog.get_logger(__name__)


class Deliverer:
    """Sends the events that are due; each process has one deliverer.

    Call `wake` after each write of an event; repeated calls are harmless. `record` is called with the result of each
    attempt, for the call log and traces.
    """

    def __init__(
        self, store: Store, current: CurrentGeneration, metrics: Metrics, record: RecordOperation = lambda _: None
    ) -> None:
        self._store = store
        self._record = record
        self._current = current
        self._metrics = metrics
        self._keys = SigningKeyCache(store, current)
        store.outbox.targets_of = self._targets_of
        self._owner = uuid.uuid4().hex
        self._wake_event = asyncio.Event()
        self._paces: dict[tuple[str, str], TargetPace] = {}
        self._claiming: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._searched_s = 0.0  # how long the latest search for due events took
        self._closed = False

    def key_changed(self) -> None:
        """Use the new signing key from now on."""
        self._keys.forget()

    def wake(self) -> None:
        """Let the loop check now for events that are due."""
        self._wake_event.set()

    async def run(self) -> None:
        """Deliver events for as long as the gateway runs."""
        while True:
            try:
                pause_s = await self.run_once()
            except Exception as fault:
                pause_s = ERROR_PAUSE_S
                log.warning("events_not_sent", detail=str(fault), again_in_s=pause_s, exc_info=exc_info_of(fault))
            if self._searched_s > MAX_WORK_S:  # a large backlog must not keep this process busy
                await clock.sleep(min(WORK_PAUSE * self._searched_s, ERROR_PAUSE_S))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake_event.wait()

    async def run_once(self) -> float:
        """Start all deliveries that are due and within the limits. Return the seconds until the next check."""
        self._wake_event.clear()
        began_at = clock.monotonic()
        work = await self._store.deliveries.find_due(clock.now())
        monotonic_now = clock.monotonic()
        self._searched_s = monotonic_now - began_at
        soonest_s = POLL_S
        paces = [(queue, self._paces.setdefault(queue, TargetPace())) for queue in work.queues]
        unproven_count = sum(pace.running for pace in self._paces.values() if not pace.is_proven(monotonic_now))
        for queue, pace in sorted(paces, key=lambda item: item[1].failures):
            is_proven, running = pace.is_proven(monotonic_now), pace.running
            limit = min(pace.free_slots(monotonic_now), MAX_PARALLEL - len(self._sending))
            if not is_proven:
                limit = min(limit, MAX_UNPROVEN - unproven_count)
            if limit > 0 and not self._closed:
                claim_task = asyncio.create_task(self._claim_and_start(queue, pace, limit), name="claim_events")
                self._claiming.add(claim_task)
                claim_task.add_done_callback(self._claiming.discard)
                await asyncio.shield(claim_task)  # after a cancellation, the write continues; `close` waits for its end
                unproven_count += 0 if is_proven else max(0, pace.running - running)
            elif pace.resting_until > monotonic_now:
                soonest_s = min(soonest_s, pace.resting_until - monotonic_now)
        for queue in [queue for queue, pace in self._paces.items() if pace.can_be_dropped(monotonic_now)]:
            del self._paces[queue]
        if work.next_at is not None:
            soonest_s = min(soonest_s, (work.next_at - clock.now()).total_seconds())
        return max(soonest_s, MIN_PAUSE_S)

    async def wait_until_idle(self) -> None:
        """Wait until all started deliveries have ended."""
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def close(self, within_s: float = 3.0) -> None:
        """Wait up to `within_s` seconds for running deliveries, then cancel them and release their leases. Another
        process, or the next one on this node, delivers these events."""
        self._closed = True
        running = self._claiming | self._sending
        if running:
            await asyncio.wait(running, timeout=within_s)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            try:
                await self._store.deliveries.release(self._owner)
            except GatewayError as fault:
                log.warning("deliveries_not_released", detail=fault.message)

    async def _claim_and_start(self, queue: tuple[str, str], pace: TargetPace, limit: int) -> None:
        now = clock.now()
        claimed_deliveries = await self._store.deliveries.claim(
            queue, owner=self._owner, now=now, ttl=LEASE, limit=limit
        )
        if self._closed:  # `close` releases the claimed deliveries
            return
        for delivery in claimed_deliveries:
            pace.running += 1
            task = asyncio.create_task(self._deliver(delivery, pace), name="deliver_event")
            self._sending.add(task)
            task.add_done_callback(lambda done, pace=pace: self._on_delivery_done(done, pace))  # type: ignore[misc]

    def _on_delivery_done(self, task: "asyncio.Task[None]", pace: TargetPace) -> None:
        self._sending.discard(task)
        pace.running -= 1
        if pace.running <= MAX_PER_TARGET // 2:  # not after every delivery, so that one claim gets several events
            self._wake_event.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("event_not_settled", detail=str(fault), exc_info=exc_info_of(fault))

    async def _deliver(self, delivery: Delivery, pace: TargetPace) -> None:
        url = self._url(delivery)
        if url is None:
            await self._store_result(delivery, outcome_without_url(delivery, clock.now()))
            return
        try:
            body, fields, cause = await self._message(delivery)
        except Exception as fault:  # noqa: BLE001 (it is a failed attempt; the target's pace does not change)
            await self._record_response(delivery, ReceiverResponse(None, _build_fault(delivery, fault)), TargetPace())
            return
        began_at = clock.monotonic()
        try:
            response = await send(self._current.generation.egress, url, body, fields, clock.now())
        except Exception as fault:  # noqa: BLE001 (any failure to send is a failed attempt)
            response = ReceiverResponse(None, _send_fault(delivery, fault))
        await self._record_response(delivery, response, pace, (clock.monotonic() - began_at) * 1000, cause)

    async def _message(self, delivery: Delivery) -> tuple[bytes, dict[str, str], str | None]:
        """Return the body and the header fields of this attempt, and the ``traceparent`` of the event's cause. Raises
        VaultError, GatewayError."""
        content = await self._store.deliveries.content(delivery)
        entry = self._current.generation.catalog.get(content.provider)
        arguments = delivery, content, entry.auth_mode if entry is not None else None
        body, fields = (
            build_message(*arguments)
            if webhook_size(content) <= INLINE_BYTES
            else await off_loop(delivery.environment, build_message, *arguments)
        )
        keys = await self._keys.cached_keys(delivery.environment)
        signatures = signature_fields(body, delivery.message_id, int(clock.now().timestamp()), keys)
        return body, fields | signatures, content.facts.get(CAUSE)

    async def _record_response(
        self,
        delivery: Delivery,
        response: ReceiverResponse,
        pace: TargetPace,
        duration_ms: float = 0.0,
        cause: str | None = None,
    ) -> None:
        if pace.record(response, clock.monotonic()):
            log.info("webhook_target_recovered", environment=delivery.environment, target=_target_kind(delivery.target))
            await self._store.deliveries.make_due_now((delivery.environment, delivery.target), clock.now())
        await self._store_result(delivery, outcome(delivery, response, clock.now()), duration_ms, cause)

    async def _store_result(
        self, delivery: Delivery, result: DeliveryOutcome, duration_ms: float = 0.0, cause: str | None = None
    ) -> None:
        if not await self._store.deliveries.settle(delivery, result, owner=self._owner, now=clock.now()):
            return
        label = "failed" if result.state is DeliveryState.PENDING else result.state.value
        self._metrics.add(DELIVERIES, delivery.environment, label)
        self._record(
            Operation(
                "delivery",
                clock.now(),
                "",
                delivery.environment,
                delivery.integration_id,
                delivery.connection_id or "",
                status=result.status or 0,
                error_code=None if result.state is DeliveryState.DELIVERED else "event_not_delivered",
                duration_ms=duration_ms,
                attempts=delivery.attempts + 1,
                detail={
                    "what": delivery.event,
                    "webhook_id": delivery.message_id,
                    "target": _target_kind(delivery.target),
                    "state": result.state.value,
                    "message": result.detail,
                },
                trace_id=trace_id_in(cause),
                cause=cause,
            )
        )
        if result.state is DeliveryState.DELIVERED:
            return
        log.warning(
            "event_not_delivered",
            environment=delivery.environment,
            message=delivery.message_id,
            event_type=delivery.event,
            target=_target_kind(delivery.target),
            attempts=delivery.attempts + 1,
            detail=result.detail,
            dead=result.state is DeliveryState.DEAD,
        )

    def _targets_of(self, environment: str) -> tuple[str, ...]:
        return tuple(name for name, url in self._urls(environment) if url)

    def _url(self, delivery: Delivery) -> str | None:
        urls = dict(self._urls(delivery.environment))
        return urls.get(delivery.target) if delivery.target in {PRIMARY, SECONDARY} else delivery.target

    def _urls(self, environment: str) -> Iterator[tuple[str, str | None]]:
        environment_config = self._current.generation.config.environments.get(environment)
        if environment_config is not None:
            yield PRIMARY, environment_config.webhook_url
            yield SECONDARY, environment_config.webhook_url_secondary


def _build_fault(delivery: Delivery, fault: Exception) -> str:
    """Return why the message could not be built. Unexpected faults are logged."""
    if isinstance(fault, VaultError):  # the encryption key may be available again for a later attempt
        return f"the stored event cannot be decrypted: {fault}"
    if isinstance(fault, GatewayError):
        return f"the message could not be built: {fault.message}"
    _log_unexpected("event_not_built", delivery, fault)
    return f"the message could not be built: {type(fault).__name__}; see event_not_built in the log"


def _send_fault(delivery: Delivery, fault: Exception) -> str:
    """Return why the message could not be sent, and log the fault. Every fault here is unexpected, because `send`
    returns the expected faults."""
    _log_unexpected("event_not_sent", delivery, fault)
    return f"the message could not be sent: {type(fault).__name__}; see event_not_sent in the log"


def _log_unexpected(event: str, delivery: Delivery, fault: Exception) -> None:
    log.error(
        event,
        environment=delivery.environment,
        message=delivery.message_id,
        event_type=delivery.event,
        exc_info=fault,
    )


def _target_kind(target: str) -> str:
    """Return the target for the log: ``primary``, ``secondary``, or ``override`` in place of a URL, because a URL may
    be confidential."""
    return target if target in {PRIMARY, SECONDARY} else "override"
