"""The refresh protocol as a small model, which `explore` searches through completely.

Some machines with a gateway each refresh one connection, whose provider accepts each refresh token once. A machine runs a
worker, which claims, sends and commits, and a parent, which exchanges the token and records the reply in the machine's
journal. Between any two steps a worker or a whole machine may be killed and started again, a worker may be paused, a request
or its reply may be lost, and a lease may run out whose holder does not renew it. What a worker may do is decided by
`gateway.refresh.decision`, as in the gateway.

Tokens are numbers: the provider replaces token `n` by `n + 1`. The row's version counts the same way.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.refresh.decision import Facts, Holder, LeaseState, Node, RefreshStep, next_step

Decide = Callable[[Facts], RefreshStep]


class Process(StrEnum):
    """Which process of its machine the row names as the holder."""

    CURRENT = "current"
    """The living worker, in the attempt that it makes now."""
    EARLIER = "earlier"
    """The living worker, in an attempt that is over."""
    KILLED = "killed"


class Phase(StrEnum):
    """How far a worker is."""

    DOWN = "down"
    IDLE = "idle"
    DECIDED = "decided"
    """It has read the row and decided, and will claim if the row is still as it was."""
    CLAIMED = "claimed"
    WAITING = "waiting"
    """Its parent exchanges the token."""
    RECEIVED = "received"
    """It has the reply in memory."""
    COMMITTED = "committed"
    """The row has the new token; the journal still contains the reply."""


class Exchange(StrEnum):
    """The request that a parent has sent."""

    NONE = "none"
    SENT = "sent"
    """On its way to the provider."""
    ANSWERED = "answered"
    """The provider has replaced the token, and the reply is on its way."""
    REFUSED = "refused"


class Row(NamedTuple):
    """The connection in the database."""

    token: int = 0
    intent: bool = False
    machine: int | None = None
    """Of the holder."""
    process: Process | None = None
    lease: LeaseState = LeaseState.FREE
    lost: bool = False
    """The connection says that it must be connected again."""


class Machine(NamedTuple):
    """One gateway."""

    phase: Phase = Phase.IDLE
    token: int = 0
    """Of the attempt."""
    open_before: bool = False
    """Whether an intent was open when the attempt claimed."""
    step: RefreshStep = RefreshStep.WAIT
    seen: Row = Row()
    """The row by which it decided; an empty one in other phases."""
    paused: bool = False
    exchange: Exchange = Exchange.NONE
    exchanged: int = 0
    journal: frozenset[int] = frozenset()
    """Tokens whose reply is recorded."""


class State(NamedTuple):
    """Everything. `alive`: the provider still honours the grant. `kills`, `pauses`, `cuts`: how many are left."""

    row: Row
    machines: tuple[Machine, ...]
    current: int
    """The token that the provider accepts."""
    alive: bool
    kills: int
    pauses: int
    cuts: int


class Sent(NamedTuple):
    """A step at which the provider received a spent token. `saved`: somebody had the reply that replaced it."""

    saved: bool


class Finding(NamedTuple):
    """What is wrong, and the steps that lead there."""

    what: str
    trace: tuple[str, ...]


SPENT: Final = "a spent token was sent although the reply that replaced it was saved"
SILENT: Final = "the token in the row is spent, and the connection does not say so"
UNUSED: Final = "the reply is in a journal, and no gateway uses it"


class Model:
    """`rotates`: the gateways know that the provider replaces the token. `last`: no token above it is wanted."""

    def __init__(
        self, *, decide: Decide = next_step, rotates: bool = True, journal: bool = True, last: int = 1
    ) -> None:
        self._decide = decide
        self._rotates = rotates
        self._journal = journal
        self._last = last

    def steps(self, state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """What may happen next, faults aside."""
        for number in range(len(state.machines)):
            yield from self._worker(state, number)
            yield from self._parent(state, number)
        yield from self._time(state)

    def faults(self, state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """What may go wrong, and what follows a fault whenever it likes: a start, or the end of a pause."""
        for number, machine in enumerate(state.machines):
            if machine.phase is Phase.DOWN:
                yield f"{number} starts", _with(state, number, machine._replace(phase=Phase.IDLE)), None
                continue
            if machine.paused:
                yield f"{number} resumes", _with(state, number, machine._replace(paused=False)), None
            elif state.pauses and machine.phase is not Phase.IDLE:
                paused = _with(state, number, machine._replace(paused=True))
                yield f"{number} is paused", paused._replace(pauses=state.pauses - 1), None
            if state.kills and machine.phase is not Phase.IDLE:
                dead = _killed(state, number)._replace(kills=state.kills - 1)
                yield f"worker of {number} is killed", _with(dead, number, _new(dead.machines[number])), None
                gone = _new(dead.machines[number])._replace(phase=Phase.DOWN, exchange=Exchange.NONE, exchanged=0)
                yield f"{number} is killed", _with(dead, number, gone), None
            if state.cuts and machine.exchange in (Exchange.SENT, Exchange.ANSWERED):
                cut = state._replace(cuts=state.cuts - 1)
                yield f"{number} gets no reply", self._failed(cut, number), None

    def _worker(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        machine, row = state.machines[number], state.row
        if machine.paused:
            return
        match machine.phase:
            case Phase.IDLE:
                if row.token < self._last and (row.intent or not row.lost):
                    step = self._decide(self.facts(state, number))
                    if step in (
                        RefreshStep.CLAIM,
                        RefreshStep.TAKE_UP,
                        RefreshStep.SEND_AGAIN,
                        RefreshStep.REPORT_LOST,
                    ):
                        decided = machine._replace(phase=Phase.DECIDED, step=step, seen=row)
                        yield f"{number} decides {step}", _with(state, number, decided), None
            case Phase.DECIDED:
                yield self._claim(state, number)
            case Phase.CLAIMED:
                recorded = machine.open_before and machine.token in machine.journal
                if recorded:
                    yield (
                        f"{number} finds the reply",
                        _with(state, number, machine._replace(phase=Phase.RECEIVED)),
                        None,
                    )
                elif machine.exchange is Exchange.NONE:
                    sent = machine._replace(phase=Phase.WAITING, exchange=Exchange.SENT, exchanged=machine.token)
                    yield f"{number} sends token {machine.token}", _with(state, number, sent), None
            case Phase.RECEIVED:
                yield from self._commit(state, number)
            case Phase.COMMITTED:
                released = machine._replace(journal=machine.journal - {machine.token})
                yield f"{number} releases the reply", _idle(_with(state, number, released), number), None

    def facts(self, state: State, number: int) -> Facts:
        """What the worker of a machine knows of the row, itself between two attempts."""
        row, machine = state.row, state.machines[number]
        return Facts(
            node=Node.READY,
            intent=row.intent,
            lease=row.lease,
            holder=self._holder(row, number),
            recorded=row.token in machine.journal,
            rotates=self._rotates,
            reported=row.lost and row.intent,
        )

    def _holder(self, row: Row, number: int) -> Holder:
        if row.machine is None:
            return Holder.NOBODY
        if row.machine != number:
            return Holder.ELSEWHERE if self._journal else Holder.WITHOUT_JOURNAL
        return Holder.HERE_DEAD if row.process is Process.KILLED else Holder.HERE_ENDED

    def _claim(self, state: State, number: int) -> tuple[str, State, None]:
        """One conditional UPDATE: it fails if the row is not as it was seen, or the lease is not free."""
        machine, row = state.machines[number], state.row
        seen, step = machine.seen, machine.step
        same = (row.token, row.intent, row.machine, row.process, row.lost) == (
            seen.token,
            seen.intent,
            seen.machine,
            seen.process,
            seen.lost,
        )
        long_ago = step is RefreshStep.REPORT_LOST or (
            step is RefreshStep.SEND_AGAIN and seen.lease is not LeaseState.FREE
        )
        taken = seen.lease is LeaseState.HELD
        free = (
            {LeaseState.FREE, LeaseState.LONG_RUN_OUT}
            if long_ago
            else {LeaseState.FREE, LeaseState.RUN_OUT, LeaseState.LONG_RUN_OUT}
        )
        if not same or (row.lease not in free and not taken):
            return f"{number} cannot claim", _idle(state, number), None
        if step is RefreshStep.REPORT_LOST:  # the holder stays: its machine may still have the reply
            reported = _idle(state, number)
            return f"{number} reports the token as lost", reported._replace(row=row._replace(lost=True)), None
        held = row._replace(machine=number, process=Process.CURRENT, lease=LeaseState.HELD)
        claimed = machine._replace(
            phase=Phase.CLAIMED, token=row.token, open_before=row.intent, seen=Row(), step=RefreshStep.WAIT
        )
        return f"{number} claims", _with(state._replace(row=held._replace(intent=True)), number, claimed), None

    def _commit(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        """Fenced by version and owner. A process that lost the lease claims it again, unless the row has a newer token."""
        machine, row = state.machines[number], state.row
        if row.token != machine.token:
            yield f"{number} finds a newer token", _with(state, number, machine._replace(phase=Phase.COMMITTED)), None
        elif _holds(state, number):
            done = Row(token=row.token + 1)
            committed = machine._replace(phase=Phase.COMMITTED)
            yield f"{number} commits", _with(state._replace(row=done), number, committed), None
        elif row.lease is not LeaseState.HELD:
            held = row._replace(machine=number, process=Process.CURRENT, lease=LeaseState.HELD)
            yield f"{number} claims to commit", state._replace(row=held), None

    def _parent(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        machine, row = state.machines[number], state.row
        token, waits = machine.exchanged, machine.phase is Phase.WAITING and not machine.paused
        match machine.exchange:
            case Exchange.SENT:
                if token == state.current and state.alive:
                    answered = _with(state, number, machine._replace(exchange=Exchange.ANSWERED))
                    yield f"provider replaces token {token}", answered._replace(current=token + 1), None
                else:
                    refused = _with(state, number, machine._replace(exchange=Exchange.REFUSED))
                    spent = Sent(saved(state, token)) if token < state.current and state.alive else None
                    yield f"provider refuses token {token}", refused._replace(alive=False), spent
            case Exchange.ANSWERED:
                over = machine._replace(exchange=Exchange.NONE, exchanged=0)
                if self._journal:
                    over = over._replace(journal=over.journal | {token})
                if machine.phase is Phase.WAITING:  # a paused worker finds it in its socket later
                    over = over._replace(phase=Phase.RECEIVED)
                yield f"{number} records the reply to token {token}", _with(state, number, over), None
            case Exchange.REFUSED:
                if machine.phase is not Phase.WAITING:
                    yield f"nobody hears the refusal at {number}", _hung_up(state, number), None
                elif waits:
                    heard = _idle(_hung_up(state, number), number)
                    if _holds(state, number):
                        heard = heard._replace(row=_free(row)._replace(intent=False, lost=True))
                    yield f"{number} hears the refusal", heard, None

    def _failed(self, state: State, number: int) -> State:
        """The outcome is not known: the lease ends, the intent stays."""
        machine = state.machines[number]
        over = _hung_up(state, number)
        if machine.phase is not Phase.WAITING:
            return over
        held = _holds(state, number)
        over = _idle(over, number)
        return over._replace(row=_free(over.row)) if held else over

    @staticmethod
    def _time(state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """A worker at work renews its lease in time; any other lease runs out."""
        row = state.row
        if row.machine is None:
            return
        holder = state.machines[row.machine]
        working = row.process is Process.CURRENT and holder.phase is not Phase.DOWN and not holder.paused
        if working:
            if row.lease is not LeaseState.HELD:
                yield f"{row.machine} renews its lease", state._replace(row=row._replace(lease=LeaseState.HELD)), None
        elif row.lease is LeaseState.HELD:
            yield "the lease runs out", state._replace(row=row._replace(lease=LeaseState.RUN_OUT)), None
        elif row.lease is LeaseState.RUN_OUT:
            yield "the fence is over", state._replace(row=row._replace(lease=LeaseState.LONG_RUN_OUT)), None

    def verdict(self, state: State) -> str | None:
        """What is wrong with a state in which nothing more happens unless there is another fault."""
        row = state.row
        if row.token >= self._last:
            return None
        at_work = [machine for machine in state.machines if machine.phase is not Phase.DOWN and not machine.paused]
        if not at_work:
            return None
        if state.alive and any(row.token in machine.journal for machine in at_work):
            return UNUSED
        if not row.lost and not (row.token == state.current and state.alive):
            return SILENT
        return None


def saved(state: State, token: int) -> bool:
    """Whether the reply that replaced `token` exists anywhere: in a journal, in memory, on its way or in the database."""
    return state.row.token > token or any(
        token in machine.journal
        or (machine.phase is Phase.RECEIVED and machine.token == token)
        or (machine.exchange is Exchange.ANSWERED and machine.exchanged == token)
        for machine in state.machines
    )


def explore(
    model: Model, *, machines: int = 3, kills: int = 2, pauses: int = 1, cuts: int = 1
) -> tuple[int, list[Finding]]:
    """How many states there are, and the first finding of each kind. Machines are alike: their order does not count."""
    first = State(Row(), (Machine(),) * machines, 0, True, kills, pauses, cuts)
    came_by: dict[State, tuple[State, str] | None] = {canonical(first): None}
    found: dict[str, Finding] = {}
    waiting = deque([first])

    def note(what: str, state: State, last: str = "") -> None:
        if what not in found:
            found[what] = Finding(what, (*_trace(came_by, canonical(state)), *([last] if last else [])))

    while waiting:
        state = waiting.popleft()
        steps = list(model.steps(state))
        if not steps and (wrong := model.verdict(state)) is not None:
            note(wrong, state)
        for name, after, sent in (*steps, *model.faults(state)):
            if sent is not None and sent.saved:
                note(SPENT, state, name)
            known = canonical(after)
            if known not in came_by:
                came_by[known] = canonical(state), name
                waiting.append(after)
    return len(came_by), list(found.values())


def canonical(state: State) -> State:
    """The same state with its machines in one order."""
    keys = [
        (_numbers.setdefault(machine, len(_numbers)), state.row.machine == number, number)
        for number, machine in enumerate(state.machines)
    ]
    order = [number for _, _, number in sorted(keys)]
    if order == list(range(len(order))):
        return state
    place = {old: new for new, old in enumerate(order)}

    def moved(row: Row) -> Row:
        return row if row.machine is None else row._replace(machine=place[row.machine])

    machines = (state.machines[number] for number in order)
    return state._replace(row=moved(state.row), machines=tuple(one._replace(seen=moved(one.seen)) for one in machines))


_numbers: dict[Machine, int] = {}


def _trace(came_by: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    names = []
    while (step := came_by[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))


def _with(state: State, number: int, machine: Machine) -> State:
    return state._replace(machines=(*state.machines[:number], machine, *state.machines[number + 1 :]))


def _hung_up(state: State, number: int) -> State:
    """The parent's exchange is over."""
    return _with(state, number, state.machines[number]._replace(exchange=Exchange.NONE, exchanged=0))


def _idle(state: State, number: int) -> State:
    """The worker's attempt is over."""
    row = state.row
    if row.machine == number and row.process is Process.CURRENT:
        state = state._replace(row=row._replace(process=Process.EARLIER))
    return _with(state, number, _new(state.machines[number]))


def _new(machine: Machine) -> Machine:
    """With a worker that has begun nothing."""
    return Machine(exchange=machine.exchange, exchanged=machine.exchanged, journal=machine.journal)


def _killed(state: State, number: int) -> State:
    if state.row.machine == number:
        return state._replace(row=state.row._replace(process=Process.KILLED))
    return state


def _free(row: Row) -> Row:
    return row._replace(machine=None, process=None, lease=LeaseState.FREE)


def _holds(state: State, number: int) -> bool:
    return state.row.machine == number and state.row.process is Process.CURRENT
