"""The table in which releases before 0.3 logged calls. This release writes nothing there, and removes rows by their
age.

The table stays while a node of such a release may still write it, during a rolling restart.
"""

from datetime import datetime

from gateway.store.changes import prune_oldest
from gateway.store.tables import request_log
from gateway.store.transactions import Transactions


class FormerLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def prune(self, before: datetime) -> int:
        """Remove rows older than `before`. Returns how many."""
        return await prune_oldest(self._transactions, request_log, request_log.c.at < before)
