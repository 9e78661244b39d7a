"""The states of a connection and all transitions. No other code decides the state of a connection.

authorized ──▶ active ──unavailable──▶ degraded ──renewed, accepted──▶ active
                 │  ╲                      │
              refused  unfinished       refused
                 ▼       ▼                 ▼
           needs_reauth  incomplete   needs_reauth

authorized, renewed, accepted and written_back change every state to active. taken_back changes every state to revoked.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """A connection's state.

    - `active`: refreshes succeed
    - `degraded`: the last refresh failed temporarily (a token that is still valid stays in use), or the API rejects one
      call after another
    - `needs_reauth`: the provider refuses refreshes permanently
    - `incomplete`: a setting is missing that the next refresh needs
    - `revoked`: the provider says that the grant was revoked
    """

    ACTIVE = "active"
    DEGRADED = "degraded"
    NEEDS_REAUTH = "needs_reauth"
    INCOMPLETE = "incomplete"
    REVOKED = "revoked"


class StateTrigger(StrEnum):
    """What can happen to a connection and change its state.

    - `authorized`: the end user authorized the connection
    - `renewed`: a refresh succeeded
    - `unavailable`, `refused`, `taken_back`: a refresh failed temporarily, permanently, or because the grant was
      revoked
    - `unfinished`: a setting is missing
    - `accepted`: the API accepts the credential that it rejected before
    - `replaced`: the credential was refreshed after the API had rejected it. The refresh does not prove that the API
      accepts the new credential, because some auth modes sign a token without a request to the provider.
    - `written_back`: a newer token, which the database had lost in a failover, was stored again
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
REJECTED: Final = "rejected_by_api"  # code of a failure: the API, not the token endpoint, rejects the credential
RESTORED: Final = "restored"  # reason of a history entry without a change of state: a backup was restored
# Reason of a history entry: a newer token, which the database had lost in a failover, was stored again. Such an entry
# is added even if the state stays the same.
FAILOVER: Final = "failover"
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


@dataclass(frozen=True, slots=True)
class HistoryNote:
    """An entry for a connection's history that changes no state. `reason`, `detail`: as in `Change`."""

    reason: str
    detail: str


def next_state(state: State, trigger: StateTrigger) -> State:
    """Return the state after `trigger`. A temporary failure changes only an active connection, because it says nothing
    about a grant that the provider has already refused."""
    if trigger is StateTrigger.REPLACED:
        return state
    if trigger is StateTrigger.UNAVAILABLE:
        return State.DEGRADED if state is State.ACTIVE else state
    if trigger is StateTrigger.REFUSED and state is State.REVOKED:
        return state
    return _ALWAYS[trigger]


def trigger_for_failure(code: str, *, final: bool) -> StateTrigger:
    """Return the trigger for a failed refresh. `code`: code of the failure. `final`: whether the provider refused
    permanently."""
    if not final:
        return StateTrigger.UNAVAILABLE
    return StateTrigger.TAKEN_BACK if code in TAKEN_BACK_CODES else StateTrigger.REFUSED
