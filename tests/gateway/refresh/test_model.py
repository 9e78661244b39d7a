"""The refresh protocol loses no token silently, in any order of steps, crashes and delays.

The model uses the transition table of the gateway.
"""

from collections.abc import Callable, Iterable

import pytest

from gateway.refresh.decision import Facts, Holder, LeaseState, Member, Node, RefreshStep, keeps_intent, next_step
from tests.gateway.refresh.explore import Finding, explore
from tests.gateway.refresh.model import SILENT, SPENT, UNUSED, Model, Restores

TWO_GATEWAYS = {"machines": 2, "kills": 3, "pauses": 1, "cuts": 2}
THREE_GATEWAYS = {"machines": 3, "kills": 2, "pauses": 1, "cuts": 1}


@pytest.mark.parametrize("size", [TWO_GATEWAYS, THREE_GATEWAYS], ids=["two gateways", "three gateways"])
def test_no_spent_token_is_sent_while_its_successor_is_saved_and_no_loss_is_silent(size: dict[str, int]) -> None:
    states, findings = explore(Model(), **size)
    assert not findings, listed(findings)
    assert states > 10_000


def test_second_refresh_is_as_safe_as_the_first() -> None:
    _, findings = explore(Model(last=2), machines=2, kills=1, pauses=1, cuts=1)
    assert not findings, listed(findings)


def test_no_loss_is_silent_if_rotation_is_unknown() -> None:
    """If rotation is unknown, a token that may be spent is sent again after the fence. This is not a fault of the
    protocol.

    Most providers do not rotate tokens, so the token probably works.
    """
    _, findings = explore(Model(rotates=False), machines=2, kills=2, pauses=1, cuts=1)
    assert {finding.what for finding in findings} == {SPENT}


@pytest.mark.parametrize(
    "size",
    [{"machines": 2, "kills": 2, "pauses": 1, "cuts": 1}, {"machines": 3, "kills": 2, "pauses": 0, "cuts": 0}],
    ids=["two gateways", "three gateways"],
)
def test_reply_is_used_after_other_machines_sent_the_token_again(size: dict[str, int]) -> None:
    """The provider refuses a replaced token and keeps the grant, so the reply in a journal stays the newest token.

    The machines that send the token again can be killed too. The row then does not name the machine with the reply.
    """
    states, findings = explore(Model(rotates=False, revokes=False), **size)
    assert {finding.what for finding in findings} == {SPENT}
    assert states > 5_000


def test_no_loss_is_silent_without_a_journal() -> None:
    _, findings = explore(Model(journal=False), machines=2, kills=2, pauses=1, cuts=1)
    assert SILENT not in {finding.what for finding in findings}


# ── A standby that lacks the last commits takes over. Running gateways lose nothing: no token, no reply in a journal,
# and no exchange in progress. A gateway that was killed or paused for too long does not count as running.


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (Model(), {"machines": 2, "kills": 1, "pauses": 1, "cuts": 0, "failovers": 1}),
        (Model(), {"machines": 2, "kills": 1, "pauses": 0, "cuts": 1, "failovers": 1}),
        (Model(), {"machines": 2, "kills": 1, "pauses": 0, "cuts": 0, "failovers": 2}),
        (Model(), {"machines": 3, "kills": 1, "pauses": 0, "cuts": 0, "failovers": 1}),
        (Model(last=2), {"machines": 2, "kills": 1, "pauses": 0, "cuts": 0, "failovers": 1}),
    ],
    ids=["paused", "without a reply", "twice", "three gateways", "second refresh"],
)
def test_no_spent_token_is_sent_after_a_failover_while_a_running_gateway_has_its_successor(
    model: Model, size: dict[str, int]
) -> None:
    states, findings = explore(model, **size)
    assert not findings, listed(findings)
    assert states > 10_000


def after_a_time(_since_s: float, _members: Iterable[Member]) -> bool:
    return True


def while_others_reconcile(facts: Facts) -> RefreshStep:
    return next_step(facts._replace(node=Node.READY))


@pytest.mark.parametrize(
    ("model", "kills"),
    [
        (Model(reconciled=after_a_time), 0),
        (Model(decide=while_others_reconcile), 0),
        (Model(restores=Restores.NOTHING), 0),
        (Model(restores=Restores.UNDER_WAY), 1),
    ],
    ids=["confirmations not waited for", "claimed meanwhile", "claims not restored", "journal not read"],
)
def test_the_model_finds_a_wrong_rule_for_a_failover(model: Model, kills: int) -> None:
    _, findings = explore(model, machines=2, kills=kills, pauses=0, cuts=0, failovers=1)
    assert SPENT in {finding.what for finding in findings}


def no_fence(facts: Facts, step: RefreshStep) -> RefreshStep:
    return RefreshStep.SEND_AGAIN if step is RefreshStep.DEFER else step


def sent_after_the_fence(_facts: Facts, step: RefreshStep) -> RefreshStep:
    return RefreshStep.SEND_AGAIN if step is RefreshStep.REPORT_LOST else step


def never_reported(_facts: Facts, step: RefreshStep) -> RefreshStep:
    return RefreshStep.WAIT if step is RefreshStep.REPORT_LOST else step


def journal_not_read_after_the_report(facts: Facts, step: RefreshStep) -> RefreshStep:
    return RefreshStep.REFUSE if facts.reported else step


def lease_of_a_dead_process_ended_for_everybody(facts: Facts, step: RefreshStep) -> RefreshStep:
    is_dead = facts.intent and facts.lease is LeaseState.RUN_OUT and facts.holder is Holder.ELSEWHERE
    return RefreshStep.SEND_AGAIN if is_dead else step


def held_by_another_machine(facts: Facts) -> bool:
    """The row names only the last holder. The machine that was the holder before it can have the reply."""
    return keeps_intent(facts) and facts.holder is Holder.ELSEWHERE


@pytest.mark.parametrize("rule", [lambda _facts: False, held_by_another_machine], ids=["never", "by the holder"])
def test_the_model_finds_an_intent_that_is_closed_too_early(rule: Callable[[Facts], bool]) -> None:
    model = Model(rotates=False, revokes=False, keeps_intent=rule)
    _, findings = explore(model, machines=2, kills=2, pauses=0, cuts=0)
    assert UNUSED in {finding.what for finding in findings}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (no_fence, SPENT),
        (sent_after_the_fence, SPENT),
        (lease_of_a_dead_process_ended_for_everybody, SPENT),
        (never_reported, SILENT),
        (journal_not_read_after_the_report, UNUSED),
    ],
)
def test_the_model_finds_a_wrong_decision_table(change: Callable[[Facts, RefreshStep], RefreshStep], what: str) -> None:
    model = Model(decide=lambda facts: change(facts, next_step(facts)))
    _, findings = explore(model, machines=2, kills=2, pauses=1, cuts=0)
    assert what in {finding.what for finding in findings}


def listed(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.what}:\n  " + "\n  ".join(finding.trace) for finding in findings)
