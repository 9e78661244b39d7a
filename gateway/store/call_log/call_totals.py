"""Sums over the call log, updated with each batch of rows.

With the sums, a page about one day reads some hundred rows instead of millions. The table is the same in both
databases. One kind of row has an environment's calls in a quarter of an hour. The other kind has an hour's operations
by kind, integration and result. Calls that `call_log.sample` omits are not counted.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gateway.records.operation import KINDS, Operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.traffic import SLOT_S, TIMES_MS, PlaceTotal, SlotTotal, Traffic

TABLE: Final = "call_totals"
KEY: Final = ("environment", "slot", "kind", "integration_id", "reason")
SUMS: Final = ("calls", "failed", "timed", "gateway_ms", "token_ms", "upstream_ms")
CLASSES: Final = tuple(f"t{n}" for n in range(len(TIMES_MS) + 1))
COLUMNS: Final = (*KEY, *SUMS, "last_at", *CLASSES)
_LAST_AT: Final = len(SUMS)
_FIRST_CLASS: Final = _LAST_AT + 1
SLOTS_AN_HOUR: Final = 3600 // SLOT_S
ALL_CALLS: Final = -1
"""The value of `kind` in the rows with an environment's calls in a quarter of an hour."""


def schema(*, suffix: str = "") -> str:
    """Return the statement that creates the table. `suffix`: text to add at the end of the statement."""
    text_type, integer, float_type = ("text NOT NULL", "bigint NOT NULL", "double precision NOT NULL")
    kinds = {"environment": text_type, "integration_id": text_type, "reason": text_type}
    kinds |= dict.fromkeys(("gateway_ms", "token_ms", "upstream_ms", "last_at"), float_type)
    columns = ", ".join(f"{name} {kinds.get(name, integer)}" for name in COLUMNS)
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}, PRIMARY KEY ({', '.join(KEY)})){suffix}"


def upsert(placeholder: Callable[[int], str], max_function: str) -> str:
    """Return the statement that adds one row to the sums.

    `placeholder`: returns the placeholder of a parameter, given the parameter's number (from 1). `max_function`: the SQL
    function that returns the largest of several values.
    """
    sum_updates = [f"{name} = {TABLE}.{name} + excluded.{name}" for name in (*SUMS, *CLASSES)]
    last_update = f"last_at = {max_function}({TABLE}.last_at, excluded.last_at)"
    values = ", ".join(placeholder(n) for n in range(1, len(COLUMNS) + 1))
    return (
        f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({values})"
        f" ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {', '.join([*sum_updates, last_update])}"
    )


def totals_of(records: Iterable[ExchangeRecord | Operation]) -> list[tuple[Any, ...]]:
    """Return the rows to add, with the columns of `COLUMNS`.

    The rows are sorted, so that two writers cannot deadlock.
    """
    totals: dict[tuple[Any, ...], list[Any]] = {}
    empty = [0, 0, 0, 0.0, 0.0, 0.0, 0.0, *[0] * len(CLASSES)]
    for record in records:
        kind = KINDS.index(record.kind) if isinstance(record, Operation) else 0
        status, recorded_at = record.status, record.at.timestamp()
        reason = record.error_code[:64] if record.error_code else str(status) if status >= 400 else ""
        key = (record.environment, int(recorded_at) // SLOT_S, kind, record.integration_id, reason)
        sums = totals.get(key)
        if sums is None:
            sums = totals[key] = empty.copy()
        sums[0] += 1
        if recorded_at > sums[_LAST_AT]:
            sums[_LAST_AT] = recorded_at
        upstream_ms = record.upstream_ms
        if upstream_ms is not None:
            sums[2] += 1
            sums[3] += record.gateway_ms or 0.0
            sums[4] += record.token_ms or 0.0
            sums[5] += upstream_ms
            if upstream_ms > 0:
                sums[_FIRST_CLASS + bisect_left(TIMES_MS, upstream_ms)] += 1
    rows: dict[tuple[Any, ...], list[Any]] = {}
    for (environment, slot, kind, integration_id, reason), sums in totals.items():
        sums[1] = sums[0] if reason else 0
        _add(rows, (environment, slot - slot % SLOTS_AN_HOUR, kind, integration_id, reason), sums)
        if kind == 0:
            _add(rows, (environment, slot, ALL_CALLS, "", ""), sums)
    return sorted((*key, *sums) for key, sums in rows.items())


def _add(rows: dict[tuple[Any, ...], list[Any]], key: tuple[Any, ...], sums: list[Any]) -> None:
    existing_sums = rows.get(key)
    if existing_sums is None:
        rows[key] = sums.copy()
        return
    last_at = max(existing_sums[_LAST_AT], sums[_LAST_AT])
    rows[key] = [existing + new_sum for existing, new_sum in zip(existing_sums, sums, strict=True)]
    rows[key][_LAST_AT] = last_at


def query_by_slot(placeholder: Callable[[int], str]) -> str:
    """Return the query for the totals of an environment's calls. The totals begin at a slot (a quarter of an hour)."""
    return (
        f"SELECT slot, {', '.join(SUMS)} FROM {TABLE}"
        f" WHERE environment = {placeholder(1)} AND slot >= {placeholder(2)} AND kind = {ALL_CALLS} ORDER BY slot"
    )


def query_by_result(placeholder: Callable[[int], str]) -> str:
    """Return the query for the totals by kind, integration and result. The totals begin with the hour of a slot."""
    classes = ", ".join(f"sum({name})" for name in CLASSES)
    return (
        f"SELECT kind, integration_id, reason, sum(calls), max(last_at), {classes} FROM {TABLE}"
        f" WHERE environment = {placeholder(1)} AND slot >= {placeholder(2)} - {SLOTS_AN_HOUR - 1} AND kind <> {ALL_CALLS}"
        " GROUP BY kind, integration_id, reason"
    )


def time_slot(moment: datetime) -> int:
    """Return the number of the time slot with `moment`: slots have `SLOT_S` seconds and are counted from 1970."""
    return int(moment.timestamp()) // SLOT_S


def traffic(slots: Iterable[Sequence[Any]], places: Iterable[Sequence[Any]]) -> Traffic:
    """Return the traffic, from the rows of `query_by_slot` and `query_by_result`."""
    return Traffic(
        [
            SlotTotal(
                _time(slot * SLOT_S),
                int(calls),
                int(failed),
                int(timed),
                float(gateway_ms),
                float(token_ms),
                float(upstream_ms),
            )
            for slot, calls, failed, timed, gateway_ms, token_ms, upstream_ms in slots
        ],
        [
            PlaceTotal(KINDS[kind], integration, reason, int(calls), _time(last_at), tuple(map(int, classes)))
            for kind, integration, reason, calls, last_at, *classes in places
        ],
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
