"""Restores the claims of refreshes that a database failover lost, and finishes refreshes of dead processes."""

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.errors import GatewayError
from gateway.generation import CurrentGeneration
from gateway.journal.reader import OpenRecord
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.states import State
from gateway.refresh import backoff, decision
from gateway.refresh.decision import Holder, RefreshStep
from gateway.refresh.refresher import Refresher
from gateway.refresh.save_tokens import LEASE, lease_ran_out, token_digest
from gateway.store import Store
from gateway.store.cluster import process_of
from gateway.store.failover import Claim
from gateway.store.journal_recovery import JournalUnreadable

# ── After a failover, restores the claims that the database lost, so that other nodes do not send the same tokens.
#
# The standby database that took over might lack an intent, so that a row looks as if its refresh token was never sent.
# A process still knows the intent if it runs the refresh itself, or if this machine's journal records a call of that
# refresh. The process then restores the intent and the lease in the row, and the protocol continues as before.
# `gateway.connections.cache` has already restored the tokens. The model of the protocol has the same rules
# (`tests/gateway/refresh/model.py`).

HOLDERS_HERE: Final = frozenset({Holder.HERE_ALIVE, Holder.HERE_DEAD, Holder.HERE_ENDED})
READ_AGAIN_S: Final = 0.5
MAX_TRIES: Final = 5  # maximum number of attempts to claim a row that other processes change at the same time

log = structlog.get_logger(__name__)


async def reconcile(store: Store) -> None:
    """Restore this process's claims in the database, and confirm this to the other processes. Raises GatewayError.

    The caller has already written back the tokens of this process.
    """
    await store.failover.adopt_timeline()
    if store.failover.has_failed_over or store.failover.pending:
        await _restore_claims(store)
    await store.failover.confirm()


async def _restore_claims(store: Store) -> None:
    for owner, claim in list(store.failover.claims.items()):
        await _restore_claim(store, owner, claim)
    while await _restore_journalled_claims(store) and 0 < store.failover.pending_s < decision.SILENT_S:
        await clock.sleep(READ_AGAIN_S)


async def _restore_claim(store: Store, owner: str, claim: Claim) -> None:
    """Restore the claim of a refresh that this process runs."""
    for _ in range(MAX_TRIES):
        row = await store.connections.get(claim.row.ref)
        if row is None or (row.uid, row.version) != (claim.row.uid, claim.row.version):
            return
        if row.lease is not None and (row.lease.owner == owner or lease_ran_out(claim)):
            return
        if await _claim_lease(store, row, owner, LEASE):
            if owner not in store.failover.claims:  # the refresh ended meanwhile and has stored its outcome
                keep_intent = row.intent is not None
                await store.refreshes.release_lease(
                    row.ref, owner=owner, keep_intent=keep_intent, former_lease=row.lease
                )
            return


async def _restore_journalled_claims(store: Store) -> bool:
    """Restore the claims of refreshes that the journal records.

    Return whether a record belongs to a newer version of a credential than the database has. Another process might
    still write back that version.
    """
    has_newer_record = False
    own_claims = {(claim.row.uid, claim.row.version) for claim in store.failover.claims.values()}
    for ref, uid, version, responded in await store.journal.calls():
        row = await store.connections.get(ref)
        if row is None or row.uid != uid:
            continue
        has_newer_record = has_newer_record or version > row.version
        is_lost = version == row.version and (uid, version) not in own_claims and await _is_lost(store, row, responded)
        if is_lost and await _is_open(store, uid, version):
            owner = await store.holders.new_owner()
            await _claim_lease(store, row, owner, timedelta(0))
    return has_newer_record


async def _is_lost(store: Store, row: Connection, responded: bool) -> bool:
    """Return whether the database has lost the claim of a recorded call.

    The claim is lost if the intent is missing, or if the call has a reply but no process of this machine holds the
    lease.
    """
    if row.failure is not None and row.failure.final:
        return False
    return row.intent is None or (responded and await store.holders.holder_of(row.lease) not in HOLDERS_HERE)


async def _is_open(store: Store, uid: str, version: int) -> bool:
    """Return whether a call with this version of the credential is still in the journal.

    The caller reads the row first, because after a refusal a process releases the record before it updates the row.
    """
    return any((row, recorded_version) == (uid, version) for _, row, recorded_version, _ in await store.journal.calls())


async def _claim_lease(store: Store, row: Connection, owner: str, ttl: timedelta) -> bool:
    intent = token_digest(store, row)
    claimed = await store.refreshes.lease_refresh(
        row.ref, owner=owner, ttl=ttl, known_row=row, intent=intent, from_holder=True
    )
    if claimed:
        connection_fields = {"connection_id": row.ref.connection_id, "integration": row.ref.integration_id}
        log.warning("refresh_claim_restored", environment=row.ref.environment, **connection_fields)
    return claimed


# ── Finishes refreshes that another process started and did not finish. Such a refresh has an open intent and a lease.
#
# If the holder was a process of this machine and is dead, its lease is claimed immediately. If the provider had
# replied, the journal has the reply. Otherwise the token is sent again. The provider returns a new pair if it had not
# received the token, or still accepts it for a grace period. If the provider refuses the token, or if another machine
# might have the reply, the connection gets `rotation_lost`. If that machine returns with the reply, the connection
# recovers, because the intent stays open. `gateway.refresh.decision` decides about each case.

EVERY_S: Final = 5.0
MAX_CONNECTIONS: Final = 100
MAX_EXAMINED_ROWS: Final = 1000  # maximum number of rows examined; rows that other processes refresh now come last
NEVER: Final = datetime.min.replace(tzinfo=UTC)
UNFINISHED_STEPS: Final = frozenset({RefreshStep.TAKE_UP, RefreshStep.SEND_AGAIN, RefreshStep.REPORT_LOST})


async def recover(
    store: Store, refresher: Refresher, release: Callable[[str], None], current: CurrentGeneration
) -> None:
    """Find and finish unfinished refreshes, every `EVERY_S` seconds until the gateway stops.

    The lease ensures that only one node finishes each refresh. `release`: makes this process's journal writer release
    the records of an attempt. After a reload, refreshes that failed before are tried again immediately: a corrected
    catalog entry can read a recorded reply that the former entry could not read.
    """
    tried_at: dict[ConnectionRef, datetime] = {}
    generation = current.generation
    while True:
        if current.generation is not generation:
            generation = current.generation
            tried_at.clear()
        try:
            for row in await find_unfinished(store, refresher, release, tried_at):
                log.info("refresh_taken_up", connection_id=row.ref.connection_id, integration=row.ref.integration_id)
                tried_at[row.ref] = clock.now()
                refresher.start(row, force=True)
        except Exception as fault:  # noqa: BLE001 (the next run may succeed, and this task must not end)
            _log_failure(fault)
        await asyncio.sleep(EVERY_S)


async def find_unfinished(
    store: Store,
    refresher: Refresher,
    release: Callable[[str], None],
    tried_at: MutableMapping[ConnectionRef, datetime] | None = None,
) -> list[Connection]:
    """Return up to `MAX_CONNECTIONS` connections with an unfinished refresh that this node may finish now.

    The connections come from the database and from this machine's journal. `tried_at`: when the caller last started the
    refresh of a connection; finished refreshes are removed. Refreshes that were not tried come first, so that those
    that fail again and again do not keep them waiting.
    """
    rows = {row.ref: row for row in await _find_open(store, release)}
    tried_at = {} if tried_at is None else tried_at
    for ref in tried_at.keys() - rows.keys():
        del tried_at[ref]
    connections: list[Connection] = []
    # Read the journal once for all rows. There can be many, because a row with a reported loss stays unfinished. Each
    # refresh reads the journal again.
    records: Sequence[OpenRecord] | None = ()
    unreadable: JournalUnreadable | None = None
    try:
        records = await store.journal.open_records() if rows else ()
    except JournalUnreadable as fault:
        records, unreadable = None, fault  # some rows do not need the journal
    for row in sorted(rows.values(), key=lambda row: tried_at.get(row.ref, NEVER)):
        if len(connections) >= MAX_CONNECTIONS:
            break
        if refresher.is_refreshing(row.ref) or not refresher.has_entry(row):
            continue
        try:
            step = await refresher.next_step(row, records)
        except JournalUnreadable as fault:  # the journal, or the encryption key of this row's reply, is missing now
            unreadable = fault
        except Exception as fault:  # noqa: BLE001 (the refreshes of other connections must not wait for this one)
            _log_failure(fault)
        else:
            if step in UNFINISHED_STEPS and not _is_postponed(row, step, tried_at.get(row.ref)):
                connections.append(row)
    if unreadable is not None:
        _log_failure(unreadable)
    return connections


async def _find_open(store: Store, release: Callable[[str], None]) -> list[Connection]:
    """Return the connections with an open intent that a process of any machine has claimed or journalled.

    Remove from the journal what is not needed.
    """
    by_lease = await store.refreshes.find_unsettled(limit=MAX_EXAMINED_ROWS)
    holding_processes = {process_of(row.lease) for row in by_lease if row.lease is not None}
    try:
        by_journal = await store.journal.sweep(
            store.connections.get, release, holding_processes, store.failover.is_unchanged
        )
    except Exception as fault:  # noqa: BLE001 (for example, a file cannot be removed)
        _log_failure(fault)
        by_journal = []
    return [*by_lease, *by_journal]


def _log_failure(fault: Exception) -> None:
    """Log why the recovery failed, with a traceback if the cause is possibly a bug.

    An OSError is no bug: the journal's folder cannot be read or written now.
    """
    is_expected = isinstance(fault, GatewayError | OSError)
    cause = fault.__cause__ if isinstance(fault, JournalUnreadable) else None
    log.warning("recovery_failed", detail=str(cause or fault), exc_info=None if is_expected else fault)


def _is_postponed(row: Connection, step: RefreshStep, tried_at: datetime | None) -> bool:
    """Return whether to retry later, because the last attempt failed.

    There are three cases: a setting was missing, so the attempt sent no request; the token was sent again without
    success, and the journal has a reply that cannot be read; or the attempt that this process started at `tried_at` has
    failed, for example because a recorded reply could not be used.
    """
    failed_since_try = tried_at is not None and row.failure is not None and row.failure.at >= tried_at
    failed = failed_since_try or row.state is State.INCOMPLETE or step is RefreshStep.SEND_AGAIN
    return failed and not backoff.may_try(row, clock.now())
