"""The writes of a refresh: lease, intent before the token call, outcome. A fence protects each write (ADR 5, ADR 20).

The fence consists of owner and version. The owner names one attempt. The version names the credential that the attempt
replaces. A write changes nothing if another process has taken the lease, or if the credential was replaced before the
write. A write still succeeds if the lease has expired and no other process has claimed it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Dialect,
    Interval,
    Row,
    RowMapping,
    Text,
    Update,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from gateway import clock
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import Connection, ConnectionRef, Lease, Lifespan, RefreshFailure, Sealed
from gateway.records.states import REJECTED, HistoryNote, State, StateTrigger, trigger_for_failure
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import OwnChanges, execute_last, record_change
from gateway.store.connection_rows import (
    MATCHES_REF,
    NO_FAILURE,
    NO_INTENT,
    NO_LEASE,
    NO_PREVIOUS,
    PREVIOUS_COLUMN,
    SealedRows,
    connection_of,
    failure_columns,
    lease_columns,
    life_columns,
    matches_ref,
    read_written,
    ref_parameters,
)
from gateway.store.data_keys import STILL_NEWEST
from gateway.store.failover import Failover
from gateway.store.history import STATE_COLUMNS, record_note, record_trigger
from gateway.store.outbox import Outbox
from gateway.store.tables import UtcTime, audit_pending, changes, connections
from gateway.store.transactions import CompiledStatement, OneTrip

# ── The statements of a refresh. Each statement is built only once, because building it costs more than running it.
#
# The fence has the parameters `known_version` and `owner`, in addition to the parameters from `ref_parameters`.

_REPLACED_COLUMNS: Final = ("version", "credential", "expires_at", "updated_at", "last_refreshed_at", "rotates")
SAVED_COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(_REPLACED_COLUMNS),
    **NO_PREVIOUS,
    **life_columns(Lifespan()),
}
"""Every column to which a save gives a value."""
CLEARED_COLUMNS: Final[dict[str, Any]] = NO_FAILURE | NO_LEASE | NO_INTENT
"""Every column that a save sets to NULL."""
_FENCED: Final = and_(
    MATCHES_REF, connections.c.version == bindparam("known_version"), connections.c.lease_owner == bindparam("owner")
)
_WRITTEN: Final = "to_"  # prefix of parameter names, because SQLAlchemy reserves the column names
SAVE_ROW: Final = (
    update(connections)
    .where(
        _FENCED,
        connections.c.uid == bindparam("row_uid"),
        connections.c.updated_at == bindparam("known_updated_at"),
        connections.c.state == State.ACTIVE.value,
        connections.c.state_since.is_not(None),
        STILL_NEWEST,
    )
    .values(dict.fromkeys(CLEARED_COLUMNS, null()) | {name: bindparam(_WRITTEN + name) for name in SAVED_COLUMNS})
    .returning(connections.c.environment, connections.c.integration_id, connections.c.connection_id)
)
"""Saves a refresh that changes no state and needs no event, if the row has not changed since the caller read it.

So the caller knows the row after the save, and the database need not return it.
"""
_AUDIT_BODY: Final = bindparam("audit_body", type_=Text)
_CHANGED_AT: Final = bindparam("noted_at", type_=UtcTime)


def _statements_of_save(*, as_one: bool, audited: bool) -> list[ReturningInsert[Any] | ReturningUpdate[Any]]:
    """Return the statements that save a refresh: write the row, an audit record if `audited`, and a change log entry.

    The last statement returns the id of the change log entry. `as_one`: whether one statement does it all.
    """
    if not as_one:
        row: dict[str, Any] = {name: bindparam(f"at_{name}") for name in ConnectionRef._fields}
        change_insert = insert(changes).values(at=_CHANGED_AT, **row).returning(changes.c.id)
        audit_insert = insert(audit_pending).values(body=_AUDIT_BODY).returning(audit_pending.c.id)
        return [SAVE_ROW, audit_insert, change_insert] if audited else [SAVE_ROW, change_insert]
    save_row = SAVE_ROW.cte("renewed")
    change_row = insert(changes).from_select(["at", *ConnectionRef._fields], select(_CHANGED_AT, *save_row.c))
    if audited:
        audited_save = insert(audit_pending).from_select(["body"], select(_AUDIT_BODY).select_from(save_row))
        change_row = change_row.add_cte(audited_save.returning(audit_pending.c.id).cte("recorded"))
    return [change_row.returning(changes.c.id)]


SELECT_LEASED: Final = select(connections).where(_FENCED).with_for_update()
SELECT_LEASED_WITH_STATE: Final = (
    select(*STATE_COLUMNS, connections.c.keep_alive_at, connections.c.lease_until).where(_FENCED).with_for_update()
)
_OPEN_INTENTS: Final = (
    select(connections)
    .where(connections.c.lease_until.is_not(None), connections.c.intent_digest.is_not(None))
    .order_by(connections.c.lease_until)
    .limit(bindparam("most"))
)
SELECT_OPEN_INTENTS: Final = (
    _OPEN_INTENTS.where(connections.c.failure_final.is_not(True)),
    _OPEN_INTENTS.where(connections.c.failure_final.is_(True)),
)
"""The rows with an open intent and a lease, expired or not. The lease that ends first comes first.

The second statement returns the rows with a final failure. Their loss is already reported, and they stay until the end
user connects again. Two statements, so that both read the index in its order.
"""


class RefreshStatements:
    """The statements for leases, and those that save a refresh.

    The statements for leases use the database's time: computed in SQL on PostgreSQL, by `clock` on SQLite. `timeline`:
    the SQL expression that returns the database's timeline; None if the database has none. A claim names the timeline
    that this node knows. So no claim succeeds between a failover and the time when this node notices it.
    """

    def __init__(self, dialect: Dialect, *, timeline: str | None) -> None:
        self._by_database = by_database = dialect.name == "postgresql"
        until = connections.c.lease_until
        is_unchanged = and_(
            connections.c.version == bindparam("known_version"),
            connections.c.updated_at == bindparam("known_updated_at"),
            connections.c.intent_digest.is_not_distinct_from(bindparam("known_digest")),
            connections.c.lease_owner.is_not_distinct_from(bindparam("known_owner", type_=Text)),
        )
        on_timeline = update(connections).where(MATCHES_REF)
        if timeline is not None:
            on_timeline = on_timeline.where(literal_column(timeline, Text) == bindparam("timeline", type_=Text))
        claim = on_timeline.values(lease_until=self._time_expression("lease_for"))
        is_free = or_(until.is_(None), until <= self._time_expression("free_for"))
        self.claim: Final[Update] = claim.where(is_free)
        """Claims the lease if there is no lease, or if the lease expired before the time `free_for`."""
        self.claim_unchanged: Final[Update] = claim.where(is_unchanged, is_free)
        """Claims the lease like `claim`, but only if the row, its intent and its lease owner have not changed."""
        checked_claim = claim.where(is_unchanged, is_free, STILL_NEWEST).values(
            {name: bindparam(_WRITTEN + name) for name in ("lease_owner", "intent_digest", "intent_at")}
        )
        self._claim_in_one_trip = CompiledStatement(checked_claim.returning(connections.c.uid), dialect)
        self._save_in_one_trip = {
            audited: [
                CompiledStatement(part, dialect) for part in _statements_of_save(as_one=by_database, audited=audited)
            ]
            for audited in (False, True)
        }
        self.take_over: Final[Update] = claim.where(is_unchanged)
        """Takes the lease from its present owner. The caller must know that the owner's process is dead."""
        lease_update = update(connections).where(MATCHES_REF, connections.c.lease_owner == bindparam("owner"))
        self.extend: Final[Update] = lease_update.values(lease_until=self._time_expression("lease_for"))
        """Sets the end of the owner's lease, even if the lease has expired."""

    def claim_in_one_trip(self, values: Mapping[str, Any], columns: Mapping[str, Any]) -> OneTrip[bool]:
        """Claim the lease like `claim_unchanged`, write `columns` and check the data key, in one trip."""
        return OneTrip([self._claim_in_one_trip.bind({**values, **_written_parameters(columns)})], lambda _row: True)

    def save_in_one_trip(
        self,
        values: Mapping[str, Any],
        columns: Mapping[str, Any],
        now: datetime,
        saved_row: Connection,
        entry: AuditEntry | None,
    ) -> OneTrip[tuple[Connection, int | None] | None]:
        """Save a refresh in one trip. The result is the row `saved_row`, and the id of the change log entry."""
        parameters = {
            **values,
            **_written_parameters(columns),
            "noted_at": now,
            "audit_body": entry.body() if entry else None,
        }
        statements = [part.bind(parameters) for part in self._save_in_one_trip[entry is not None]]
        return OneTrip(statements, lambda row: (saved_row, row[0]), notifies=True)

    def time_parameter(self, delta: timedelta) -> timedelta | datetime:
        """Return the parameter for the time `delta` from now: `delta`, if the database's clock counts, else the time."""
        return delta if self._by_database else clock.now() + delta

    def _time_expression(self, name: str) -> ColumnElement[Any]:
        if not self._by_database:
            return bindparam(name, type_=UtcTime)
        return func.clock_timestamp(type_=DateTime(timezone=True)) + bindparam(name, type_=Interval)


# ── Leases on refreshes (ADR 5, ADR 20, ADR 42). A lease decides which process may refresh a credential. The intent is
# on the disk before the token call.

IMMEDIATELY: Final = timedelta(0)


NO_EXPIRY: Final = Lifespan()


@dataclass(frozen=True, slots=True)
class SavedCredential:
    """The credential that a refresh saves. `version`: its version. The other fields: see `RefreshStore.save_refreshed`."""

    ref: ConnectionRef
    version: int
    credential: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None
    now: datetime
    life: Lifespan
    previous: str | None = field(repr=False)
    previous_until: datetime | None
    rotates: bool

    def row_after(self, known_row: Connection, values: Mapping[str, Any]) -> Connection:
        """Return the row `known_row` after a save that does not change its state. `values`: the result of `columns`."""

        def sealed(column: str) -> Sealed:
            return replace(known_row.credential, ciphertext=values[column], column=column, version=self.version)

        return replace(
            known_row,
            version=self.version,
            credential=sealed("credential"),
            expires_at=self.expires_at,
            updated_at=self.now,
            last_refreshed_at=self.now,
            rotates=self.rotates,
            life=self.life,
            failure=None,
            lease=None,
            intent=None,
            previous=None if self.previous is None else sealed(PREVIOUS_COLUMN),
            previous_until=None if self.previous is None else self.previous_until,
        )

    def columns(self, rows: SealedRows, uid: str) -> dict[str, Any]:
        """Return the values of `SAVED_COLUMNS`, with the secrets sealed for the row `uid`."""
        ref, version, now = self.ref, self.version, self.now
        columns = dict(SAVED_COLUMNS) | life_columns(self.life)
        columns |= {"version": version, "expires_at": self.expires_at, "updated_at": now, "last_refreshed_at": now}
        columns["rotates"] = self.rotates
        columns["credential"] = rows.seal(self.credential, ref, uid, "credential", version)
        if self.previous is not None:
            columns[PREVIOUS_COLUMN] = rows.seal({"refresh_token": self.previous}, ref, uid, PREVIOUS_COLUMN, version)
            columns |= {f"{PREVIOUS_COLUMN}_version": version, f"{PREVIOUS_COLUMN}_until": self.previous_until}
        return columns


class RefreshStore:
    """Leases on refreshes, and the outcome of each refresh."""

    def __init__(
        self, rows: SealedRows, outbox: Outbox, own_changes: OwnChanges, failover: Failover, trail: AuditTrail
    ) -> None:
        self._rows = rows
        self._trail = trail
        self._transactions = rows.transactions
        self._outbox = outbox
        self._own_changes = own_changes
        self._failover = failover

    async def save_refreshed(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        credential: Mapping[str, Any],
        expires_at: datetime | None,
        now: datetime,
        life: Lifespan = NO_EXPIRY,
        previous: str | None = None,
        previous_until: datetime | None = None,
        rotates: bool = False,
        known_row: Connection | None = None,
        note: HistoryNote | None = None,
    ) -> Connection | None:
        """Replace the credential of `version`, and end lease and intent.

        When this method returns, the new credential is on the disk.

        - `previous`: the refresh token that was sent; kept sealed until `previous_until`, None to keep none
        - `rotates`: whether the provider has replaced the refresh token, in this refresh or an earlier one
        - `known_row`: the row from an earlier read; if the row has not changed since, it is not read again. None if
          unknown.
        - `note`: an entry for the history, if the refresh has dropped a part of the credential; else None

        Returns None if the fence refuses the write: the row was deleted or, if `known_row` is given, created again, its
        credential was replaced, or another owner holds the lease.
        """
        own_lease = {**ref_parameters(ref), "known_version": version, "owner": owner}
        entry = _audit_entry(ref, now)
        saved = SavedCredential(ref, version + 1, credential, expires_at, now, life, previous, previous_until, rotates)

        def in_one_trip() -> OneTrip[tuple[Connection, int | None] | None] | None:
            key = self._rows.keys.newest_key(ref.environment)
            if known_row is None or note is not None or key is None:
                return None
            columns, audit_entry = saved.columns(self._rows, known_row.uid), self._trail.entry_if_all_recorded(entry)
            values = {**own_lease, **key, "row_uid": known_row.uid, "known_updated_at": known_row.updated_at}
            return self._statements.save_in_one_trip(
                values, columns, now, saved.row_after(known_row, columns), audit_entry
            )

        async def write(db: AsyncConnection) -> tuple[Connection, int | None] | None:
            row = (await db.execute(SELECT_LEASED, own_lease)).one_or_none()
            if row is None or (known_row is not None and row.uid != known_row.uid):
                return None
            columns = {**CLEARED_COLUMNS, **saved.columns(self._rows, row.uid)}
            connection = await self._save_with_state(db, ref, row, columns, now, entry)
            if note is not None:
                await record_note(db, connection.id, connection.state, note, now=now)
            return connection, None

        result = await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(ref.environment), in_one_trip=in_one_trip
        )
        if result is None:
            return None
        saved_row, change_id = result
        if change_id is not None:
            self._own_changes.record(change_id, saved_row.mark)
        return saved_row

    async def _save_with_state(
        self,
        db: AsyncConnection,
        ref: ConnectionRef,
        row: Row[Any],
        columns: dict[str, Any],
        now: datetime,
        entry: AuditEntry,
    ) -> Connection:
        """Write `columns` into the locked `row`. Also write the row's new state and the event for this change."""
        trigger, reason = StateTrigger.RENEWED, "renewed"
        if row.failure_code == REJECTED:  # only a call shows whether the API accepts the new credential
            trigger, reason = StateTrigger.REPLACED, row.state_reason
            columns = {name: value for name, value in columns.items() if name not in NO_FAILURE}
        state_columns = await record_trigger(db, self._outbox, row, trigger, columns, now=now, reason=reason)
        connection = connection_of({**row._mapping, **state_columns})
        detailed_entry = replace(entry, detail={"now": connection.state.value, "before": row.state})
        await self._trail.record_refresh(db, detailed_entry, state_changed="state" in state_columns)
        await record_change(db, ref, now, is_last=True)
        return connection

    async def record_failure(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        failure: RefreshFailure,
        keep_intent: bool = False,
        former_lease: Lease | None = None,
        keep_lease: bool = False,
        rotates: bool = False,
        trigger: StateTrigger | None = None,
    ) -> Connection | None:
        """Record why the refresh failed, and end the lease. The credential stays.

        Returns None if the fence refuses the write: another owner holds the lease, the row was deleted, or its
        credential was replaced.

        - `keep_intent`: the provider has possibly accepted the token, so the intent stays open
        - `keep_lease`: `owner` keeps the lease, because its machine possibly has the reply
        - `rotates`: whether that reply has a new refresh token, so that no machine sends the stored one again
        - `trigger`: replaces the trigger that follows from `failure`

        `former_lease`: the lease to restore; else None. It is restored only with `keep_intent`. If `owner` has claimed this
        lease from another owner, that owner gets it back, because this attempt sent no token, or because the other
        owner's machine possibly has the reply. If it belongs to `owner` itself, `owner` keeps it, and the write is
        refused if the lease has been renewed.
        """
        state_trigger = trigger or trigger_for_failure(failure.code, final=failure.final)
        new_lease_columns = NO_LEASE if former_lease is None or not keep_intent else lease_columns(former_lease)
        if keep_lease:
            new_lease_columns = {}
        entry = _audit_entry(ref, failure.at)
        columns = failure_columns(failure) | new_lease_columns | ({} if keep_intent else NO_INTENT)
        if rotates:
            columns["rotates"] = True

        async def write(db: AsyncConnection) -> Connection | None:
            own_lease = {**ref_parameters(ref), "known_version": version, "owner": owner}
            row = (await db.execute(SELECT_LEASED_WITH_STATE, own_lease)).one_or_none()
            if row is None:
                return None
            if former_lease is not None and former_lease.owner == owner and row.lease_until != former_lease.until:
                return None
            keep_alive_at = row.keep_alive_at
            if keep_alive_at is not None:  # if no retry is planned, no keep-alive is planned either
                keep_alive_at = max(keep_alive_at, failure.retry_at) if failure.retry_at is not None else None
            values = columns | {"updated_at": failure.at, "keep_alive_at": keep_alive_at}
            reason_fields = {"reason": failure.code, "detail": failure.message}
            state_columns = await record_trigger(
                db, self._outbox, row, state_trigger, values, now=failure.at, **reason_fields
            )
            written_row = await read_written(db, ref)
            detail = {"reason": failure.code, "now": written_row.state.value, "before": row.state}
            failed = replace(entry, outcome="failed", detail=detail)
            await self._trail.record_refresh(db, failed, state_changed="state" in state_columns)
            await record_change(db, ref, failure.at, is_last=True)
            return written_row

        return await self._transactions.write(write)

    async def find_unsettled(self, *, limit: int) -> list[Connection]:
        """Return at most `limit` connections with an open intent and a lease.

        The lease that ends first comes first; reported losses come last.
        """
        rows: list[RowMapping] = []
        async with self._transactions.read() as db:
            for statement in SELECT_OPEN_INTENTS:
                rows += (await db.execute(statement, {"most": limit - len(rows)})).mappings()
        return await self._rows.records(rows)

    async def forget_previous(self, now: datetime) -> None:
        """Remove previous refresh tokens whose grace period is over."""
        expired_update = update(connections).where(connections.c[f"{PREVIOUS_COLUMN}_until"] <= now)
        await self._transactions.write(lambda db: db.execute(expired_update.values(NO_PREVIOUS)))

    @cached_property
    def _statements(self) -> RefreshStatements:
        return RefreshStatements(self._transactions.dialect, timeline=self._failover.sql)

    async def lease_refresh(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        ttl: timedelta,
        known_row: Connection | None = None,
        intent: str | None = None,
        expired_for: timedelta = IMMEDIATELY,
        from_holder: bool = False,
    ) -> bool:
        """Claim the lease to refresh this credential for the time `ttl` (ADR 5). Return whether the claim succeeded.

        The claim is one conditional UPDATE with the database's time.

        - `owner`: names this attempt, not the node
        - `known_row`: the row from an earlier read; the claim succeeds only if the row, its intent and its lease owner
          are unchanged, so the caller need not read the row again. None to skip this check.
        - `intent`: the digest of the refresh token that will be sent; the digest is on the disk when this method
          returns
        - `expired_for`: how long ago another owner's lease must have expired
        - `from_holder`: whether the process that owns the lease in `known_row` is known to be dead, so that its lease
          need not have expired

        If the result is False, read the row again: another owner holds the lease, the row has changed or no longer
        exists, or the database failed over.
        """
        claim, timeline = self._statements.claim, self._failover.timeline
        values: dict[str, Any] = ref_parameters(ref)
        columns: dict[str, Any] = {"lease_owner": owner}
        if self._failover.sql is not None:
            values["timeline"] = timeline
        if known_row is not None:
            claim = self._statements.take_over if from_holder else self._statements.claim_unchanged
            values |= _known_values(known_row)
        if intent is not None:
            columns |= {"intent_digest": intent, "intent_at": _first_claim_at(known_row, intent)}

        async def write(db: AsyncConnection) -> bool:
            return (await execute_last(db, claim, values | columns | times())).rowcount == 1

        def times() -> dict[str, Any]:
            """Return the lease times. Called just before the write, because the write can wait in a queue."""
            lease_times = {"lease_for": self._statements.time_parameter(ttl)}
            return (
                lease_times
                if from_holder
                else lease_times | {"free_for": self._statements.time_parameter(-expired_for)}
            )

        def in_one_trip() -> OneTrip[bool] | None:
            key = self._rows.keys.newest_key(ref.environment)
            if known_row is None or from_holder or key is None:
                return None
            return self._statements.claim_in_one_trip(values | times() | key, columns)

        if intent is None:
            return await self._transactions.write(write)
        # Do not use up a token if its replacement cannot be sealed. A newer data key is noticed only inside the
        # transaction.
        claimed = await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(ref.environment), in_one_trip=in_one_trip
        )
        # after a failover, the database has possibly lost the claim
        return claimed and timeline == self._failover.timeline

    async def extend_lease(self, ref: ConnectionRef, *, owner: str, ttl: timedelta) -> bool:
        """Let the lease end `ttl` from now, even if it has already expired.

        Returns False if another owner holds the lease.
        """

        async def write(db: AsyncConnection) -> bool:
            values = {**ref_parameters(ref), "owner": owner, "lease_for": self._statements.time_parameter(ttl)}
            return (await db.execute(self._statements.extend, values)).rowcount == 1

        return await self._transactions.write(write)

    async def release_lease(
        self, ref: ConnectionRef, *, owner: str, keep_intent: bool = False, former_lease: Lease | None = None
    ) -> None:
        """Release the lease of an attempt that sent no token. Do nothing if another owner holds the lease.

        `keep_intent`: an earlier intent stays open. `former_lease`: the lease that the claim replaced; restored if
        `keep_intent`.
        """
        lease_update = update(connections).where(matches_ref(ref), connections.c.lease_owner == owner)
        new_lease_columns = NO_LEASE if former_lease is None else lease_columns(former_lease)
        await self._rows.update(lease_update.values(new_lease_columns if keep_intent else NO_LEASE | NO_INTENT))

    async def end_lease(self, ref: ConnectionRef, *, owner: str) -> None:
        """Let the owner's lease expire now, but keep its intent open.

        Called when the attempt is over and the token was possibly sent.
        """
        await self.extend_lease(ref, owner=owner, ttl=IMMEDIATELY)


def _audit_entry(ref: ConnectionRef, now: datetime) -> AuditEntry:
    """Return the entry for the audit trail.

    The entry does not name the end user, because the entry for the creation of the connection already does.
    """
    reference = {"integration_id": ref.integration_id, "connection_id": ref.connection_id}
    return AuditEntry.of(AuditAction.CONNECTION_REFRESHED, ref.environment, now, **reference)


def _written_parameters(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that write `columns`."""
    return {_WRITTEN + name: value for name, value in columns.items()}


def _known_values(known_row: Connection) -> dict[str, Any]:
    """Return the parameters with which a claim checks that the row `known_row` has not changed."""
    return {
        "known_version": known_row.version,
        "known_updated_at": known_row.updated_at,
        "known_digest": known_row.intent.digest if known_row.intent is not None else None,
        "known_owner": known_row.lease.owner if known_row.lease is not None else None,
    }


def _first_claim_at(known_row: Connection | None, intent: str) -> datetime:
    """Return when the token with the digest `intent` was first claimed; now if `known_row` has no open intent for it.

    An earlier attempt's reply can be in a journal, sealed under the data key of that time (`rotation.keys_kept_for_replies`).
    """
    open_intent = known_row.intent if known_row is not None else None
    return open_intent.at if open_intent is not None and open_intent.digest == intent else clock.now()
