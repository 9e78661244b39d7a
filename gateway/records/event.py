"""Events: what is sent to the customer's application, and how its delivery stands."""

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
    """The events that can happen to a connection, once for each change."""

    CREATED = "connection.created"
    CREATION_FAILED = "connection.creation_failed"
    DEGRADED = "connection.degraded"
    RECOVERED = "connection.recovered"
    NEEDS_REAUTH = "connection.needs_reauth"
    RECONNECTED = "connection.reconnected"
    DELETED = "connection.deleted"
    EXPIRING = "connection.expiring"


class DeliveryState(StrEnum):
    """`dead`: given up after a day, or because the receiver says that it is gone. Kept, and can be replayed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


OPERATIONS: Final[Mapping[Event, str]] = {
    Event.CREATED: "creation",
    Event.CREATION_FAILED: "creation",
    Event.RECONNECTED: "override",
    Event.DELETED: "deletion",
}
"""The words of docs/compatibility.md#events, with one of ours for a deletion; all others are of a ``refresh``."""

FAILURES: Final = frozenset({Event.DEGRADED, Event.NEEDS_REAUTH, Event.CREATION_FAILED})

AUTHORIZED: Final = frozenset({Event.CREATED, Event.RECONNECTED})
NO_REFRESH_TOKEN: Final = "no_refresh_token"  # noqa: S105 (the type of a warning)


def of_change(before: State | None, after: State) -> Event | None:
    """Return the event for the step from one state to the next; None for a step that has no event.

    Three things matter to it: refreshes go well, they fail in passing, or somebody must act. A step between two states of
    the last kind is no news. `before` None: the connection is new.
    """
    if before is None:
        return Event.CREATED
    if _kind(before) == _kind(after):
        return None
    return {State.ACTIVE: Event.RECOVERED, State.DEGRADED: Event.DEGRADED}.get(after, Event.NEEDS_REAUTH)


def _kind(state: State) -> State:
    return state if state in {State.ACTIVE, State.DEGRADED} else State.NEEDS_REAUTH


@dataclass(frozen=True, slots=True)
class Content:
    """An event as it is stored. `facts`: see `store.outbox`; `sealed`: a provider's webhook, opened."""

    at: datetime
    environment: str
    integration_id: str
    provider: str
    event: str
    facts: Mapping[str, Any]
    received: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event on its way to one address. `message_id` stays the same however often it is sent (``webhook-id``).

    `target` is ``primary``, ``secondary`` or, where a connection overrides these, an address. `status` and `detail`: of the
    last attempt.
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
    """The outcome of an attempt. `due_at` is set where it is to be tried again."""

    state: DeliveryState
    status: int | None = None
    detail: str | None = None
    due_at: datetime | None = None
