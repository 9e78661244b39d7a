"""Queues the records of calls, so that a request never waits until its own record is written.

Every request becomes a line on stderr. A proxied call also becomes a row in the store's call log. Lines and rows are
written in batches, because single writes would cost a busy gateway more CPU than the rest of the logging.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, Final, Protocol

import structlog

from gateway import clock
from gateway.errors import GatewayError
from gateway.observe import logs
from gateway.observe.tracing import Tracing
from gateway.records.audit import CredentialUseCount, CredentialUseRef
from gateway.records.operation import Operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.trace import trace_id_in

MAX_QUEUED: Final = 30_000  # maximum number of queued lines, and of queued rows
# A full queue of rows still accepts this many further rows that are not successful calls.
MAX_EXTRA_FAILURES: Final = 10_000
BATCH_RECORDS: Final = 2000
# Rows are stored in multiples of this number, because a small batch costs as much as a full batch. The other rows wait.
BATCH_MULTIPLE: Final = 100
LINES_PER_TURN: Final = 100  # after this many lines, the event loop runs other tasks
WRITE_EVERY_S: Final = 0.5
REFUSED_EVERY_S: Final = 1.0

log = structlog.get_logger(__name__)


USES_EVERY_S: Final = 10.0
USES_PER_BATCH: Final = 200
MAX_USES: Final = 500_000  # maximum number of pairs of a connection and a key with counts that wait to be stored
HOUR_S: Final = 3600


class UseSink(Protocol):
    async def add_many(self, counts: Sequence[CredentialUseCount]) -> None: ...


class RecordSink(Protocol):
    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None: ...


class CallQueue:
    """Queues of records that wait to be written.

    - `observe`: called with every record, even if the record is dropped
    - `dropped`: the number of records that a full queue refused
    - `stores_calls`: whether proxied calls become rows of the call log (`call_log.enabled`); lines are always written
    - `sample`: the share of successful calls that become rows, from 0 to 1; failed calls always become rows
    - `tracing`: makes spans of sampled calls, whether the calls are stored or not
    - `unwritable`: why the last write to the call log failed; None: it succeeded
    """

    def __init__(
        self,
        max_queued: int = MAX_QUEUED,
        *,
        observe: Callable[[ExchangeRecord], None] = lambda _: None,
        stores_calls: bool = True,
        tracing: Tracing | None = None,
    ) -> None:
        self._observe = observe
        self._tracing = tracing
        self._lines: deque[ExchangeRecord] = deque()
        self._rows: deque[ExchangeRecord | Operation] = deque()
        self._max_queued = max_queued
        self._sink: RecordSink | None = None
        # A batch stays queued until it is stored, so only one batch may be written at a time.
        self._write_lock = asyncio.Lock()
        self.dropped = 0
        self.stores_calls = stores_calls
        self.sample = 1.0
        self._refused_at: dict[tuple[str, str, str], float] = {}
        self.unwritable: str | None = None
        self._current_uses: dict[tuple[str, str, str, int], list[int]] = {}
        self._counted_hour = self._this_hour()
        # The counts of each hour. Counts of past hours stay here until they are stored.
        self._uses = {self._counted_hour: self._current_uses}
        self._use_sink: UseSink | None = None

    @property
    def waiting(self) -> int:
        """The number of records that are not stored yet."""
        return len(self._rows)

    def record(self, exchange: ExchangeRecord) -> None:
        """Queue a record, or drop it if the queue is full. Metrics count the request in both cases."""
        self._observe(exchange)
        if exchange.attempts and exchange.gateway_ms is not None and exchange.connection_id:
            self._count_use(exchange)
        if exchange.trace is not None and self._tracing is not None:
            self._tracing.record_call(exchange)
        if len(self._lines) < self._max_queued:
            self._lines.append(exchange)
        else:
            self.dropped += 1
        if (
            self.stores_calls
            and (exchange.connection_id or exchange.gateway_ms is not None)
            and self._is_sampled(exchange)
        ):
            self._queue_row(exchange)

    def _count_use(self, exchange: ExchangeRecord) -> None:
        """Count that a credential was sent to its provider.

        The count does not depend on the queue, because a full queue drops records.
        """
        key = (exchange.environment, exchange.integration_id, exchange.connection_id, exchange.key_id or 0)
        counts = self._current_uses.get(key)
        if counts is None:
            if len(self._current_uses) >= MAX_USES:
                self.dropped += 1
                return
            counts = self._current_uses[key] = [0, 0]
        counts[0] += 1
        if exchange.status >= 400 or exchange.error_code is not None:
            counts[1] += 1

    def record_operation(self, operation: Operation) -> None:
        """Queue the record of an operation that is not a call: a refresh, authorization, delivery or webhook."""
        if self._tracing is not None:
            self._tracing.record_operation(operation)
        if self.stores_calls:
            self._queue_row(operation)

    def record_refused(self, operation: Operation) -> None:
        """Queue the record of a refused operation, at most one per second and integration.

        The rate is limited because anybody can cause such an operation without a key.
        """
        key, now = (operation.kind, operation.environment, operation.integration_id), clock.monotonic()
        if now - self._refused_at.get(key, -REFUSED_EVERY_S) >= REFUSED_EVERY_S:
            self._refused_at[key] = now
            self.record_operation(operation)

    def _is_sampled(self, exchange: ExchangeRecord) -> bool:
        return not _is_success(exchange) or self.sample >= 1 or random.random() < self.sample  # noqa: S311

    def _queue_row(self, record: ExchangeRecord | Operation) -> None:
        """Queue the record as a row, or drop it if the queue is full.

        Successful calls are dropped first: up to `MAX_EXTRA_FAILURES` other records are accepted above this limit.
        """
        waiting = self.waiting
        if waiting < self._max_queued or (waiting < self._max_queued + MAX_EXTRA_FAILURES and not _is_success(record)):
            self._rows.append(record)
        else:
            self.dropped += 1

    async def write_to(self, sink: RecordSink, every_s: float = WRITE_EVERY_S, *, uses: UseSink | None = None) -> None:
        """Write batches until cancelled.

        `sink`: stores the records.
        `every_s`: seconds between two batches.
        `uses`: stores the counts of credential uses; None: the counts are not stored.
        """
        self._sink, self._use_sink = sink, uses
        next_uses_at = clock.monotonic() + USES_EVERY_S
        while True:
            await asyncio.sleep(every_s)
            await self._write_lines()
            self._start_new_hour()
            if clock.monotonic() >= next_uses_at:
                await self._write_uses_or_log()
                next_uses_at = clock.monotonic() + USES_EVERY_S
            try:
                await self._write_rows()
                self.unwritable = None
            except GatewayError as fault:
                self._log_unwritable(fault.message, None)
            except Exception as fault:  # noqa: BLE001 (the next attempt may succeed)
                self._log_unwritable(str(fault), fault)

    def _start_new_hour(self) -> None:
        hour = self._this_hour()
        if hour != self._counted_hour:
            self._counted_hour = hour
            self._current_uses = self._uses.setdefault(hour, {})

    @staticmethod
    def _this_hour() -> int:
        return int(clock.now().timestamp()) // HOUR_S

    async def _write_uses_or_log(self) -> None:
        """Store the counts of credential uses. If the store fails, keep the counts for the next attempt."""
        try:
            await self._write_uses()
        except GatewayError as fault:
            log.warning("credential_uses_not_written", detail=fault.message)
        except Exception as fault:
            log.warning("credential_uses_not_written", detail=str(fault), exc_info=fault)

    async def _write_uses(self) -> None:
        if self._use_sink is None:
            return
        for hour in sorted(self._uses):
            counts_by_key, self._uses[hour] = self._uses[hour], {}
            if hour == self._counted_hour:
                self._current_uses = self._uses[hour]
            else:
                del self._uses[hour]
            unstored_counts = list(counts_by_key.items())
            hour_start = datetime.fromtimestamp(hour * HOUR_S, UTC)
            while unstored_counts:
                batch, unstored_counts = unstored_counts[:USES_PER_BATCH], unstored_counts[USES_PER_BATCH:]
                try:
                    await self._use_sink.add_many(
                        [
                            CredentialUseCount(hour_start, CredentialUseRef(*key), calls, failed)
                            for key, (calls, failed) in batch
                        ]
                    )
                except BaseException:
                    self._restore_uses(hour, [*batch, *unstored_counts])
                    raise

    def _restore_uses(self, hour: int, counts_by_key: Sequence[tuple[tuple[str, str, str, int], list[int]]]) -> None:
        uses = self._uses.setdefault(hour, {})
        for key, (calls, failed) in counts_by_key:
            counts = uses.setdefault(key, [0, 0])
            counts[0] += calls
            counts[1] += failed

    async def flush(self) -> None:
        """Store the waiting counts and records. Raises the store's errors for records, not for counts."""
        self._start_new_hour()
        await self._write_uses_or_log()
        while self._rows and self._sink is not None:
            await self._write_rows(multiple=1)

    async def close(self) -> None:
        """Write the remaining records. If the store fails, the records are lost."""
        try:
            await self.flush()
        except GatewayError as fault:
            log.warning("call_log_lost", records=self.waiting, detail=fault.message)
        except Exception as fault:
            log.warning("call_log_lost", records=self.waiting, detail=str(fault), exc_info=fault)
        while self._lines:
            await self._write_lines()
        if self.dropped:
            log.warning("call_log_dropped", records=self.dropped)

    def _log_unwritable(self, reason: str, fault: Exception | None) -> None:
        """Log that the call log cannot be written. The records stay queued.

        It is logged once, and again only after a successful write.
        """
        if self.unwritable is None:
            log.warning(
                "call_log_unwritable", detail=reason, effect="calls continue and are not logged", exc_info=fault
            )
        self.unwritable = reason

    async def _write_lines(self) -> None:
        lines_left = len(self._lines)
        while lines_left > 0:
            batch = [self._lines.popleft() for _ in range(min(lines_left, LINES_PER_TURN))]
            lines_left -= len(batch)
            if logs.writes_json():
                logs.write_lines([as_line(exchange) for exchange in batch])
            else:
                logs.write_events([as_event(exchange) for exchange in batch])
            if lines_left:
                await asyncio.sleep(0)

    async def _write_rows(self, multiple: int = BATCH_MULTIPLE) -> None:
        """Store the queued records. If there are more than `multiple`, store only a multiple of this number.

        The rest, and records that arrive during the write, wait for the next call. Without this rule, a busy gateway
        would write small batches without a pause, and each batch costs a commit.
        """
        async with self._write_lock:
            rows_left = self.waiting
            if rows_left > multiple:
                rows_left -= rows_left % multiple
            while rows_left > 0 and self._sink is not None:
                batch = list(islice(self._rows, min(rows_left, BATCH_RECORDS)))
                await self._sink.add_many(batch)
                for _ in batch:
                    self._rows.popleft()
                rows_left -= len(batch)


def _is_success(record: ExchangeRecord | Operation) -> bool:
    """Return whether the record is a call with a status below 400 and without an error code."""
    return isinstance(record, ExchangeRecord) and record.status < 400 and record.error_code is None


def as_line(exchange: ExchangeRecord) -> str:
    """Return the call as a line of JSON. docs/operations.md lists the members.

    Members without a value are left out, for example the connection of a request to the gateway's own API. The line is
    formatted by hand, because `json.dumps` would take a twentieth of the CPU time of the whole call.
    """
    token_ms, upstream_ms = exchange.token_ms, exchange.upstream_ms
    return (
        f'{{"event": "exchange", "level": "info", "timestamp": "{_timestamp(exchange.at)}"'
        f', "request_id": {_text(exchange.request_id)}{_connection_members(*exchange[2:7])}'
        + (f', "path": {_text(exchange.path)}' if exchange.path else "")
        + f', "status": {exchange.status}, "duration_ms": {exchange.duration_ms:.3f}'
        + (f', "token_ms": {token_ms:.2f}' if token_ms else "")
        + (f', "upstream_ms": {upstream_ms:.2f}' if upstream_ms is not None else "")
        + f', "bytes_in": {exchange.bytes_in}, "bytes_out": {exchange.bytes_out}'
        + (f', "key_id": {exchange.key_id}' if exchange.key_id is not None else "")
        + (f', "trace_id": "{trace_id}"' if (trace_id := trace_id_in(exchange.traceparent)) is not None else "")
        + (f', "tool": {_text(exchange.tool)}' if exchange.tool is not None else "")
        + (', "dry_run": true' if exchange.dry_run else "")
        + (f', "error": {_text(exchange.error_code)}}}' if exchange.error_code else "}")
    )


def as_event(exchange: ExchangeRecord) -> dict[str, Any]:
    """Return the members of `as_line` as a dictionary, for readable lines on a terminal."""
    event: dict[str, Any] = json.loads(as_line(exchange))
    return event


_text: Final[Callable[[str], str]] = encode_basestring


def _timestamp(moment: datetime) -> str:
    """Return the same text as `datetime.isoformat` for a time in UTC, in a third of the time."""
    since_epoch = moment - clock.EPOCH
    return f"{_second_text(since_epoch.days, since_epoch.seconds)}.{since_epoch.microseconds // 1000:03d}+00:00"


@lru_cache(maxsize=16)
def _second_text(days: int, seconds: int) -> str:
    """Return the date and the time of day of a second since 1970. Consecutive lines usually have the same second."""
    return (clock.EPOCH + timedelta(days, seconds)).replace(tzinfo=None).isoformat()


@lru_cache(maxsize=512)
def _connection_members(environment: str, integration_id: str, connection_id: str, method: str, host: str) -> str:
    """Return the JSON members that are equal in most lines of a connection. The results are cached."""
    members = {
        "environment": environment,
        "integration": integration_id,
        "connection_id": connection_id,
        "method": method,
        "host": host,
    }
    return "".join(f', "{name}": {_text(value)}' for name, value in members.items() if value)
