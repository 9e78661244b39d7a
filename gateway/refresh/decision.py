"""Decides the next step of a refresh: the pure function `next_step` looks up the step in the table `TABLE`.

The function reads the table from the top, and the first matching row decides. Every combination of facts matches a row,
and every row decides at least one combination (`tests/gateway/refresh/test_decision.py`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Node(StrEnum):
    """This node's own state."""

    READY = "ready"
    CLOCK_OFF = "clock_off"
    """This node's clock differs from the database's by more than `clock.MAX_OFFSET_S`."""
    RECONCILING = "reconciling"
    """The database failed over, and some processes have not written back their newer tokens (`may_refresh_again`)."""


class LeaseState(StrEnum):
    """The state of a connection's lease at the current time of the database."""

    FREE = "free"
    """No process holds the lease. If an intent is open, the holder released the lease without a reply from the
    provider, so the outcome of the refresh is unknown."""
    HELD = "held"
    RUN_OUT = "run_out"
    """The lease expired less than `protocol.FENCE` ago. An outage of the database since then does not count."""
    LONG_RUN_OUT = "long_run_out"
    """The lease expired at least `protocol.FENCE` ago."""


class Holder(StrEnum):
    """The process that holds the lease, or held the lease last."""

    NOBODY = "nobody"
    HERE_DEAD = "here_dead"
    """A process of this machine that was killed: its lock file exists, but the lock is gone."""
    HERE_ENDED = "here_ended"
    """A process of this machine that ended and removed its lock file, or an earlier attempt of this process."""
    HERE_ALIVE = "here_alive"
    """A process of this machine that still locks its lock file: the process works, is paused or hangs."""
    ELSEWHERE = "elsewhere"
    """A process of another machine. The refresh journal of that machine might contain the reply."""
    WITHOUT_JOURNAL = "without_journal"
    """A process of a machine without a refresh journal. A reply that the process received is lost when the process
    ends."""


class TokenRotation(StrEnum):
    """Whether the provider replaces this connection's refresh token at each refresh."""

    KNOWN = "known"
    """The catalog says so, or an earlier refresh has replaced the token."""
    UNKNOWN = "unknown"
    NONE = "none"
    """The catalog says that refresh tokens stay the same (``refresh.rotating: false``), or the refresh sends none."""


class RefreshStep(StrEnum):
    """The next step of a refresh."""

    CLAIM = "claim"
    """Claim the lease and send the refresh token, which was not sent before."""
    TAKE_UP = "take_up"
    """Claim the lease from its holder and finish the refresh with the reply in this machine's journal. Send the token
    only if the journal has no reply."""
    SEND_AGAIN = "send_again"
    """Claim the lease and send a token that might be spent. If the provider refuses the token, the intent can stay open
    for another machine that might have the reply (`keeps_intent`)."""
    WAIT = "wait"
    """Read the row again in a moment."""
    DEFER = "defer"
    """Refuse callers with 503 and Retry-After until `protocol.FENCE` is over, because the holder's machine can return
    until then."""
    REPORT_LOST = "report_lost"
    """Set `rotation_lost`, leave the intent open, and do not send the token."""
    REFUSE = "refuse"
    """Raise the stored error `rotation_lost`, because this machine still has no reply."""
    HALT = "halt"
    """Claim nothing: this node's clock is wrong."""


class Facts(NamedTuple):
    """All facts that the next step depends on."""

    node: Node
    intent: bool
    """Whether an intent is open. The refresh token in the row might then have been sent."""
    lease: LeaseState
    holder: Holder
    recorded: bool
    """Whether this machine's refresh journal contains a reply for the refresh token in the row."""
    rotation: TokenRotation
    shared: bool
    """Whether gateways on several machines can use the database."""
    reported: bool
    """Whether `rotation_lost` is stored and the intent is still open: the token was not sent, or it was refused and
    another machine might have the reply."""


class DecisionRule(NamedTuple):
    """A row of the table: a step, and the facts that the step requires.

    None matches any value. A tuple matches each of its members.
    """

    step: RefreshStep
    node: Node | None = None
    intent: bool | None = None
    lease: tuple[LeaseState, ...] | None = None
    holder: tuple[Holder, ...] | None = None
    recorded: bool | None = None
    rotation: TokenRotation | None = None
    reported: bool | None = None


TABLE: Final = (
    DecisionRule(RefreshStep.HALT, node=Node.CLOCK_OFF),
    DecisionRule(RefreshStep.WAIT, node=Node.RECONCILING),
    DecisionRule(RefreshStep.TAKE_UP, intent=True, lease=(LeaseState.HELD,), holder=(Holder.HERE_DEAD,)),
    DecisionRule(RefreshStep.WAIT, lease=(LeaseState.HELD,)),
    DecisionRule(RefreshStep.CLAIM, intent=False),
    DecisionRule(RefreshStep.TAKE_UP, recorded=True),
    DecisionRule(RefreshStep.TAKE_UP, holder=(Holder.HERE_DEAD, Holder.HERE_ENDED)),
    DecisionRule(RefreshStep.SEND_AGAIN, holder=(Holder.NOBODY,)),
    DecisionRule(RefreshStep.REFUSE, reported=True),
    DecisionRule(RefreshStep.DEFER, lease=(LeaseState.RUN_OUT,)),
    DecisionRule(RefreshStep.SEND_AGAIN, holder=(Holder.WITHOUT_JOURNAL,)),
    DecisionRule(RefreshStep.REPORT_LOST, rotation=TokenRotation.KNOWN),
    DecisionRule(RefreshStep.SEND_AGAIN),
)


def next_step(facts: Facts) -> RefreshStep:
    """Return the step of the first row in `TABLE` that matches."""
    return next(rule.step for rule in TABLE if matches(rule, facts))


def matches(rule: DecisionRule, facts: Facts) -> bool:
    return (
        (rule.node is None or rule.node is facts.node)
        and (rule.intent is None or rule.intent is facts.intent)
        and (rule.lease is None or facts.lease in rule.lease)
        and (rule.holder is None or facts.holder in rule.holder)
        and (rule.recorded is None or rule.recorded is facts.recorded)
        and (rule.rotation is None or rule.rotation is facts.rotation)
        and (rule.reported is None or rule.reported is facts.reported)
    )


def is_possible(facts: Facts) -> bool:
    """Return whether the facts can occur together.

    A free lease has no holder, and every other lease has a holder. Only an open intent can be reported as lost.
    """
    has_no_holder = facts.holder is Holder.NOBODY
    return (facts.lease is LeaseState.FREE) == has_no_holder and (facts.intent or not facts.reported)


def keeps_intent(facts: Facts) -> bool:
    """Return whether the intent stays open if the provider refuses a token that an earlier attempt has sent.

    The journal of another machine might have the only copy of the new token. The row need not name this machine: it
    names only the process that claimed the lease last. When the machine returns, it uses the reply, because the intent
    is open. If this machine's journal has a reply, the attempt has already used it, in vain, and the intent is closed,
    so that the attempt is not repeated forever.
    """
    return facts.intent and facts.shared and not facts.recorded and facts.rotation is not TokenRotation.NONE


# ── After a failover of the database, `may_refresh_again` decides when nodes may send refresh tokens again (ADR 64).

MIN_WAIT_S: Final = 5.0
"""Minimum time for nodes to notice the failover and to send a heartbeat, in seconds."""
SILENT_S: Final = 30.0
"""A process without a heartbeat for this many seconds is considered dead. A lease lasts equally long."""
MAX_WAIT_S: Final = 90.0
"""After this many seconds, nodes stop waiting for other processes. This is a lease plus `protocol.FENCE`, the same time
as for a stopped node that holds a lease."""


class Member(NamedTuple):
    """A process that might have newer tokens than the database after a failover.

    `confirmed`: whether the process has written back its tokens. `silent_s`: seconds since its last heartbeat or since
    the failover, whichever is shorter.
    """

    confirmed: bool
    silent_s: float


def may_refresh_again(since_s: float, members: Iterable[Member]) -> bool:
    """Return whether nodes may send refresh tokens again.

    They may if the database has the newest tokens of all running processes, or after `MAX_WAIT_S` seconds. `since_s`:
    seconds since the failover was noticed.
    """
    if since_s < MIN_WAIT_S:
        return False
    return since_s >= MAX_WAIT_S or not any(is_awaited(member) for member in members)


def is_awaited(member: Member) -> bool:
    return not member.confirmed and member.silent_s < SILENT_S
