"""Events: what the customer's application receives, and the state of each delivery."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gateway.records.states import State

PRIMARY: Final = "primary"
SECONDARY: Final = "secondary"
FORWARD: Final = "forward"


class Event(StrEnum):
    """The events about a connection."""

    CREATED = "connection.created"
    CREATION_FAILED = "connection.creation_failed"
    DEGRADED = "connection.degraded"
    RECOVERED = "connection.recovered"
    NEEDS_REAUTH = "connection.needs_reauth"
    RECONNECTED = "connection.reconnected"
    DELETED = "connection.deleted"
    EXPIRING = "connection.expiring"


class DeliveryState(StrEnum):
    """The state of a delivery. ``dead``: the gateway gave up after a day, because the receiver responded with 410, or
    because the target's URL is no longer configured. An operator can still replay the event."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


OPERATIONS: Final[Mapping[Event, str]] = {
    Event.CREATED: "creation",
    Event.CREATION_FAILED: "creation",
    Event.RECONNECTED: "override",
    Event.DELETED: "deletion",
}
"""Event ▸ its member `operation` (docs/compatibility.md#events). ``deletion`` is an addition of this gateway. All other
events have the operation ``refresh``."""

FAILURES: Final = frozenset({Event.DEGRADED, Event.NEEDS_REAUTH, Event.CREATION_FAILED})

AUTHORIZED: Final = frozenset({Event.CREATED, Event.RECONNECTED})
NO_REFRESH_TOKEN: Final = "no_refresh_token"  # noqa: S105 (the type of a warning)


def event_for_change(old_state: State | None, new_state: State) -> Event | None:
    """Return the event for a change of state; None if the change has no event. `old_state` None: the connection is new.

    Events distinguish three situations: refreshes succeed, refreshes fail temporarily, or somebody must act. A change
    between two states in which somebody must act has no event.
    """
    if old_state is None:
        return Event.CREATED
    if _event_kind(old_state) == _event_kind(new_state):
        return None
    return {State.ACTIVE: Event.RECOVERED, State.DEGRADED: Event.DEGRADED}.get(new_state, Event.NEEDS_REAUTH)


def _event_kind(state: State) -> State:
    return state if state in {State.ACTIVE, State.DEGRADED} else State.NEEDS_REAUTH


@dataclass(frozen=True, slots=True)
class EventContent:
    """The content of a stored event. `facts`: the data about the connection, as `store.outbox` writes it. `received`:
    the decrypted webhook of a provider; empty for the gateway's own events."""

    at: datetime
    environment: str
    integration_id: str
    provider: str
    event: str
    facts: Mapping[str, Any]
    received: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an event to one URL. `message_id`: the header ``webhook-id``, the same for every attempt.

    `target`: ``primary`` or ``secondary``, or a URL if the connection overrides both. `status` and `detail` describe
    the last attempt.
    """

    id: int
    outbox_id: int
    message_id: str
    event: str
    at: datetime
    environment: str
    integration_id: str
    connection_id: str | None
    target: str
    state: DeliveryState
    attempts: int
    due_at: datetime | None
    give_up_at: datetime
    status: int | None = None
    detail: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The outcome of an attempt. `due_at`: when to try again; None: no further attempt."""

    state: DeliveryState
    status: int | None = None
    detail: str | None = None
    due_at: datetime | None = None
