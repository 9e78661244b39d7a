"""What came of authorizations, kept for an hour and as long as their session: a node that did not see one end learns it here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import RowMapping, Select, delete, exists, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connecting import SESSION_ENDED, Outcome
from gateway.store.tables import connect_sessions, flow_results
from gateway.store.transactions import NOTIFIES, Transactions

KEPT: Final = timedelta(hours=1)
MOST: Final = 1000
COLUMNS: Final = tuple(column.name for column in flow_results.columns if column.name != "id")


class FlowResults:
    """Rows are only added, and removed by age. None holds a secret: both kinds of token are digests here."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, outcome: Outcome) -> None:
        """Store it, and ring for those who wait on other nodes."""

        async def write(db: AsyncConnection) -> None:
            await db.execute(insert(flow_results).values({name: getattr(outcome, name) for name in COLUMNS}))
            db.info[NOTIFIES] = True

        await self._transactions.write(write)

    async def since(self, when: datetime) -> list[Outcome]:
        """The newest since then, at most a thousand. Clocks of nodes differ: ask for somewhat more than is needed."""
        late = select(flow_results).where(
            flow_results.c.at >= when, flow_results.c.error_type.is_distinct_from(SESSION_ENDED)
        )
        return await self._found(late.order_by(flow_results.c.at.desc()).limit(MOST))

    async def of_session(self, session_digest: str) -> list[Outcome]:
        """The last thousand of one connect session, in the order in which they came."""
        of_it = select(flow_results).where(flow_results.c.session_digest == session_digest)
        return (await self._found(of_it.order_by(flow_results.c.id.desc()).limit(MOST)))[::-1]

    async def of_flow(self, flow_digest: str) -> Outcome | None:
        """What came of the authorization whose `state` has this digest."""
        found = await self._found(select(flow_results).where(flow_results.c.flow_digest == flow_digest).limit(1))
        return found[0] if found else None

    async def prune(self, now: datetime) -> None:
        of_it = select(connect_sessions.c.digest).where(connect_sessions.c.digest == flow_results.c.session_digest)
        old = delete(flow_results).where(flow_results.c.at < now - KEPT, ~exists(of_it))
        await self._transactions.write(lambda db: db.execute(old))

    async def _found(self, wanted: Select[Any]) -> list[Outcome]:
        async with self._transactions.read() as db:
            rows: Sequence[RowMapping] = (await db.execute(wanted)).mappings().all()
        return [Outcome(**{name: row[name] for name in COLUMNS}) for row in rows]
