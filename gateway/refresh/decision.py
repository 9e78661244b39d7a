"""Decides the next step for a connection whose token needs a refresh: one pure function over one table.

The table is read from the top; the first matching row decides. Every combination of facts matches a row, and every row
decides at least one combination (`tests/gateway/refresh/test_decision.py`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Node(StrEnum):
    """This node's own state."""

    READY = "ready"
    CLOCK_OFF = "clock_off"
    """This node's clock differs from the database's by more than `clock.MOST_OFFSET_S`."""
    RECONCILING = "reconciling"
    """The database failed over, and not all processes have written back their newer tokens (`reconciled`)."""


class LeaseState(StrEnum):
    """The lease of the row, by the time of the database."""

    FREE = "free"
    """No holder. If an intent is open, the holder released the lease without knowing the outcome, and has no reply."""
    HELD = "held"
    RUN_OUT = "run_out"
    """It expired less than `FENCE` ago."""
    LONG_RUN_OUT = "long_run_out"
    """It expired `FENCE` ago or longer."""


class Holder(StrEnum):
    """The process that holds or held the lease."""

    NOBODY = "nobody"
    HERE_DEAD = "here_dead"
    """A process of this machine whose file lock is gone: it was killed."""
    HERE_ENDED = "here_ended"
    """A process of this machine that removed its file, or an earlier attempt of this process."""
    HERE_ALIVE = "here_alive"
    """A process of this machine that holds its file lock: working, paused or hung."""
    ELSEWHERE = "elsewhere"
    """A process of another machine, whose refresh journal may contain the reply."""
    WITHOUT_JOURNAL = "without_journal"
    """A process of a machine that keeps no refresh journal: what it received died with it."""


class RefreshStep(StrEnum):
    """The next step of a refresh."""

    CLAIM = "claim"
    """Claim the lease and send the refresh token: it was not sent before."""
    TAKE_UP = "take_up"
    """Claim the lease from its holder and finish from this machine's journal. Send the token only if nothing is
    there."""
    SEND_AGAIN = "send_again"
    """Claim the lease and send a token that may be spent. If it is, no process can get the reply any more."""
    WAIT = "wait"
    """Read the row again in a moment."""
    DEFER = "defer"
    """Refuse callers with 503 and Retry-After until the fence is over: the holder's machine may return."""
    REPORT_LOST = "report_lost"
    """Set `rotation_lost`, leave the intent open, and do not send the token."""
    REFUSE = "refuse"
    """Raise the stored `rotation_lost`: no reply has appeared on this machine."""
    HALT = "halt"
    """Claim nothing: this node's clock is wrong."""


class Facts(NamedTuple):
    """Everything that the decision depends on."""

    node: Node
    intent: bool
    """Whether an intent is open: the refresh token in the row may have been sent."""
    lease: LeaseState
    holder: Holder
    recorded: bool
    """Whether this machine's refresh journal contains a reply for the refresh token in the row."""
    rotates: bool
    """Whether the provider is known to replace this connection's refresh token at each refresh."""
    reported: bool
    """Whether `rotation_lost` was set and the intent left open."""


class DecisionRule(NamedTuple):
    """A row of the table. None matches any value, a tuple any of its members."""

    step: RefreshStep
    node: Node | None = None
    intent: bool | None = None
    lease: tuple[LeaseState, ...] | None = None
    holder: tuple[Holder, ...] | None = None
    recorded: bool | None = None
    rotates: bool | None = None
    reported: bool | None = None


TABLE: Final = (
    DecisionRule(RefreshStep.HALT, node=Node.CLOCK_OFF),
    DecisionRule(RefreshStep.WAIT, node=Node.RECONCILING),
    DecisionRule(RefreshStep.TAKE_UP, intent=True, lease=(LeaseState.HELD,), holder=(Holder.HERE_DEAD,)),
    DecisionRule(RefreshStep.WAIT, lease=(LeaseState.HELD,)),
    DecisionRule(RefreshStep.CLAIM, intent=False),
    DecisionRule(RefreshStep.TAKE_UP, recorded=True),
    DecisionRule(RefreshStep.TAKE_UP, holder=(Holder.HERE_DEAD, Holder.HERE_ENDED)),
    DecisionRule(RefreshStep.REFUSE, reported=True),
    DecisionRule(RefreshStep.SEND_AGAIN, holder=(Holder.NOBODY,)),
    DecisionRule(RefreshStep.DEFER, lease=(LeaseState.RUN_OUT,)),
    DecisionRule(RefreshStep.SEND_AGAIN, holder=(Holder.WITHOUT_JOURNAL,)),
    DecisionRule(RefreshStep.REPORT_LOST, rotates=True),
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
        and (rule.rotates is None or rule.rotates is facts.rotates)
        and (rule.reported is None or rule.reported is facts.reported)
    )


def possible(facts: Facts) -> bool:
    """Return whether the facts can occur: a free lease has no holder, any other has one; only an open intent can be
    reported lost."""
    nobody = facts.holder is Holder.NOBODY
    return (facts.lease is LeaseState.FREE) == nobody and (facts.intent or not facts.reported)


# ── After a failover of the database: when refresh tokens in it may be sent again (ADR 64).

LEAST_S: Final = 5.0
"""Minimum time that nodes have to notice the failover and to send a heartbeat."""
SILENT_S: Final = 30.0
"""A process without a heartbeat for this long counts as dead: as long as a lease lasts."""
MOST_S: Final = 90.0
"""After this time the other nodes continue, as with the lease of a stopped node: lease and fence together."""


class Member(NamedTuple):
    """A process that may have newer tokens than a database that failed over.

    `confirmed`: it has written back its tokens. `silent_s`: seconds since its last heartbeat, counted at most from the
    failover.
    """

    confirmed: bool
    silent_s: float


def reconciled(since_s: float, members: Iterable[Member]) -> bool:
    """Return whether no living process has a newer token than the database shows.

    `since_s`: seconds since the failover was noticed.
    """
    if since_s < LEAST_S:
        return False
    return since_s >= MOST_S or not any(awaited(member) for member in members)


def awaited(member: Member) -> bool:
    return not member.confirmed and member.silent_s < SILENT_S
