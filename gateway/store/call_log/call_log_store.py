"""The interface of the call log in both databases: add, find and prune rows, within limits of age and size."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from gateway.records.operation import Operation, OperationFilter, OperationPage, call_operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.traffic import Traffic

SEARCH_S: Final = 2.0  # after this time, a search stops and reports how far it has searched
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class CallLogBounds:
    """How much of the call log is kept.

    `keep_days`: older rows are removed. `max_bytes`, `max_rows`: the limits of the log's size; the oldest rows are
    removed first. `max_rows` None: no limit on rows.
    """

    keep_days: float = 7.0
    max_bytes: int = 1 << 30
    max_rows: int | None = None

    def oldest(self, now: datetime) -> datetime:
        """Return the time before which all records are removed."""
        return now - timedelta(days=self.keep_days)


class CallLogStore(Protocol):
    bounds: CallLogBounds

    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None:
        """Store all records or none. Raises Unavailable."""

    async def find(self, filters: OperationFilter) -> OperationPage:
        """Return the newest operations that match `filters`. Raises Unavailable."""

    async def totals(self, environment: str, since: datetime) -> Traffic:
        """Return the sums from the quarter of an hour that contains `since` until now. Raises Unavailable."""

    async def prune(self, now: datetime) -> int:
        """Remove the oldest rows until the bounds are met. Return how many rows were removed. Raises Unavailable."""

    async def close(self) -> None: ...


def operations(records: Sequence[ExchangeRecord | Operation]) -> list[Operation]:
    """Convert exchange records to operations. Return all operations, in the same order."""
    return [record if isinstance(record, Operation) else call_operation(record) for record in records]
