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
    """The events of a connection, one for each change."""

    CREATED = "connection.created"
    CREATION_FAILED = "connection.creation_failed"
    DEGRADED = "connection.degraded"
    RECOVERED = "connection.recovered"
    NEEDS_REAUTH = "connection.needs_reauth"
    RECONNECTED = "connection.reconnected"
    DELETED = "connection.deleted"
    EXPIRING = "connection.expiring"


class DeliveryState(StrEnum):
    """The state of a delivery. `dead`: stopped after a day, or because the receiver is gone; it can still be
    replayed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


OPERATIONS: Final[Mapping[Event, str]] = {
    Event.CREATED: "creation",
    Event.CREATION_FAILED: "creation",
    Event.RECONNECTED: "override",
    Event.DELETED: "deletion",
}
"""Operation names of docs/compatibility.md#events, plus our own for a deletion; all other events are ``refresh``."""

FAILURES: Final = frozenset({Event.DEGRADED, Event.NEEDS_REAUTH, Event.CREATION_FAILED})

AUTHORIZED: Final = frozenset({Event.CREATED, Event.RECONNECTED})
NO_REFRESH_TOKEN: Final = "no_refresh_token"  # noqa: S105 (the type of a warning)


def event_for_change(before: State | None, after: State) -> Event | None:
    """Return the event for the step from one state to the next; None for a step that has no event.

    Events distinguish three kinds of states: refreshes succeed, refreshes fail temporarily, or somebody must act. A
    step between two states in which somebody must act has no event. `before` None: the connection is new.
    """
    if before is None:
        return Event.CREATED
    if _event_kind(before) == _event_kind(after):
        return None
    return {State.ACTIVE: Event.RECOVERED, State.DEGRADED: Event.DEGRADED}.get(after, Event.NEEDS_REAUTH)


def _event_kind(state: State) -> State:
    return state if state in {State.ACTIVE, State.DEGRADED} else State.NEEDS_REAUTH


@dataclass(frozen=True, slots=True)
class EventContent:
    """The content of a stored event. `facts`: see `store.outbox`; `received`: a provider's webhook, decrypted."""

    at: datetime
    environment: str
    integration_id: str
    provider: str
    event: str
    facts: Mapping[str, Any]
    received: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an event to one URL. `message_id` is the same for every attempt (``webhook-id``).

    `target`: ``primary``, ``secondary``, or a URL if the connection overrides these. `status` and `detail` describe
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
    """The outcome of an attempt. `due_at`: when to try again, if at all."""

    state: DeliveryState
    status: int | None = None
    detail: str | None = None
    due_at: datetime | None = None
