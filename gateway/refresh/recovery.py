"""Takes up refreshes that another process began and did not finish: an intent that is still open under a lease.

The lease of a process of this machine that is known to be dead is claimed from it at once. Where its answer had come already,
the reply is found in the journal. Where the provider had not accepted the token yet, or still takes it for a grace time, sending
it again brings a new pair. Where it refuses, or where another machine may have the answer, the rotation is lost, and the
connection says so (`rotation_lost`) until that machine returns with the answer. `gateway.refresh.decision` decides.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gateway import clock
from gateway.errors import GatewayError
from gateway.records.connection import Connection
from gateway.records.states import State
from gateway.refresh import backoff
from gateway.refresh.decision import RefreshStep
from gateway.refresh.refresher import Refresher
from gateway.store import Store
from gateway.store.cluster import process_of

EVERY_S: Final = 5.0
AT_ONCE: Final = 100
MOST: Final = 1000  # rows looked at; those that others are at come last
UNFINISHED: Final = frozenset({RefreshStep.TAKE_UP, RefreshStep.SEND_AGAIN, RefreshStep.REPORT_LOST})

log = structlog.get_logger(__name__)


async def recover(store: Store, refresher: Refresher, release: Callable[[str], None]) -> None:
    """Look for them now and then, for as long as the gateway runs; the lease sees to it that one node does each.

    `release` has our journal's writer release an attempt.
    """
    while True:
        try:
            for row in await unfinished(store, refresher, release):
                log.info("refresh_taken_up", connection_id=row.ref.connection_id, integration=row.ref.integration_id)
                refresher.start(row, force=True)
        except GatewayError as fault:
            log.warning("recovery_failed", detail=fault.message)
        except OSError as fault:  # of the journal's folder, which may be writable again later
            log.warning("recovery_failed", detail=str(fault))
        await asyncio.sleep(EVERY_S)


async def unfinished(store: Store, refresher: Refresher, release: Callable[[str], None]) -> list[Connection]:
    """What this node may go on with now, AT_ONCE at most: by the database, and by journals that dead processes left here."""
    by_lease = await store.refreshes.unsettled(most=MOST)
    holding = {process_of(row.lease) for row in by_lease if row.lease is not None}
    by_journal = await store.journal.sweep(store.connections.get, release, holding, store.failover.unchanged)
    rows = {row.ref: row for row in (*by_lease, *by_journal) if not refresher.under_way(row.ref)}
    found: list[Connection] = []
    for row in rows.values():
        if len(found) < AT_ONCE and not _postponed(row) and await refresher.next_step(row) in UNFINISHED:
            found.append(row)
    return found


def _postponed(row: Connection) -> bool:
    """Whether it was taken up, and failed for a reason of ours: a setting is missing, and nothing was asked."""
    return row.state is State.INCOMPLETE and not backoff.may_try(row, clock.now())
