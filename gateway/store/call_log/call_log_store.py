"""The interface of the call log in both databases: add, find, prune, within bounds of age and size."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from gateway.records.operation import Operation, OperationFilter, OperationPage, call_operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.traffic import Traffic

SEARCH_S: Final = 2.0  # after which a search stops and reports how far it searched
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class CallLogBounds:
    """How much of the call log is kept: rows older than `keep_days` are removed, and the oldest rows while the log
    exceeds `max_bytes` or `max_rows` (None: no limit on rows)."""

    keep_days: float = 7.0
    max_bytes: int = 1 << 30
    max_rows: int | None = None

    def oldest(self, now: datetime) -> datetime:
        """Return the time before which no record is kept."""
        return now - timedelta(days=self.keep_days)


class CallLogStore(Protocol):
    bounds: CallLogBounds

    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None:
        """Store all records or none. Raises Unavailable."""

    async def find(self, wanted: OperationFilter) -> OperationPage:
        """Return the newest operations that match. Raises Unavailable."""

    async def totals(self, environment: str, since: datetime) -> Traffic:
        """Return sums from the quarter of an hour that contains `since` until now. Raises Unavailable."""

    async def prune(self, now: datetime) -> int:
        """Remove rows until the bounds are kept. Returns how many rows were removed. Raises Unavailable."""

    async def close(self) -> None: ...


def operations(records: Sequence[ExchangeRecord | Operation]) -> list[Operation]:
    """Return exchange records converted to operations; operations unchanged."""
    return [one if isinstance(one, Operation) else call_operation(one) for one in records]
