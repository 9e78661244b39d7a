"""The statements of a refresh, each put together once: to make one anew costs more than to run it.

Owner and version are the fence of `refreshes`; their parameters are `seen_version` and `owner`, beside `place`'s.
"""

from typing import Any, Final

from sqlalchemy import and_, bindparam, or_, select, update

from gateway.records.connection import Lifespan
from gateway.records.states import State
from gateway.store.connection_rows import AT, NO_FAILURE, NO_INTENT, NO_LEASE, NO_PREVIOUS, life_columns
from gateway.store.history import BEFORE
from gateway.store.tables import connections

_WRITTEN: Final = ("version", "credential", "expires_at", "updated_at", "last_refreshed_at")
SAVED: Final[dict[str, Any]] = {
    **dict.fromkeys(_WRITTEN),
    **(NO_FAILURE | NO_LEASE | NO_INTENT | NO_PREVIOUS),
    **life_columns(Lifespan()),
}
"""Every column that a save sets."""
_FREE: Final = or_(connections.c.lease_until.is_(None), connections.c.lease_until <= bindparam("claimed_at"))
CLAIM: Final = update(connections).where(AT, _FREE)
CLAIM_SEEN: Final = CLAIM.where(
    connections.c.version == bindparam("seen_version"),
    connections.c.updated_at == bindparam("seen_updated_at"),
    connections.c.intent_digest.is_not_distinct_from(bindparam("seen_digest")),
)
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
HELD_BEFORE: Final = select(*BEFORE, connections.c.keep_alive_at).where(_MINE).with_for_update()
