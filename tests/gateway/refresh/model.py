"""The refresh protocol as a small model, which `tests.gateway.refresh.explore` searches exhaustively.

Several machines run a gateway each, and all gateways refresh the same connection. The provider accepts each refresh
token only once. A machine runs a worker and a parent. The worker claims, sends and commits. The parent exchanges the
token and records the reply in the machine's journal. `gateway.refresh.decision` decides what a worker does, as in the
real gateway.

Between any two steps, a fault can happen. A worker or a whole machine is killed and started again. A worker is paused.
A request or its reply is lost. A lease expires, because its holder does not renew it. A standby of the database takes
over and lacks the last commits; then workers write back what they have in memory.

Tokens are numbers: the provider replaces token `n` with `n + 1`. The version of the row is the same number.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.refresh.decision import (
    MIN_WAIT_S,
    SILENT_S,
    Facts,
    Holder,
    LeaseState,
    Member,
    Node,
    RefreshStep,
    TokenRotation,
    keeps_intent,
    may_refresh_again,
    next_step,
)

Decide = Callable[[Facts], RefreshStep]
Reconciled = Callable[[float, Iterable[Member]], bool]


class Process(StrEnum):
    """The process that holds the lease, from the view of the lease holder's machine."""

    CURRENT = "current"
    """The living worker holds the lease with its current attempt."""
    EARLIER = "earlier"
    """The living worker holds the lease with an earlier attempt."""
    KILLED = "killed"


class Phase(StrEnum):
    """The progress of a worker."""

    DOWN = "down"
    IDLE = "idle"
    DECIDED = "decided"
    """The worker has read the row and decided. Its claim succeeds only if the row has not changed since."""
    CLAIMED = "claimed"
    WAITING = "waiting"
    """The worker waits for its parent, which exchanges the token."""
    RECEIVED = "received"
    """The worker has the reply in memory."""
    COMMITTED = "committed"
    """The row has the new token. The journal still contains the reply."""


class Exchange(StrEnum):
    """State of the request that a parent has sent."""

    NONE = "none"
    SENT = "sent"
    """The request is on its way to the provider."""
    RESPONDED = "responded"
    """The provider has replaced the token, and the reply is on its way to the parent."""
    REFUSED = "refused"


class Reconciling(StrEnum):
    """A worker's progress after a failover of the database."""

    TO_DO = "to_do"
    WRITTEN_BACK = "written_back"
    """The worker's tokens are in the database again, but its claims are possibly missing."""
    DONE = "done"


class Row(NamedTuple):
    """The connection in the database."""

    token: int = 0
    intent: bool = False
    machine: int | None = None
    """The machine of the lease holder. None: no machine holds the lease."""
    process: Process | None = None
    lease: LeaseState = LeaseState.FREE
    lost: bool = False
    """The connection is reported as lost: its end user must connect again."""


class Machine(NamedTuple):
    """A machine with one gateway."""

    phase: Phase = Phase.IDLE
    token: int = 0
    """The token that the current attempt sends."""
    open_before: bool = False
    """Whether the row had an open intent when the attempt claimed the row."""
    step: RefreshStep = RefreshStep.WAIT
    seen: Row = Row()
    """The row on which the decision was based. Empty in all phases except `DECIDED`."""
    keeps_intent: bool = False
    """Whether the intent stays open if the provider refuses the token of the current attempt."""
    paused: bool = False
    exchange: Exchange = Exchange.NONE
    exchanged: int = 0
    journal: frozenset[int] = frozenset()
    """The tokens for which the journal contains a reply."""
    memory: int = 0
    """The newest token in the memory of the worker."""
    reconciling: Reconciling = Reconciling.DONE
    given_up: bool = False
    """After a failover, the other machines continued without this machine."""


class State(NamedTuple):
    """The state of the whole system.

    `alive`: the provider still accepts the grant. `kills`, `pauses`, `cuts`, `failovers`: how many faults of each kind
    can still happen. `copy`: the standby's row, if the standby lags behind; otherwise None.

    `settled`: whether workers can send the refresh tokens in the database again; None if there was no failover.
    `blind`: a token that was claimed while its successor existed only on a machine that was silent for too long.
    """

    row: Row
    machines: tuple[Machine, ...]
    current: int
    """The newest token, which the provider accepts."""
    alive: bool
    kills: int
    pauses: int
    cuts: int
    failovers: int = 0
    copy: Row | None = None
    settled: bool | None = None
    blind: int | None = None


class Sent(NamedTuple):
    """The provider received a token that it had already replaced.

    `saved`: whether the reply with the new token was saved somewhere.
    """

    saved: bool


SPENT: Final = "a spent token was sent although the reply that replaced it was saved"
SILENT: Final = "the token in the row is spent, and the connection does not say so"
UNUSED: Final = "the reply is in a journal, and no gateway uses it"


CLAIMS: Final = frozenset({RefreshStep.CLAIM, RefreshStep.TAKE_UP, RefreshStep.SEND_AGAIN, RefreshStep.REPORT_LOST})
UNDER_WAY: Final = frozenset({Phase.CLAIMED, Phase.WAITING, Phase.RECEIVED})


class Restores(StrEnum):
    """Which claims a worker restores after a failover."""

    ALL = "all"
    UNDER_WAY = "is_refreshing"
    """Restores its own claims, but not claims that only the journal of its machine records."""
    NOTHING = "nothing"


class Model:
    """The model of the refresh protocol.

    `rotates`: whether the gateways know that the provider replaces the token. `revokes`: whether the provider revokes
    the grant when it receives a replaced token. `last`: the search ends at this token.

    `keeps_intent`: decides whether the intent stays open after a refusal.

    `reconciled`: decides when workers can send tokens again after a failover. `restores`: which claims workers restore
    after a failover.
    """

    def __init__(
        self,
        *,
        decide: Decide = next_step,
        keeps_intent: Callable[[Facts], bool] = keeps_intent,
        rotates: bool = True,
        revokes: bool = True,
        journal: bool = True,
        last: int = 1,
        reconciled: Reconciled = may_refresh_again,
        restores: Restores = Restores.ALL,
    ) -> None:
        self._decide = decide
        self._reconciled = reconciled
        self._restores = restores
        self._keeps_intent = keeps_intent
        self._rotates = rotates
        self._revokes = revokes
        self._journal = journal
        self._last = last

    def steps(self, state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """Yield the next steps that are possible without a fault."""
        for number in range(len(state.machines)):
            yield from self._worker(state, number)
            yield from self._parent(state, number)
            yield from self._after_failover(state, number)
        yield from self._time(state)
        if state.settled is False and self._reconciled(MIN_WAIT_S, members(state)):
            yield "tokens may be sent again", state._replace(settled=True), None

    def faults(self, state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """Yield the possible faults, and the steps after a fault: a machine starts, or a pause ends."""
        for number, machine in enumerate(state.machines):
            if machine.phase is Phase.DOWN:
                yield f"{number} starts", _with_machine(state, number, _started(state, machine)), None
                continue
            if machine.paused:
                yield f"{number} resumes", _with_machine(state, number, machine._replace(paused=False)), None
            elif state.pauses and machine.phase is not Phase.IDLE:
                paused = _with_machine(state, number, machine._replace(paused=True))
                yield f"{number} is paused", paused._replace(pauses=state.pauses - 1), None
            if state.kills and machine.phase is not Phase.IDLE:
                dead = _killed(state, number)._replace(kills=state.kills - 1)
                fresh = _started(dead, _new(dead.machines[number])._replace(memory=0))
                yield f"worker of {number} is killed", _with_machine(dead, number, fresh), None
                killed = fresh._replace(phase=Phase.DOWN, exchange=Exchange.NONE, exchanged=0)
                yield f"{number} is killed", _with_machine(dead, number, killed), None
            if state.cuts and machine.exchange in (Exchange.SENT, Exchange.RESPONDED):
                cut = state._replace(cuts=state.cuts - 1)
                yield f"{number} gets no reply", self._failed(cut, number), None
        if state.failovers and state.copy is None:
            yield "the standby falls behind", state._replace(copy=state.row), None
        elif state.failovers:
            yield "the standby takes over", _failed_over(state), None

    def _after_failover(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        machine, row = state.machines[number], state.row
        at_work = machine.phase is not Phase.DOWN and not machine.paused
        # an exchange ends before its machine counts as silent
        asks = machine.exchange in (Exchange.SENT, Exchange.RESPONDED)
        if state.settled is False and not (at_work or asks or machine.given_up):
            yield (
                f"{number} is silent for too long",
                _with_machine(state, number, machine._replace(given_up=True)),
                None,
            )
        if not at_work or machine.reconciling is Reconciling.DONE:
            return
        if machine.reconciling is Reconciling.TO_DO:
            newest = max(machine.memory, machine.token)
            written = _with_machine(state, number, machine._replace(reconciling=Reconciling.WRITTEN_BACK))
            if newest > row.token:
                written = written._replace(row=Row(token=newest))
            yield f"{number} writes back its tokens", written, None
            return
        early = machine.phase not in UNDER_WAY and _newest_record(machine) > row.token
        if early and any(_may_write_back(item) for item in state.machines):
            return  # one of these machines can have the token for which the record was written
        restored = state._replace(row=self._restored(state, number))
        if machine.given_up and machine.phase is Phase.CLAIMED:
            restored = _idle(restored, number)
        gone_on = machine.given_up and row.machine not in (None, number)
        done = restored.machines[number]._replace(reconciling=Reconciling.DONE, given_up=gone_on)
        yield f"{number} restores what it has claimed", _with_machine(restored, number, done), None

    def _restored(self, state: State, number: int) -> Row:
        """Return the row with its claim restored.

        The claim belongs to the current attempt, or to an earlier attempt with a reply that is recorded or on its way.
        """
        machine, row = state.machines[number], state.row
        if self._restores is Restores.NOTHING or (machine.given_up and row.machine is not None):
            return row
        if machine.phase in UNDER_WAY:
            if machine.token != row.token:
                return row  # in this case, the worker writes back its token
            return Row(row.token, True, number, Process.CURRENT, LeaseState.HELD)
        on_its_way = machine.exchange in (Exchange.SENT, Exchange.RESPONDED) and machine.exchanged == row.token
        recorded = row.token in machine.journal
        known = self._restores is Restores.ALL and self._journal and (on_its_way or recorded)
        if known and not row.lost and row.machine != number:
            return Row(row.token, True, number, Process.EARLIER, LeaseState.RUN_OUT)
        return row

    def _worker(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        machine, row = state.machines[number], state.row
        if machine.paused:
            return
        match machine.phase:
            case Phase.IDLE:
                if row.token < self._last and (row.intent or not row.lost):
                    facts = self.facts(state, number)
                    step = self._decide(facts)
                    # a refused token is sent again only if a caller forces this
                    if step in CLAIMS and not (step is RefreshStep.SEND_AGAIN and row.lost):
                        keeps = self._keeps_intent(facts)
                        decided = machine._replace(phase=Phase.DECIDED, step=step, seen=row, keeps_intent=keeps)
                        yield f"{number} decides {step}", _with_machine(state, number, decided), None
            case Phase.DECIDED:
                yield self._claim(state, number)
            case Phase.CLAIMED:
                recorded = machine.open_before and machine.token in machine.journal
                if machine.given_up:
                    yield f"{number} lets go of a lease that is over", _idle(state, number), None
                elif recorded:
                    yield (
                        f"{number} finds the reply",
                        _with_machine(state, number, machine._replace(phase=Phase.RECEIVED)),
                        None,
                    )
                elif machine.exchange is Exchange.NONE:
                    sent = machine._replace(phase=Phase.WAITING, exchange=Exchange.SENT, exchanged=machine.token)
                    yield f"{number} sends token {machine.token}", _with_machine(state, number, sent), None
            case Phase.RECEIVED:
                yield from self._commit(state, number)
            case Phase.COMMITTED:
                released = machine._replace(journal=machine.journal - {machine.token})
                yield f"{number} releases the reply", _idle(_with_machine(state, number, released), number), None

    def facts(self, state: State, number: int) -> Facts:
        """Return the facts that a machine's worker sees between two attempts."""
        row, machine = state.row, state.machines[number]
        return Facts(
            node=Node.RECONCILING if _reconciles(state, machine) else Node.READY,
            intent=row.intent,
            lease=row.lease,
            holder=self._holder(row, number),
            recorded=row.token in machine.journal,
            rotation=TokenRotation.KNOWN if self._rotates else TokenRotation.UNKNOWN,
            shared=True,
            reported=row.lost and row.intent,
        )

    def _holder(self, row: Row, number: int) -> Holder:
        if row.machine is None:
            return Holder.NOBODY
        if row.machine != number:
            return Holder.ELSEWHERE if self._journal else Holder.WITHOUT_JOURNAL
        return Holder.HERE_DEAD if row.process is Process.KILLED else Holder.HERE_ENDED

    def _claim(self, state: State, number: int) -> tuple[str, State, None]:
        """Claim the row with one conditional UPDATE. The claim fails if the row has changed or if another worker holds
        the lease.
        """
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
        # the holder stays in the row, because the holder's machine may still have the reply
        if step is RefreshStep.REPORT_LOST:
            reported = _idle(state, number)
            return f"{number} reports the token as lost", reported._replace(row=row._replace(lost=True)), None
        leased = row._replace(machine=number, process=Process.CURRENT, lease=LeaseState.HELD)
        if not saved(state, row.token) and saved(state, row.token, living=False):
            state = state._replace(blind=row.token)
        claimed = machine._replace(
            phase=Phase.CLAIMED, token=row.token, open_before=row.intent, seen=Row(), step=RefreshStep.WAIT
        )
        return (
            f"{number} claims",
            _with_machine(state._replace(row=leased._replace(intent=True)), number, claimed),
            None,
        )

    def _commit(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        """Commit only if version and owner of the row are still the same.

        If the process has lost the lease, it claims the row again, unless the row has a newer token.
        """
        machine, row = state.machines[number], state.row
        if row.token < machine.token:
            yield f"{number} writes back its token", state._replace(row=Row(token=machine.token)), None
        elif row.token > machine.token:
            yield (
                f"{number} finds a newer token",
                _with_machine(state, number, machine._replace(phase=Phase.COMMITTED)),
                None,
            )
        elif _holds(state, number):
            done = Row(token=row.token + 1)
            committed = machine._replace(phase=Phase.COMMITTED, memory=row.token + 1)
            yield f"{number} commits", _with_machine(state._replace(row=done), number, committed), None
        elif row.lease is not LeaseState.HELD and machine.reconciling is not Reconciling.TO_DO:
            leased = Row(row.token, True, number, Process.CURRENT, LeaseState.HELD, row.lost)
            yield f"{number} claims to commit", state._replace(row=leased), None

    def _parent(self, state: State, number: int) -> Iterator[tuple[str, State, Sent | None]]:
        machine, row = state.machines[number], state.row
        token, waits = machine.exchanged, machine.phase is Phase.WAITING and not machine.paused
        match machine.exchange:
            case Exchange.SENT:
                if token == state.current and state.alive:
                    responded = _with_machine(state, number, machine._replace(exchange=Exchange.RESPONDED))
                    yield f"provider replaces token {token}", responded._replace(current=token + 1), None
                else:
                    refused = _with_machine(state, number, machine._replace(exchange=Exchange.REFUSED))
                    spent = (
                        Sent(saved(state, token) and token != state.blind)
                        if token < state.current and state.alive
                        else None
                    )
                    alive = state.alive and token < state.current and not self._revokes
                    yield f"provider refuses token {token}", refused._replace(alive=alive), spent
            case Exchange.RESPONDED:
                over = machine._replace(exchange=Exchange.NONE, exchanged=0)
                if self._journal:
                    over = over._replace(journal=over.journal | {token})
                if machine.phase is Phase.WAITING:  # a paused worker reads the reply from its socket later
                    over = over._replace(phase=Phase.RECEIVED)
                yield f"{number} records the reply to token {token}", _with_machine(state, number, over), None
            case Exchange.REFUSED:
                if machine.phase is not Phase.WAITING:
                    yield f"nobody receives the refusal at {number}", _hung_up(state, number), None
                elif waits:
                    after_refusal = _idle(_hung_up(state, number), number)
                    if _holds(state, number):
                        refused = Row(row.token, intent=machine.keeps_intent, lost=True)
                        after_refusal = after_refusal._replace(row=refused)
                    yield f"{number} receives the refusal", after_refusal, None

    def _failed(self, state: State, number: int) -> State:
        """End an exchange without a known outcome: release the lease and keep the intent."""
        machine, row = state.machines[number], state.row
        over = _hung_up(state, number)
        if machine.phase is not Phase.WAITING:
            return over
        has_lease = _holds(state, number)
        over = _idle(over, number)
        return over._replace(row=Row(row.token, row.intent, lost=row.lost)) if has_lease else over

    @staticmethod
    def _time(state: State) -> Iterator[tuple[str, State, Sent | None]]:
        """Yield the steps of time: a working worker renews its lease, and any other lease expires."""
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
        """Return the fault of a state in which only further faults can happen. Return None if the state is correct."""
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


def saved(state: State, token: int, *, living: bool = True) -> bool:
    """Return whether the reply that replaced `token` exists in a journal, in memory, on its way or in the database.

    `living`: if true, ignore machines that were silent for too long after a failover.
    """
    return state.row.token > token or any(
        token in machine.journal
        or machine.memory > token
        or (machine.phase is Phase.RECEIVED and machine.token == token)
        or (machine.exchange is Exchange.RESPONDED and machine.exchanged == token)
        for machine in state.machines
        if not (living and machine.given_up)
    )


def _may_write_back(machine: Machine) -> bool:
    to_do = machine.reconciling is Reconciling.TO_DO and machine.phase is not Phase.DOWN
    return to_do and not machine.given_up


def _newest_record(machine: Machine) -> int:
    """Return the newest token with a reply that is recorded or on its way. Return -1 if there is none."""
    on_its_way = machine.exchange in (Exchange.SENT, Exchange.RESPONDED)
    return max(*machine.journal, machine.exchanged if on_its_way else -1, -1, -1)


def members(state: State) -> list[Member]:
    """Return the gateways as the other gateways see them in the database after a failover."""
    return [
        Member(
            confirmed=machine.reconciling is Reconciling.DONE and machine.phase is not Phase.DOWN,
            silent_s=SILENT_S if machine.given_up else 0.0,
        )
        for machine in state.machines
    ]


def _with_machine(state: State, number: int, machine: Machine) -> State:
    return state._replace(machines=(*state.machines[:number], machine, *state.machines[number + 1 :]))


def _hung_up(state: State, number: int) -> State:
    """End the exchange in the parent."""
    return _with_machine(state, number, state.machines[number]._replace(exchange=Exchange.NONE, exchanged=0))


def _idle(state: State, number: int) -> State:
    """End the attempt of the worker."""

    def over(row: Row) -> Row:
        ours = row.machine == number and row.process is Process.CURRENT
        return row._replace(process=Process.EARLIER) if ours else row

    return _with_machine(_in_rows(state, over), number, _new(state.machines[number]))


def _new(machine: Machine) -> Machine:
    """Return the machine with a new worker that has not begun anything."""
    return machine._replace(
        phase=Phase.IDLE,
        token=0,
        open_before=False,
        step=RefreshStep.WAIT,
        seen=Row(),
        keeps_intent=False,
        paused=False,
    )


def _started(state: State, machine: Machine) -> Machine:
    """Return the machine with a new worker. After a failover, a new worker first looks for records of its machine."""
    reconciling = Reconciling.DONE if state.settled is None else Reconciling.TO_DO
    return machine._replace(phase=Phase.IDLE, reconciling=reconciling)


def _killed(state: State, number: int) -> State:
    return _in_rows(state, lambda row: row._replace(process=Process.KILLED) if row.machine == number else row)


def _in_rows(state: State, change: Callable[[Row], Row]) -> State:
    """Apply `change` to the row and to the standby's copy of the row.

    What happens to a process does not depend on which copy names the process.
    """
    return state._replace(row=change(state.row), copy=None if state.copy is None else change(state.copy))


def _failed_over(state: State) -> State:
    """Replace the row with the standby's copy. Claims that were decided before the failover fail."""
    assert state.copy is not None
    state = state._replace(failovers=state.failovers - 1, settled=False)
    for number, machine in enumerate(state.machines):
        if machine.phase is Phase.DECIDED and machine.step is not RefreshStep.REPORT_LOST:
            state = _with_machine(_idle(state, number), number, _new(machine)._replace(paused=machine.paused))
        to_do = state.machines[number]._replace(reconciling=Reconciling.TO_DO, given_up=False)
        state = _with_machine(state, number, to_do)
    assert state.copy is not None
    return state._replace(row=state.copy, copy=None)


def _reconciles(state: State, machine: Machine) -> bool:
    return state.settled is False or machine.reconciling is not Reconciling.DONE


def _holds(state: State, number: int) -> bool:
    return state.row.machine == number and state.row.process is Process.CURRENT
