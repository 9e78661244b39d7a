"""The table in which releases before 0.3 logged calls. Nothing is written there any more; its rows leave by their age.

It stays for as long as a node of such a release may write it beside this one.
"""

from datetime import datetime

from gateway.store.changes import prune_oldest
from gateway.store.tables import request_log
from gateway.store.transactions import Transactions


class FormerLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def prune(self, before: datetime) -> int:
        """Remove what is older. Returns how many rows."""
        return await prune_oldest(self._transactions, request_log, request_log.c.at < before)
