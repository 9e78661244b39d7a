"""What a connection that moves in brings along besides its credential: its dates and its state."""

from dataclasses import dataclass
from datetime import datetime

from gateway.records.connection import Lifespan, RefreshFailure
from gateway.records.states import State

MOVED = "moved_in"  # the reason of the entry with which its history begins here


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """None: not known, so it is as storing it makes it. `state` None: active, whatever else is said."""

    created_at: datetime | None = None
    granted_at: datetime | None = None
    last_refreshed_at: datetime | None = None
    last_fetched_at: datetime | None = None
    state: State | None = None
    state_reason: str | None = None
    state_since: datetime | None = None
    failure: RefreshFailure | None = None
    life: Lifespan | None = None
