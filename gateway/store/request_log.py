"""The log of proxied requests: written in batches, pruned by age, never waited for by a request."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import delete, insert, select

from gateway.records.exchange import Exchange
from gateway.store.tables import request_log
from gateway.store.transactions import Transactions

KEPT: Final = tuple(column.name for column in request_log.columns if not column.primary_key)
PRUNED_AT_ONCE: Final = 5000  # rows; other writes come between


class RequestLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add_many(self, exchanges: Sequence[Exchange]) -> None:
        """Store a batch in one transaction."""
        if exchanges:
            rows = [{name: getattr(exchange, name) for name in KEPT} for exchange in exchanges]
            await self._transactions.write(lambda db: db.execute(insert(request_log), rows))

    async def prune(self, before: datetime) -> int:
        """Remove what is older than `before`, a few thousand rows a transaction. Returns how many."""
        old = select(request_log.c.id).where(request_log.c.at < before).order_by(request_log.c.at).limit(PRUNED_AT_ONCE)
        gone = delete(request_log).where(request_log.c.id.in_(old))
        total = 0
        while True:
            removed = (await self._transactions.write(lambda db: db.execute(gone))).rowcount
            total += removed
            if removed < PRUNED_AT_ONCE:
                return total
