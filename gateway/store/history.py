"""The history of a connection's state (the last fifty changes), and the record of rejected credentials."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.http.scope_challenge import MAX_SCOPES
from gateway.records.connection import Connection, ConnectionRef, RefreshFailure, RefusedScopes
from gateway.records.event import Event, event_for_change
from gateway.records.states import (
    ENDED,
    REJECTED,
    Change,
    HistoryNote,
    State,
    StateTrigger,
    next_state,
    trigger_for_failure,
)
from gateway.store.changes import record_change
from gateway.store.connection_rows import NO_FAILURE, failure_columns, matches_ref, read_written, refused_scopes_json
from gateway.store.outbox import Outbox
from gateway.store.tables import connection_history, connections
from gateway.store.transactions import Transactions

MAX_ENTRIES: Final = 50
UNREPORTED_TRIGGERS: Final = frozenset({StateTrigger.RENEWED, StateTrigger.WRITTEN_BACK})
"""Triggers that do not count as a change as long as the state stays the same, even if the reason differs."""
STATE_COLUMNS: Final = (connections.c.id, connections.c.state, connections.c.state_reason, connections.c.state_since)
"""The columns of a connection's row that `record_trigger` needs."""
UPDATE_BY_ID: Final = update(connections).where(connections.c.id == bindparam("row_id"))
"""Sets the columns that its parameters name. Built only once, because every refresh needs this statement."""


async def record_trigger(
    db: AsyncConnection,
    outbox: Outbox | None,
    row: Any,
    trigger: StateTrigger,
    values: Mapping[str, Any],
    *,
    now: datetime,
    reason: str,
    detail: str | None = None,
) -> dict[str, Any]:
    """Write `values` and the state that follows from `trigger`.

    Runs in the caller's transaction, which has locked `row`. `row`: the connection's row, with the columns `STATE_COLUMNS`.
    `outbox`: the outbox for the event of this change, if the change has one; None to send no event. Returns all columns
    written.

    The history gets an entry if the state changes, if its reason changes (except by a trigger in `UNREPORTED_TRIGGERS`), and for
    each authorization and each write-back.
    """
    state = next_state(State(row.state), trigger)
    state_changed = state != row.state or (trigger not in UNREPORTED_TRIGGERS and reason != row.state_reason)
    state_columns: dict[str, Any] = {}
    old_state = State(row.state) if row.state_since is not None else None
    if state_changed or trigger is StateTrigger.AUTHORIZED:
        state_columns = {"state": state.value, "state_reason": reason, "state_since": now}
        await _add(db, row.id, Change(now, state, reason, detail, old_state))
    elif trigger is StateTrigger.WRITTEN_BACK:
        await _add(db, row.id, Change(now, state, reason, detail, old_state))
    written_columns = {**values, **state_columns}
    await db.execute(UPDATE_BY_ID, {"row_id": row.id, **written_columns})
    authorized_again = trigger is StateTrigger.AUTHORIZED and old_state is not None
    event = Event.RECONNECTED if authorized_again else event_for_change(old_state, state)
    if event is not None and outbox is not None:
        await outbox.add_event(db, row.id, event, now=now, reason=reason, detail=detail)
    return written_columns


async def record_note(db: AsyncConnection, row_id: int, state: State, note: HistoryNote, *, now: datetime) -> None:
    """Add `note` to the history of a connection, whose state is and stays `state`."""
    await _add(db, row_id, Change(now, state, note.reason, note.detail, state))


async def record_final_failure(db: AsyncConnection, outbox: Outbox | None, row: Any, failure: RefreshFailure) -> None:
    """Write that a connection has ended permanently.

    Runs in the caller's transaction, which has locked `row`. `row`: the connection's row, with the columns `STATE_COLUMNS`.
    """
    values = failure_columns(failure) | {"keep_alive_at": None, "end_settled": True, "updated_at": failure.at}
    reason_fields = {"reason": failure.code, "detail": failure.message}
    await record_trigger(db, outbox, row, StateTrigger.REFUSED, values, now=failure.at, **reason_fields)


async def _add(db: AsyncConnection, row_id: int, change: Change) -> None:
    history = connection_history.c
    entry = {
        "connection": row_id,
        "at": change.at,
        "state": change.state.value,
        "state_before": change.before.value if change.before else None,
        "reason": change.reason,
        "detail": change.detail,
    }
    await db.execute(insert(connection_history).values(entry))
    history_query = select(history.id).where(history.connection == row_id).order_by(history.id.desc())
    newest_surplus_id = history_query.limit(1).offset(MAX_ENTRIES).scalar_subquery()
    await db.execute(delete(connection_history).where(history.connection == row_id, history.id <= newest_surplus_id))


class HistoryStore:
    """The state changes of connections."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def changes_of(self, row_id: int) -> list[Change]:
        """Return the changes of the connection with row id `row_id`, oldest first."""
        history = connection_history.c
        query = select(connection_history).where(history.connection == row_id).order_by(history.id)
        async with self._transactions.read() as db:
            rows = (await db.execute(query)).all()
        return [
            Change(
                row.at, State(row.state), row.reason, row.detail, State(row.state_before) if row.state_before else None
            )
            for row in rows
        ]


# ── Credentials that a provider's API rejects. Several rejected calls record a failure; a 2xx removes the failure.

ACCEPTED: Final = "accepted"
READ_COLUMNS: Final = (*STATE_COLUMNS, connections.c.uid, connections.c.granted_at, connections.c.failure_code)


class RejectionStore:
    """Records that the provider rejected a credential, and the scopes that it demanded.

    A failed refresh takes precedence over a rejected call. A row with a newer grant is not changed.
    """

    def __init__(self, transactions: Transactions, outbox: Outbox) -> None:
        self._transactions = transactions
        self._outbox = outbox

    async def record(self, known_row: Connection, failure: RefreshFailure) -> Connection | None:
        """Write `failure`, of code `REJECTED`, and return the row.

        Returns None if the row has another grant than `known_row`, has a failure with another code, or has ended.
        """
        trigger = trigger_for_failure(failure.code, final=failure.final)

        async def write(db: AsyncConnection) -> Connection | None:
            row = await self._lock_row(db, known_row)
            if row is None or row.failure_code not in {None, REJECTED} or State(row.state) in ENDED:
                return None
            values = failure_columns(failure) | {"updated_at": failure.at}
            reason_fields = {"reason": failure.code, "detail": failure.message}
            await record_trigger(db, self._outbox, row, trigger, values, now=failure.at, **reason_fields)
            written_row = await read_written(db, known_row.ref)
            await record_change(db, known_row.ref, failure.at, is_last=True)
            return written_row

        return await self._transactions.write(write)

    async def withdraw(self, known_row: Connection, *, now: datetime) -> Connection | None:
        """Remove the failure that `record` wrote, and return the row.

        Returns None if the row has no such failure, or has another grant than `known_row`.
        """

        async def write(db: AsyncConnection) -> Connection | None:
            row = await self._lock_row(db, known_row)
            if row is None or row.failure_code != REJECTED:
                return None
            values = NO_FAILURE | {"updated_at": now}
            await record_trigger(db, self._outbox, row, StateTrigger.ACCEPTED, values, now=now, reason=ACCEPTED)
            written_row = await read_written(db, known_row.ref)
            await record_change(db, known_row.ref, now, is_last=True)
            return written_row

        return await self._transactions.write(write)

    async def record_scopes(self, known_row: Connection, refused: RefusedScopes) -> Connection | None:
        """Add the scopes of `refused` to the row's refused scopes, and return the row.

        Returns None if the row has another grant than `known_row`.
        """

        async def write(db: AsyncConnection) -> Connection | None:
            if await self._lock_row(db, known_row) is None:
                return None
            stored_scopes = (await read_written(db, known_row.ref)).refused_scopes
            all_scopes = dict.fromkeys((*(stored_scopes.scopes if stored_scopes else ()), *refused.scopes))
            values = {"refused_scopes": refused_scopes_json(replace(refused, scopes=tuple(all_scopes)[:MAX_SCOPES]))}
            await db.execute(
                update(connections).where(matches_ref(known_row.ref)).values(updated_at=refused.at, **values)
            )
            written_row = await read_written(db, known_row.ref)
            await record_change(db, known_row.ref, refused.at)
            return written_row

        return await self._transactions.write(write)

    async def forget_scopes(self, ref: ConnectionRef, *, now: datetime) -> None:
        """Remove the scopes that `record_scopes` has stored for this connection."""

        async def write(db: AsyncConnection) -> None:
            has_scopes = matches_ref(ref), connections.c.refused_scopes.is_not(None)
            result = await db.execute(
                update(connections).where(*has_scopes).values(refused_scopes=None, updated_at=now)
            )
            if result.rowcount:
                await record_change(db, ref, now)

        await self._transactions.write(write)

    @staticmethod
    async def _lock_row(db: AsyncConnection, known_row: Connection) -> Any:
        row: Any = (
            await db.execute(select(*READ_COLUMNS).where(matches_ref(known_row.ref)).with_for_update())
        ).one_or_none()
        has_same_grant = row is not None and (row.uid, row.granted_at) == (known_row.uid, known_row.granted_at)
        return row if has_same_grant else None
