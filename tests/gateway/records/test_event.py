"""Which state changes are events for the application."""

import pytest

from gateway.records.event import Event, event_for_change
from gateway.records.states import State


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        (None, State.ACTIVE, Event.CREATED),
        (State.ACTIVE, State.ACTIVE, None),
        (State.ACTIVE, State.DEGRADED, Event.DEGRADED),
        (State.DEGRADED, State.ACTIVE, Event.RECOVERED),
        (State.ACTIVE, State.NEEDS_REAUTH, Event.NEEDS_REAUTH),
        (State.DEGRADED, State.NEEDS_REAUTH, Event.NEEDS_REAUTH),
        (State.NEEDS_REAUTH, State.ACTIVE, Event.RECOVERED),
    ],
)
def test_a_step_between_working_failing_and_waiting_for_a_person_is_an_event(
    before: State | None, after: State, event: Event | None
) -> None:
    assert event_for_change(before, after) == event


def test_changes_between_states_that_need_a_person_send_no_event() -> None:
    waiting = [state for state in State if state not in (State.ACTIVE, State.DEGRADED)]
    assert len(waiting) > 1
    for before in waiting:
        for after in waiting:
            assert event_for_change(before, after) is None
        assert event_for_change(State.ACTIVE, before) is Event.NEEDS_REAUTH
