"""What a node may do now with a connection whose token needs a refresh: one pure function over one transition table.

The table is read from the top; the first row that matches decides. Each combination of facts matches a row, and each row
decides at least one combination (`tests/gateway/refresh/test_decision.py`).
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Node(StrEnum):
    """This node's own state."""

    READY = "ready"
    CLOCK_OFF = "clock_off"
    """Its clock differs from the database's by more than `clock.MOST_OFFSET_S`."""
    RECONCILING = "reconciling"
    """The database failed over: nodes are writing back newer tokens that they have in memory."""


class Lease(StrEnum):
    """The lease of the row, by the time of the database."""

    FREE = "free"
    """No holder. With an open intent: its holder ended it without knowing the outcome, and has no reply."""
    HELD = "held"
    RUN_OUT = "run_out"
    """It has run out, less than `FENCE` ago."""
    LONG_RUN_OUT = "long_run_out"
    """It has run out, `FENCE` ago or longer."""


class Holder(StrEnum):
    """Who holds or held the lease."""

    NOBODY = "nobody"
    HERE_DEAD = "here_dead"
    """A process of this machine whose file lock is gone: it was killed."""
    HERE_ENDED = "here_ended"
    """A process of this machine that removed its file, or an earlier attempt of this process."""
    HERE_ALIVE = "here_alive"
    """A process of this machine that holds its file lock: at work, paused or hung."""
    ELSEWHERE = "elsewhere"
    """A process of another machine, whose refresh journal may contain the reply."""
    WITHOUT_JOURNAL = "without_journal"
    """A process of a machine that keeps no refresh journal: what it received died with it."""


class Step(StrEnum):
    """What to do now."""

    CLAIM = "claim"
    """Claim the lease and send the refresh token: it was not sent before."""
    TAKE_UP = "take_up"
    """Claim the lease from its holder and finish from this machine's journal. Send the token only if nothing is there."""
    SEND_AGAIN = "send_again"
    """Claim the lease and send a token that may be spent: if it is, nobody can have the reply any more."""
    WAIT = "wait"
    """Look at the row again in a moment."""
    DEFER = "defer"
    """Answer callers with 503 and Retry-After until the fence is over: the holder's machine may return."""
    REPORT_LOST = "report_lost"
    """Set `rotation_lost`, leave the intent open, and do not send the token."""
    REFUSE = "refuse"
    """`rotation_lost` is set, and no reply has appeared here."""
    HALT = "halt"
    """Claim nothing: this node's clock is wrong."""


class Facts(NamedTuple):
    """All that the decision depends on."""

    node: Node
    intent: bool
    """Whether an intent is open: the refresh token in the row may have been sent."""
    lease: Lease
    holder: Holder
    recorded: bool
    """Whether this machine's refresh journal contains a reply for the refresh token in the row."""
    rotates: bool
    """Whether the provider is known to replace this connection's refresh token at each refresh."""
    reported: bool
    """Whether `rotation_lost` was set and the intent left open."""


class Rule(NamedTuple):
    """A row of the table. None matches any value, a tuple any of its members."""

    step: Step
    node: Node | None = None
    intent: bool | None = None
    lease: tuple[Lease, ...] | None = None
    holder: tuple[Holder, ...] | None = None
    recorded: bool | None = None
    rotates: bool | None = None
    reported: bool | None = None


TABLE: Final = (
    Rule(Step.HALT, node=Node.CLOCK_OFF),
    Rule(Step.WAIT, node=Node.RECONCILING),
    Rule(Step.TAKE_UP, intent=True, lease=(Lease.HELD,), holder=(Holder.HERE_DEAD,)),
    Rule(Step.WAIT, lease=(Lease.HELD,)),
    Rule(Step.CLAIM, intent=False),
    Rule(Step.TAKE_UP, recorded=True),
    Rule(Step.TAKE_UP, holder=(Holder.HERE_DEAD, Holder.HERE_ENDED)),
    Rule(Step.REFUSE, reported=True),
    Rule(Step.SEND_AGAIN, holder=(Holder.NOBODY,)),
    Rule(Step.DEFER, lease=(Lease.RUN_OUT,)),
    Rule(Step.SEND_AGAIN, holder=(Holder.WITHOUT_JOURNAL,)),
    Rule(Step.REPORT_LOST, rotates=True),
    Rule(Step.SEND_AGAIN),
)


def next_step(facts: Facts) -> Step:
    """The step of the first row in `TABLE` that matches."""
    return next(rule.step for rule in TABLE if matches(rule, facts))


def matches(rule: Rule, facts: Facts) -> bool:
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
    """Whether a row can be so: a free lease has no holder, any other has one; what is not open was not reported."""
    nobody = facts.holder is Holder.NOBODY
    return (facts.lease is Lease.FREE) == nobody and (facts.intent or not facts.reported)
