"""The transition table decides every combination of facts, uses each of its rows, and keeps its invariants."""

from itertools import product

import pytest

from gateway.refresh.decision import (
    MAX_WAIT_S,
    MIN_WAIT_S,
    SILENT_S,
    TABLE,
    Facts,
    Holder,
    LeaseState,
    Member,
    Node,
    RefreshStep,
    TokenRotation,
    is_possible,
    keeps_intent,
    matches,
    may_refresh_again,
    next_step,
)
from gateway.refresh.protocol import FENCE
from gateway.refresh.save_tokens import LEASE, TOKEN_CALL_S

BOTH = (False, True)
ALL = [Facts(*values) for values in product(Node, BOTH, LeaseState, Holder, BOTH, TokenRotation, BOTH, BOTH)]
POSSIBLE = [facts for facts in ALL if is_possible(facts)]
CLAIMS = {RefreshStep.CLAIM, RefreshStep.TAKE_UP, RefreshStep.SEND_AGAIN, RefreshStep.REPORT_LOST}


def test_each_combination_of_facts_has_a_next_step() -> None:
    assert len(POSSIBLE) > 100
    assert {next_step(facts) for facts in ALL} == set(RefreshStep)


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: f"{TABLE.index(rule)}-{rule.step}")
def test_each_row_of_the_decision_table_is_reached(rule: object) -> None:
    assert any(next(row for row in TABLE if matches(row, facts)) is rule for facts in POSSIBLE)


def test_held_lease_is_claimed_only_from_a_dead_local_process() -> None:
    for facts in POSSIBLE:
        if facts.lease is LeaseState.HELD and next_step(facts) in CLAIMS:
            assert facts.holder is Holder.HERE_DEAD
            assert facts.intent


def test_node_that_is_not_ready_claims_nothing() -> None:
    assert not CLAIMS & {next_step(facts) for facts in ALL if facts.node is not Node.READY}


def test_a_rotating_token_is_never_sent_again_while_another_process_may_have_the_reply() -> None:
    """A second use would make the provider revoke the grant.

    A provider that is not known to rotate tokens gets the token again, but only after the fence has ended.
    """
    for facts in POSSIBLE:
        if facts.intent and next_step(facts) is RefreshStep.SEND_AGAIN:
            assert facts.holder in (Holder.NOBODY, Holder.WITHOUT_JOURNAL) or facts.rotation is not TokenRotation.KNOWN
            assert facts.lease in (LeaseState.FREE, LeaseState.LONG_RUN_OUT)
            assert not facts.recorded


def test_a_reply_in_this_machines_journal_is_used_as_soon_as_the_lease_allows() -> None:
    for facts in POSSIBLE:
        if facts.node is Node.READY and facts.intent and facts.recorded and facts.lease is not LeaseState.HELD:
            assert next_step(facts) is RefreshStep.TAKE_UP


def test_intent_that_stays_open_after_a_refusal_causes_no_further_attempt_without_a_reply() -> None:
    """After the refusal, nobody holds the lease, and the loss is reported."""
    for facts in POSSIBLE:
        if keeps_intent(facts) and next_step(facts) in CLAIMS:
            assert not facts.recorded, "the attempt would use the same reply again and again"
            after = facts._replace(lease=LeaseState.FREE, holder=Holder.NOBODY, reported=True)
            assert next_step(after) is RefreshStep.SEND_AGAIN, "only a forced refresh may send the token again"
            assert next_step(after._replace(recorded=True)) is RefreshStep.TAKE_UP


def test_an_open_intent_never_stays_unreported() -> None:
    """A free lease or an ended fence always leads to a step: a new token, another attempt, or the report
    `rotation_lost`.
    """
    for facts in POSSIBLE:
        if facts.node is Node.READY and facts.intent and facts.lease in (LeaseState.FREE, LeaseState.LONG_RUN_OUT):
            assert next_step(facts) not in (RefreshStep.WAIT, RefreshStep.DEFER)


def test_without_an_intent_a_free_lease_is_claimed_immediately() -> None:
    for facts in POSSIBLE:
        if facts.node is Node.READY and not facts.intent and facts.lease is not LeaseState.HELD:
            assert next_step(facts) is RefreshStep.CLAIM


@pytest.mark.parametrize(
    ("since_s", "members", "may_claim"),
    [
        (MIN_WAIT_S - 1, [Member(True, 0)], False),
        (MIN_WAIT_S, [], True),
        (MIN_WAIT_S, [Member(True, 0)], True),
        (MIN_WAIT_S, [Member(True, 0), Member(False, 0)], False),
        (SILENT_S, [Member(True, 0), Member(False, SILENT_S)], True),
        (MAX_WAIT_S - 1, [Member(False, 0)], False),
        (MAX_WAIT_S, [Member(False, 0)], True),
    ],
)
def test_after_a_failover_nodes_wait_for_all_running_processes(
    since_s: float, members: list[Member], may_claim: bool
) -> None:
    assert may_refresh_again(since_s, members) is may_claim


def test_a_process_counted_as_dead_after_a_failover_has_no_lease_and_no_exchange() -> None:
    assert TOKEN_CALL_S < SILENT_S
    assert LEASE.total_seconds() <= SILENT_S
    assert (LEASE + FENCE).total_seconds() <= MAX_WAIT_S
