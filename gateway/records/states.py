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


class Happening(StrEnum):
    """What can happen to a connection and change its state.

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
    Happening.AUTHORIZED: State.ACTIVE,
    Happening.RENEWED: State.ACTIVE,
    Happening.ACCEPTED: State.ACTIVE,
    Happening.WRITTEN_BACK: State.ACTIVE,
    Happening.REFUSED: State.NEEDS_REAUTH,
    Happening.TAKEN_BACK: State.REVOKED,
    Happening.UNFINISHED: State.INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of a connection's history. `reason` is for programs, `detail` for people; neither holds a secret."""

    at: datetime
    state: State
    reason: str
    detail: str | None = None
    before: State | None = None


def next_state(state: State, happening: Happening) -> State:
    """Return the next state. An outage says nothing about a grant that is known to be gone."""
    if happening is Happening.REPLACED:
        return state
    if happening is Happening.UNAVAILABLE:
        return State.DEGRADED if state is State.ACTIVE else state
    if happening is Happening.REFUSED and state is State.REVOKED:
        return state
    return _ALWAYS[happening]


def happening_for_failure(code: str, *, final: bool) -> Happening:
    """Return the happening that a failure stands for."""
    if not final:
        return Happening.UNAVAILABLE
    return Happening.TAKEN_BACK if code in TAKEN_BACK_CODES else Happening.REFUSED
