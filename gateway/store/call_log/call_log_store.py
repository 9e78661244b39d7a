"""The interface of the call log in both databases: add, find, prune, within bounds of age and size."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from gateway.records.operation import Operation, OperationFilter, OperationPage, call
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.traffic import Traffic

SEARCH_S: Final = 2.0  # after which a search says how far it came
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class CallLogBounds:
    """Rows older than `keep_days`, and the oldest of those that take more than `max_bytes` together, are removed.
    `max_rows` None: only those two count."""

    keep_days: float = 7.0
    max_bytes: int = 1 << 30
    max_rows: int | None = None

    def oldest(self, now: datetime) -> datetime:
        """Return the time before which no record is kept."""
        return now - timedelta(days=self.keep_days)


class CallLogStore(Protocol):
    bounds: CallLogBounds

    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None:
        """Store them all or none. Raises Unavailable."""

    async def find(self, wanted: OperationFilter) -> OperationPage:
        """The newest that fit. Raises Unavailable."""

    async def totals(self, environment: str, since: datetime) -> Traffic:
        """Sums over what was added since, from the quarter of an hour on in which that lies. Raises Unavailable."""

    async def prune(self, now: datetime) -> int:
        """Keep the bounds. Returns how many rows are gone. Raises Unavailable."""

    async def close(self) -> None: ...


def operations(records: Sequence[ExchangeRecord | Operation]) -> list[Operation]:
    """Exchanges as operations; operations as they are."""
    return [one if isinstance(one, Operation) else call(one) for one in records]
