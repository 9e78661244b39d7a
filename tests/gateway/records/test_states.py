"""The state machine: the next state for each state and trigger."""

import pytest

from gateway.records.states import State, StateTrigger, next_state, trigger_for_failure


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("trigger", [StateTrigger.AUTHORIZED, StateTrigger.RENEWED])
def test_a_new_token_makes_any_connection_active(state: State, trigger: StateTrigger) -> None:
    assert next_state(state, trigger) is State.ACTIVE


@pytest.mark.parametrize("state", State)
def test_accepted_credential_makes_the_connection_active_and_a_replaced_one_changes_nothing(
    state: State,
) -> None:
    assert next_state(state, StateTrigger.ACCEPTED) is State.ACTIVE
    assert next_state(state, StateTrigger.REPLACED) is state


def test_an_outage_degrades_an_active_connection_and_changes_no_ended_one() -> None:
    assert next_state(State.ACTIVE, StateTrigger.UNAVAILABLE) is State.DEGRADED
    for state in set(State) - {State.ACTIVE}:
        assert next_state(state, StateTrigger.UNAVAILABLE) is state


@pytest.mark.parametrize(
    ("code", "final", "state"),
    [
        ("token_endpoint_unavailable", False, State.DEGRADED),
        ("invalid_grant", True, State.NEEDS_REAUTH),
        ("rotation_lost", True, State.NEEDS_REAUTH),
        ("invalid_client", True, State.NEEDS_REAUTH),
        ("token_revoked", True, State.REVOKED),
    ],
)
def test_the_error_code_of_a_failed_refresh_decides_the_state(code: str, final: bool, state: State) -> None:
    assert next_state(State.ACTIVE, trigger_for_failure(code, final=final)) is state


def test_a_missing_setting_makes_it_incomplete_and_a_later_refusal_still_counts() -> None:
    assert next_state(State.DEGRADED, StateTrigger.UNFINISHED) is State.INCOMPLETE
    assert next_state(State.INCOMPLETE, StateTrigger.REFUSED) is State.NEEDS_REAUTH
    assert next_state(State.REVOKED, StateTrigger.REFUSED) is State.REVOKED
