"""Data keys under which nothing in the database is sealed, but perhaps a reply in a refresh journal (ADR 41)."""

import asyncio
import time
from collections.abc import Collection
from typing import Final

from sqlalchemy import exists, func, select

from gateway.store.tables import connections, data_keys
from gateway.store.transactions import Transactions

REFRESHES_S: Final = 3.0  # to end, of those that are under way; a provider that takes longer is not waited for
LOOK_AGAIN_S: Final = 0.05


async def kept_for_answers(transactions: Transactions, unused: Collection[str]) -> frozenset[str]:
    """Of these, those of environments with refreshes that began before the newest key, once it was waited for them a while.

    Their replies are in a refresh journal, in no table. A process that is killed leaves them there for the next one.
    """
    newest = select(func.max(data_keys.c.created_at)).where(data_keys.c.environment == connections.c.environment)
    begun = connections.c.intent_at <= newest.scalar_subquery()
    wanted = select(data_keys.c.id).where(
        data_keys.c.id.in_(unused),
        exists().where(connections.c.environment == data_keys.c.environment, begun),
    )
    end = time.monotonic() + REFRESHES_S
    while True:
        async with transactions.read() as db:
            kept = frozenset((await db.execute(wanted)).scalars())
        if not kept or time.monotonic() > end:
            return kept
        await asyncio.sleep(LOOK_AGAIN_S)
