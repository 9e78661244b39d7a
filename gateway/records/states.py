"""The states of a connection and all transitions. Nothing else decides what state a connection is in.

authorized ──▶ active ──unavailable──▶ degraded ──renewed──▶ active       accepted leads to active too
                 │  ╲                      │
              refused  unfinished       refused
                 ▼       ▼                 ▼
           needs_reauth  incomplete   needs_reauth        authorized, renewed or written_back leads from anywhere to active
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """A connection's state. `active`: refreshes succeed. `degraded`: the last refresh failed temporarily and a token
    that is still valid is used, or the API rejects call after call.

    `needs_reauth`: the provider refuses permanently. `incomplete`: a setting is missing that the next refresh needs.
    `revoked`: the provider says that the grant was revoked.
    """

    ACTIVE = "active"
    DEGRADED = "degraded"
    NEEDS_REAUTH = "needs_reauth"
    INCOMPLETE = "incomplete"
    REVOKED = "revoked"


class StateTrigger(StrEnum):
    """What happens to a connection and may change its state.

    `accepted`: the API accepts the credential that it rejected before. `replaced`: the credential was refreshed while
    the API rejects it, which proves nothing: some modes sign a token without asking the provider.
    """

    AUTHORIZED = "authorized"
    RENEWED = "renewed"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    TAKEN_BACK = "taken_back"
    UNFINISHED = "unfinished"
    ACCEPTED = "accepted"
    REPLACED = "replaced"
    WRITTEN_BACK = "written_back"


TAKEN_BACK_CODES: Final = frozenset({"token_revoked"})
REJECTED: Final = "rejected_by_api"  # the code of a failure: the API rejects the credential, not the token endpoint
RESTORED: Final = "restored"  # reason of a history entry without a change of state: a backup was restored
FAILOVER: Final = "failover"  # likewise: a newer token that the database had lost in a failover was written back
ENDED: Final = frozenset({State.NEEDS_REAUTH, State.REVOKED})
_ALWAYS: Final = {
    StateTrigger.AUTHORIZED: State.ACTIVE,
    StateTrigger.RENEWED: State.ACTIVE,
    StateTrigger.ACCEPTED: State.ACTIVE,
    StateTrigger.WRITTEN_BACK: State.ACTIVE,
    StateTrigger.REFUSED: State.NEEDS_REAUTH,
    StateTrigger.TAKEN_BACK: State.REVOKED,
    StateTrigger.UNFINISHED: State.INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of a connection's history. `reason` is for programs, `detail` for people; neither holds a secret."""

    at: datetime
    state: State
    reason: str
    detail: str | None = None
    before: State | None = None


def next_state(state: State, trigger: StateTrigger) -> State:
    """Return the next state. An outage says nothing about a grant that is known to be gone."""
    if trigger is StateTrigger.REPLACED:
        return state
    if trigger is StateTrigger.UNAVAILABLE:
        return State.DEGRADED if state is State.ACTIVE else state
    if trigger is StateTrigger.REFUSED and state is State.REVOKED:
        return state
    return _ALWAYS[trigger]


def trigger_for_failure(code: str, *, final: bool) -> StateTrigger:
    """Return the trigger that a failure stands for."""
    if not final:
        return StateTrigger.UNAVAILABLE
    return StateTrigger.TAKEN_BACK if code in TAKEN_BACK_CODES else StateTrigger.REFUSED
