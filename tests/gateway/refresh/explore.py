"""An exhaustive search of the model in `tests.gateway.refresh.model`: visits every state that the model can reach."""

from collections import deque
from typing import NamedTuple

from tests.gateway.refresh.model import SPENT, Machine, Model, Row, State


class Finding(NamedTuple):
    """A fault that the search found, and the steps that lead to the fault."""

    what: str
    trace: tuple[str, ...]


def explore(
    model: Model, *, machines: int = 3, kills: int = 2, pauses: int = 1, cuts: int = 1, failovers: int = 0
) -> tuple[int, list[Finding]]:
    """Search all states. Return the number of states, and the first finding of each kind of fault.

    States that differ only in the order of their machines count as one state, because all machines behave alike.
    """
    first = canonical(State(Row(), (Machine(),) * machines, 0, True, kills, pauses, cuts, failovers))
    came_by: dict[State, tuple[State, str] | None] = {first: None}
    found: dict[str, Finding] = {}
    waiting = deque([first])

    def record_finding(what: str, state: State, last: str = "") -> None:
        if what not in found:
            found[what] = Finding(what, (*_trace(came_by, state), *([last] if last else [])))

    while waiting:
        state = waiting.popleft()
        steps = list(model.steps(state))
        if not steps and (wrong := model.verdict(state)) is not None:
            record_finding(wrong, state)
        for name, after, sent in (*steps, *model.faults(state)):
            if sent is not None and sent.saved:
                record_finding(SPENT, state, name)
            if after not in came_by and (known := canonical(after)) not in came_by:
                came_by[known] = state, name
                waiting.append(known)
    return len(came_by), list(found.values())


def canonical(state: State) -> State:
    """Return the same state with its machines in a fixed order."""
    holder, holder_in_copy = state.row.machine, None if state.copy is None else state.copy.machine
    keys = [
        (_numbers.setdefault(machine, len(_numbers)), holder == number, holder_in_copy == number, number)
        for number, machine in enumerate(state.machines)
    ]
    order = [number for *_, number in sorted(keys)]
    if order == list(range(len(order))):
        return state
    place = {old: new for new, old in enumerate(order)}

    def with_new_number(row: Row) -> Row:
        number = row.machine
        return row if number is None or place[number] == number else row._replace(machine=place[number])

    copy = None if state.copy is None else with_new_number(state.copy)
    machines = tuple(
        machine if machine.seen.machine is None else machine._replace(seen=with_new_number(machine.seen))
        for machine in (state.machines[number] for number in order)
    )
    return state._replace(row=with_new_number(state.row), copy=copy, machines=machines)


_numbers: dict[Machine, int] = {}


def _trace(came_by: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    names = []
    while (step := came_by[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))
