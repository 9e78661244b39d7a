"""Writes of a refresh: lease, intent before the call, and its outcome, each fenced (ADR 5, ADR 20).

Owner and version are the fence: the owner names one attempt, the version names the credential that the attempt
replaces. A process that has lost its lease to another, or whose credential was replaced meanwhile, changes nothing; an
expired lease that nobody else has claimed still counts.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Interval,
    Row,
    Text,
    Update,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import Connection, ConnectionRef, Lease, Lifespan, RefreshFailure
from gateway.records.states import REJECTED, State, StateTrigger, trigger_for_failure
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import OwnChanges, execute_last, record_change, update_and_record
from gateway.store.connection_rows import (
    AT,
    NO_FAILURE,
    NO_INTENT,
    NO_LEASE,
    NO_PREVIOUS,
    PREVIOUS,
    SealedRows,
    at,
    connection_of,
    failure_columns,
    lease_columns,
    life_columns,
    place,
    stored,
)
from gateway.store.data_keys import STILL_NEWEST
from gateway.store.failover import Failover
from gateway.store.history import BEFORE, record_trigger
from gateway.store.outbox import Outbox
from gateway.store.tables import UtcTime, audit_pending, changes, connections
from gateway.store.transactions import OneStatement

# ── The statements of a refresh, each built once: building one costs more than running it.
#
# The parameters of the fence are `seen_version` and `owner`, beside those of `place`.

_REPLACED_COLUMNS: Final = ("version", "credential", "expires_at", "updated_at", "last_refreshed_at", "rotates")
SAVED_COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(_REPLACED_COLUMNS),
    **(NO_FAILURE | NO_LEASE | NO_INTENT | NO_PREVIOUS),
    **life_columns(Lifespan()),
}
"""Every column that a save sets."""
_FENCED: Final = and_(
    AT, connections.c.version == bindparam("seen_version"), connections.c.lease_owner == bindparam("owner")
)
SAVE_WITHOUT_STATE_CHANGE: Final = (
    update(connections)
    .where(
        _FENCED,
        connections.c.uid == bindparam("row_uid"),
        connections.c.state == State.ACTIVE.value,
        connections.c.state_since.is_not(None),
    )
    .returning(*connections.c)
)
"""For a save that changes no state and needs no event: writes and reads the row in one statement."""
_TO: Final = "to_"  # prefix for the parameters of columns: SQLAlchemy reserves the bare column names
_SAVE_ROW: Final = (
    SAVE_WITHOUT_STATE_CHANGE.where(STILL_NEWEST)
    .values({name: bindparam(_TO + name) for name in SAVED_COLUMNS})
    .cte("renewed")
)
_INSERT_CHANGE: Final = (
    insert(changes)
    .from_select(
        ["at", "environment", "integration_id", "connection_id"],
        select(
            bindparam("noted_at", type_=UtcTime),
            _SAVE_ROW.c.environment,
            _SAVE_ROW.c.integration_id,
            _SAVE_ROW.c.connection_id,
        ),
    )
    .returning(changes.c.id)
    .cte("noted")
)
SAVE_REFRESH: Final = select(_SAVE_ROW, _INSERT_CHANGE.c.id.label("change_id")).join_from(
    _SAVE_ROW, _INSERT_CHANGE, true()
)
"""The whole transaction of a refresh on PostgreSQL: fence of the data key, row, entry in the change log."""
_INSERT_AUDIT: Final = (
    insert(audit_pending)
    .from_select(["body"], select(bindparam("audit_body", type_=Text)).select_from(_SAVE_ROW))
    .returning(audit_pending.c.id)
    .cte("recorded")
)
SAVE_REFRESH_AND_AUDIT: Final = SAVE_REFRESH.add_cte(_INSERT_AUDIT)
"""As `SAVE_REFRESH`, with a record of the audit trail."""


def _refresh_statement(
    place_and_key: Mapping[str, Any], columns: Mapping[str, Any], now: datetime, entry: AuditEntry | None = None
) -> OneStatement[tuple[Connection, int | None] | None]:
    """Return the save of a refresh as one statement. Its result is the row, and the id of its change log entry."""
    values = {**place_and_key, **{_TO + name: value for name, value in columns.items()}, "noted_at": now}
    statement = SAVE_REFRESH
    if entry is not None:
        statement, values = SAVE_REFRESH_AND_AUDIT, {**values, "audit_body": entry.body()}
    return OneStatement(statement, values, lambda row: (connection_of(row), row["change_id"]), notifies=True)


SELECT_LEASED: Final = select(connections).where(_FENCED).with_for_update()
SELECT_LEASED_WITH_STATE: Final = (
    select(*BEFORE, connections.c.keep_alive_at, connections.c.lease_until).where(_FENCED).with_for_update()
)
SELECT_OPEN_INTENTS: Final = (
    select(connections)
    .where(connections.c.lease_until.is_not(None), connections.c.intent_digest.is_not(None))
    .order_by(connections.c.lease_until)
    .limit(bindparam("most"))
)
"""Rows with an open intent and a lease, expired or not; the earliest expiry first."""


class LeaseStatements:
    """The statements for leases. Times are the database's: computed in SQL on PostgreSQL, and with `clock` on SQLite.

    `timeline`: the SQL expression for the database's timeline; None if unknown. A claim names the timeline that this
    node knows, so that no claim succeeds between a failover and the time when this node notices it.
    """

    def __init__(self, *, by_database: bool, timeline: str | None) -> None:
        self._by_database = by_database
        until = connections.c.lease_until
        seen = and_(
            connections.c.version == bindparam("seen_version"),
            connections.c.updated_at == bindparam("seen_updated_at"),
            connections.c.intent_digest.is_not_distinct_from(bindparam("seen_digest")),
            connections.c.lease_owner.is_not_distinct_from(bindparam("seen_owner", type_=Text)),
        )
        here = update(connections).where(AT)
        if timeline is not None:
            here = here.where(literal_column(timeline, Text) == bindparam("timeline", type_=Text))
        claim = here.values(lease_until=self._at("lease_for"))
        free = or_(until.is_(None), until <= self._at("free_for"))
        self.claim: Final[Update] = claim.where(free)
        """Succeeds if there is no lease, or the lease expired `free_for` ago (a negative interval)."""
        self.claim_seen: Final[Update] = claim.where(seen, free)
        """As `claim`, but only while the row, its intent and its lease owner are as seen."""
        self.claim_at_once: Final = claim.where(seen, free, STILL_NEWEST).returning(connections.c.uid)
        """`claim_seen` with the fence of the data key, as one transaction. Returns a row if it succeeds."""
        self.take: Final[Update] = claim.where(seen)
        """Takes the lease from the owner that was seen, whose process is known to be dead."""
        mine = update(connections).where(AT, connections.c.lease_owner == bindparam("owner"))
        self.hold: Final[Update] = mine.values(lease_until=self._at("lease_for"))
        """Sets the end of the owner's lease, even if the lease has expired."""

    def value(self, delta: timedelta) -> timedelta | datetime:
        """Return the value of a parameter that means now + `delta`."""
        return delta if self._by_database else clock.now() + delta

    def _at(self, name: str) -> ColumnElement[Any]:
        if not self._by_database:
            return bindparam(name, type_=UtcTime)
        return func.clock_timestamp(type_=DateTime(timezone=True)) + bindparam(name, type_=Interval)


# ── Leases on refreshes (ADR 5, ADR 20, ADR 42): who may refresh a credential, and the intent that is on disk before
# the token call.

AT_ONCE: Final = timedelta(0)


NEVER: Final = Lifespan()


class RefreshStore:
    """Leases on refreshes, and the outcome of each refresh."""

    def __init__(
        self, rows: SealedRows, outbox: Outbox, own: OwnChanges, failover: Failover, trail: AuditTrail
    ) -> None:
        self._rows = rows
        self._trail = trail
        self._transactions = rows.transactions
        self._outbox = outbox
        self._own = own
        self._failover = failover
        self._rehearsed = False  # the first save of a process is compiled before its token call, not after it

    async def save_refreshed(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        credential: Mapping[str, Any],
        expires_at: datetime | None,
        now: datetime,
        life: Lifespan = NEVER,
        previous: str | None = None,
        previous_until: datetime | None = None,
        rotates: bool = False,
        uid: str | None = None,
    ) -> Connection | None:
        """Replace the credential of `version`, and end lease and intent. When this returns, the credential is on disk.

        `previous`: the refresh token that was sent, kept sealed until `previous_until`. `rotates`: the provider has
        replaced the refresh token, now or earlier. `uid`: that of the row as seen, which saves a query. Returns None if
        fenced off: the row was deleted or created again, its credential was replaced, or another owner holds the lease.
        """
        mine = {**place(ref), "seen_version": version, "owner": owner}
        new, entry = version + 1, _recorded(ref, now)

        def changed(uid: str) -> dict[str, Any]:
            columns = dict(SAVED_COLUMNS) | life_columns(life)
            columns |= {"version": new, "expires_at": expires_at, "updated_at": now, "last_refreshed_at": now}
            columns["rotates"] = rotates
            columns["credential"] = self._rows.seal(credential, ref, uid, "credential", new)
            if previous is not None:
                columns[PREVIOUS] = self._rows.seal({"refresh_token": previous}, ref, uid, PREVIOUS, new)
                columns |= {f"{PREVIOUS}_version": new, f"{PREVIOUS}_until": previous_until}
            return columns

        def at_once() -> OneStatement[tuple[Connection, int | None] | None] | None:
            key = self._rows.keys.newest_key(ref.environment)
            if uid is None or key is None:
                return None
            return _refresh_statement(
                mine | key | {"row_uid": uid}, changed(uid), now, self._trail.entry_if_all_recorded(entry)
            )

        async def write(db: AsyncConnection) -> tuple[Connection, int | None] | None:
            if uid is not None:
                values = {**mine, "row_uid": uid, **changed(uid)}
                row, change_id = await update_and_record(
                    db, SAVE_WITHOUT_STATE_CHANGE, values, ref, now, ends=not self._trail.all_refreshes
                )
                if row is not None:
                    await self._trail.record_refresh(db, entry, news=False)
                    return connection_of(row), change_id
            held = (await db.execute(SELECT_LEASED, mine)).one_or_none()
            if held is None or (uid is not None and held.uid != uid):
                return None
            return await self._save_with_state(db, ref, held, changed(held.uid), now, entry), None

        done = await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(ref.environment), at_once=at_once
        )
        if done is None:
            return None
        saved, change_id = done
        if change_id is not None:
            self._own.record(change_id, saved.mark)
        return saved

    async def _save_with_state(
        self,
        db: AsyncConnection,
        ref: ConnectionRef,
        held: Row[Any],
        columns: dict[str, Any],
        now: datetime,
        entry: AuditEntry,
    ) -> Connection:
        """Write `columns` into the locked row `held`, with the change of its state and the event that may follow."""
        trigger, reason = StateTrigger.RENEWED, "renewed"
        if held.failure_code == REJECTED:  # only a call shows whether the API accepts the new credential
            trigger, reason = StateTrigger.REPLACED, held.state_reason
            columns = {name: value for name, value in columns.items() if name not in NO_FAILURE}
        written = await record_trigger(db, self._outbox, held, trigger, columns, now=now, reason=reason)
        saved = connection_of({**held._mapping, **written})
        entry_of = replace(entry, detail={"now": saved.state.value, "before": held.state})
        await self._trail.record_refresh(db, entry_of, news="state" in written)
        await record_change(db, ref, now, ends=True)
        return saved

    async def record_failure(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        failure: RefreshFailure,
        still_open: bool = False,
        former: Lease | None = None,
        keep_lease: bool = False,
        trigger: StateTrigger | None = None,
    ) -> Connection | None:
        """Record why the refresh failed and end the lease; the credential stays. Returns None if fenced off, as
        `save_refreshed`.

        `still_open`: the provider may have accepted the token, so the intent stays open. `former`, if this attempt sent
        no token: the lease that `owner` has claimed from another owner, who gets it back; or the lease of `owner`, who
        keeps it, and whose renewal meanwhile fences this write off. `keep_lease`: `owner` keeps the lease, since its
        machine may have the reply. `trigger`: overrides the trigger that `failure` implies.
        """
        what = trigger or trigger_for_failure(failure.code, final=failure.final)
        given_back = NO_LEASE if former is None or not still_open else lease_columns(former)
        if keep_lease:
            given_back = {}
        entry = _recorded(ref, failure.at)
        changed = failure_columns(failure) | given_back | ({} if still_open else NO_INTENT)

        async def write(db: AsyncConnection) -> Connection | None:
            mine = {**place(ref), "seen_version": version, "owner": owner}
            row = (await db.execute(SELECT_LEASED_WITH_STATE, mine)).one_or_none()
            if row is None:
                return None
            if former is not None and former.owner == owner and row.lease_until != former.until:
                return None
            again = row.keep_alive_at
            if again is not None:  # no keep-alive without another attempt
                again = max(again, failure.retry_at) if failure.retry_at is not None else None
            values = changed | {"updated_at": failure.at, "keep_alive_at": again}
            why = {"reason": failure.code, "detail": failure.message}
            moved = await record_trigger(db, self._outbox, row, what, values, now=failure.at, **why)
            written = await stored(db, ref)
            detail = {"reason": failure.code, "now": written.state.value, "before": row.state}
            failed = replace(entry, outcome="failed", detail=detail)
            await self._trail.record_refresh(db, failed, news="state" in moved)
            await record_change(db, ref, failure.at, ends=True)
            return written

        return await self._transactions.write(write)

    async def unsettled(self, *, most: int) -> list[Connection]:
        """Return at most `most` connections with an open intent and a lease, the earliest end of the lease first."""
        async with self._transactions.read() as db:
            rows = (await db.execute(SELECT_OPEN_INTENTS, {"most": most})).mappings().all()
        return await self._rows.records(rows)

    async def forget_previous(self, now: datetime) -> None:
        """Remove previous refresh tokens whose grace period is over."""
        old = update(connections).where(connections.c[f"{PREVIOUS}_until"] <= now)
        await self._transactions.write(lambda db: db.execute(old.values(NO_PREVIOUS)))

    @cached_property
    def _statements(self) -> LeaseStatements:
        by_database = self._transactions.dialect.name == "postgresql"
        return LeaseStatements(by_database=by_database, timeline=self._failover.sql)

    async def lease_refresh(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        ttl: timedelta,
        seen: Connection | None = None,
        intent: str | None = None,
        ran_out: timedelta = AT_ONCE,
        from_holder: bool = False,
    ) -> bool:
        """Claim the lease to refresh this credential for the next `ttl` (ADR 5). Returns whether the claim succeeded.

        One conditional UPDATE with the database's time. `owner` names this attempt, not the node. With `seen`, the
        claim succeeds only while the row, its intent and its lease owner are as in `seen`, so the row need not be read
        again. `intent`, the digest of the refresh token about to be sent, is on disk when this returns. `ran_out`: how
        long ago another owner's lease must have expired. `from_holder`: the process of the owner in `seen` is known to
        be dead, so its lease need not have expired. After False, read the row again: another owner holds the lease, the
        row has changed or is gone, or the database failed over.
        """
        claim, timeline = self._statements.claim, self._failover.timeline
        values: dict[str, Any] = {**place(ref), "lease_owner": owner}
        if self._failover.sql is not None:
            values["timeline"] = timeline
        if seen is not None:
            claim = self._statements.take if from_holder else self._statements.claim_seen
            digest = seen.intent.digest if seen.intent is not None else None
            holder = seen.lease.owner if seen.lease is not None else None
            values |= {"seen_version": seen.version, "seen_updated_at": seen.updated_at, "seen_digest": digest}
            values["seen_owner"] = holder
        if intent is not None:
            values |= {"intent_digest": intent, "intent_at": clock.now()}

        async def write(db: AsyncConnection) -> bool:
            if not self._rehearsed and intent is not None:
                await self._rehearse(db)
            return (await execute_last(db, claim, values | times())).rowcount == 1

        def times() -> dict[str, Any]:
            """Return the times, relative to the write itself: the write may have waited in a queue."""
            ends = {"lease_for": self._statements.value(ttl)}
            return ends if from_holder else ends | {"free_for": self._statements.value(-ran_out)}

        def at_once() -> OneStatement[bool] | None:
            key = self._rows.keys.newest_key(ref.environment)
            if seen is None or from_holder or key is None or not self._rehearsed:
                return None
            return OneStatement(self._statements.claim_at_once, values | times() | key, lambda _row: True)

        if intent is None:
            return await self._transactions.write(write)
        # Do not use up a token if its successor cannot be sealed. A newer data key is only seen inside the transaction.
        claimed = await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(ref.environment), at_once=at_once
        )
        return claimed and timeline == self._failover.timeline  # after a failover, the claim may be lost

    async def _rehearse(self, db: AsyncConnection) -> None:
        """Compile and prepare the statement of a save, with a save that matches no row."""
        self._rehearsed = True
        nobody = {**place(ConnectionRef("", "", "")), "seen_version": 0, "owner": "", "row_uid": ""}
        if self._transactions.takes_one_statement:
            entry = self._trail.entry_if_all_recorded(_recorded(ConnectionRef("", "", ""), clock.now()))
            refresh = _refresh_statement(nobody | {"of": "", "sealing_key": ""}, SAVED_COLUMNS, clock.now(), entry)
            await db.execute(refresh.statement, refresh.parameters)
        else:
            values = nobody | SAVED_COLUMNS
            where = ConnectionRef("", "", "")
            await update_and_record(db, SAVE_WITHOUT_STATE_CHANGE, values, where, clock.now(), ends=False)

    async def extend_lease(self, ref: ConnectionRef, *, owner: str, ttl: timedelta) -> bool:
        """Extend the lease to `ttl` from now, even if it has expired. Returns False if another owner holds it."""

        async def write(db: AsyncConnection) -> bool:
            values = {**place(ref), "owner": owner, "lease_for": self._statements.value(ttl)}
            return (await db.execute(self._statements.hold, values)).rowcount == 1

        return await self._transactions.write(write)

    async def release_lease(
        self, ref: ConnectionRef, *, owner: str, still_open: bool = False, former: Lease | None = None
    ) -> None:
        """Release the lease when no token was sent. Does nothing if another owner holds it.

        `still_open`: an earlier intent stays open, and `former`, the lease that was replaced by the claim, is restored.
        """
        mine = update(connections).where(at(ref), connections.c.lease_owner == owner)
        given_back = NO_LEASE if former is None else lease_columns(former)
        await self._rows.update(mine.values(given_back if still_open else NO_LEASE | NO_INTENT))

    async def end_lease(self, ref: ConnectionRef, *, owner: str) -> None:
        """Expire the owner's lease now and leave its intent open: the attempt is over, and the token may have been
        sent."""
        await self.extend_lease(ref, owner=owner, ttl=AT_ONCE)


def _recorded(ref: ConnectionRef, now: datetime) -> AuditEntry:
    """Return the entry for the audit trail. It names no end user; the record of the connection's creation does."""
    where = {"integration_id": ref.integration_id, "connection_id": ref.connection_id}
    return AuditEntry.of(AuditAction.CONNECTION_REFRESHED, ref.environment, now, **where)
