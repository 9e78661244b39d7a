"""The state machine: the next state for each state and happening."""

import pytest

from gateway.records.states import Happening, State, happening_for_failure, next_state


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("happening", [Happening.AUTHORIZED, Happening.RENEWED])
def test_a_new_token_makes_any_connection_active(state: State, happening: Happening) -> None:
    assert next_state(state, happening) is State.ACTIVE


@pytest.mark.parametrize("state", State)
def test_a_credential_that_is_accepted_makes_it_active_and_one_that_is_only_replaced_changes_nothing(
    state: State,
) -> None:
    assert next_state(state, Happening.ACCEPTED) is State.ACTIVE
    assert next_state(state, Happening.REPLACED) is state


def test_an_outage_degrades_what_was_well_and_excuses_nothing_that_is_gone() -> None:
    assert next_state(State.ACTIVE, Happening.UNAVAILABLE) is State.DEGRADED
    for state in set(State) - {State.ACTIVE}:
        assert next_state(state, Happening.UNAVAILABLE) is state


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
def test_a_failed_renewal_leads_to_the_state_its_code_stands_for(code: str, final: bool, state: State) -> None:
    assert next_state(State.ACTIVE, happening_for_failure(code, final=final)) is state


def test_a_missing_setting_makes_it_incomplete_and_a_later_refusal_still_counts() -> None:
    assert next_state(State.DEGRADED, Happening.UNFINISHED) is State.INCOMPLETE
    assert next_state(State.INCOMPLETE, Happening.REFUSED) is State.NEEDS_REAUTH
    assert next_state(State.REVOKED, Happening.REFUSED) is State.REVOKED
