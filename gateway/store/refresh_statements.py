"""The statements of a refresh, each built once: building one costs more than running it.

Owner and version are the fence of `refreshes`; their parameters are `seen_version` and `owner`, beside `place`'s.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Interval,
    Text,
    Update,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)

from gateway import clock
from gateway.records.connection import Lifespan
from gateway.records.states import State
from gateway.store.connection_rows import AT, NO_FAILURE, NO_INTENT, NO_LEASE, NO_PREVIOUS, life_columns
from gateway.store.history import BEFORE
from gateway.store.tables import connections
from gateway.store.tables.columns import UtcTime

_WRITTEN: Final = ("version", "credential", "expires_at", "updated_at", "last_refreshed_at", "rotates")
SAVED: Final[dict[str, Any]] = {
    **dict.fromkeys(_WRITTEN),
    **(NO_FAILURE | NO_LEASE | NO_INTENT | NO_PREVIOUS),
    **life_columns(Lifespan()),
}
"""Every column that a save sets."""
_MINE: Final = and_(
    AT, connections.c.version == bindparam("seen_version"), connections.c.lease_owner == bindparam("owner")
)
RENEWED: Final = (
    update(connections)
    .where(
        _MINE,
        connections.c.uid == bindparam("row_uid"),
        connections.c.state == State.ACTIVE.value,
        connections.c.state_since.is_not(None),
    )
    .returning(*connections.c)
)
"""For what changes no state, and so is no news: the row is written and read in one."""
HELD: Final = select(connections).where(_MINE).with_for_update()
HELD_BEFORE: Final = (
    select(*BEFORE, connections.c.keep_alive_at, connections.c.lease_until).where(_MINE).with_for_update()
)
UNSETTLED: Final = (
    select(connections)
    .where(connections.c.lease_until.is_not(None), connections.c.intent_digest.is_not(None))
    .order_by(connections.c.lease_until)
    .limit(bindparam("most"))
)
"""Rows with an open intent under a lease, whether it has run out or not; those that ran out first come first."""


class LeaseStatements:
    """Leases are set and compared by the database's time: on PostgreSQL in SQL, on SQLite, which is this machine's, by `clock`.

    `timeline`: SQL for the name of the history that the database goes by; a claim names the one that this node knows, so
    that none succeeds between a failover and the moment at which this node notices it. None: it is not known.
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
        """Where nobody has the lease, or it ran out `free_for` ago (a negative interval)."""
        self.claim_seen: Final[Update] = claim.where(seen, free)
        """The same, and only while the row, its intent and its holder are as they were seen."""
        self.take: Final[Update] = claim.where(seen)
        """From the holder that was seen, which is known to be dead."""
        mine = update(connections).where(AT, connections.c.lease_owner == bindparam("owner"))
        self.hold: Final[Update] = mine.values(lease_until=self._at("lease_for"))
        """Set the end of a lease. It does not matter whether it has run out meanwhile."""

    def value(self, delta: timedelta) -> timedelta | datetime:
        """What to give for a parameter that means now + `delta`."""
        return delta if self._by_database else clock.now() + delta

    def _at(self, name: str) -> ColumnElement[Any]:
        if not self._by_database:
            return bindparam(name, type_=UtcTime)
        return func.clock_timestamp(type_=DateTime(timezone=True)) + bindparam(name, type_=Interval)
