"""What a row is given of its past when its connection moves in from elsewhere."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.past import MOVED, Past
from gateway.records.states import State
from gateway.store.connection_rows import failure_columns, life_columns
from gateway.store.tables import connection_history, connections

DATES = ("created_at", "granted_at", "last_refreshed_at", "last_fetched_at")


async def give_past(db: AsyncConnection, row_id: int, past: Past, *, now: datetime) -> None:
    """In the caller's transaction, after the row was filled. Its history begins with the move."""
    state = past.state or State.ACTIVE
    changed: dict[str, Any] = {
        "state": state.value,
        "state_reason": past.state_reason or MOVED,
        "state_since": past.state_since or now,
    }
    changed |= {name: value for name in DATES if (value := getattr(past, name)) is not None}
    if past.failure is not None:
        changed |= failure_columns(past.failure)
    if past.life is not None:
        changed |= life_columns(past.life)
    await db.execute(update(connections).where(connections.c.id == row_id).values(changed))
    await db.execute(delete(connection_history).where(connection_history.c.connection == row_id))
    entry = {"connection": row_id, "at": now, "state": state.value, "state_before": None, "reason": MOVED}
    await db.execute(insert(connection_history).values({**entry, "detail": past.state_reason}))
