"""Who may renew now. A thousand tokens that end in one minute must not stand in the way of everything else.

Renewals that somebody waits for go first, so many at once for an integration; those that nobody waits for go few at once
and one after the other, so that they cost other calls nothing that these would notice.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway import clock
from gateway.records.connection import ConnectionRef

URGENT: Final = 64  # of one integration: a provider that is slow holds up its own only
BEHIND: Final = 4
PACE_S: Final = 0.1  # between two that nobody waits for: so few that others' slowest calls are hardly slower
HURRY_S: Final = 0.024  # where that many would not be through in time
PART: Final = 0.5  # of the time that is left to the last of them, within which they are to be through


@dataclass(slots=True)
class Turn:
    """`ends_at` (monotonic seconds): until then its token serves, and whoever needs it has nothing to wait for."""

    come: "asyncio.Future[None]"
    ends_at: float


Waiting = OrderedDict[ConnectionRef, Turn]


@dataclass(slots=True)
class Line:
    """Of one integration."""

    running: set[ConnectionRef] = field(default_factory=set)
    urgent: Waiting = field(default_factory=OrderedDict)
    behind: Waiting = field(default_factory=OrderedDict)
    running_behind: set[ConnectionRef] = field(default_factory=set)
    paced: bool = False

    @property
    def idle(self) -> bool:
        return not (self.running or self.urgent or self.behind)


class Turns:
    """One line an integration; the pace is of all together."""

    def __init__(self, *, urgent: int = URGENT, behind: int = BEHIND, pace_s: float = PACE_S) -> None:
        self._urgent, self._behind, self._pace_s = urgent, behind, pace_s
        self._lines: dict[tuple[str, str], Line] = {}
        self._next_behind = 0.0
        self._closed = False

    async def take(self, ref: ConnectionRef, *, urgent: bool, ends_at: float = 0.0) -> None:
        """Return when it is this connection's turn; `give_back` ends it. Raises CancelledError where it will not come."""
        if self._closed and not urgent:
            raise asyncio.CancelledError
        line = self._lines.setdefault(ref[:2], Line())
        turn = Turn(asyncio.get_running_loop().create_future(), ends_at)
        (line.urgent if urgent else line.behind)[ref] = turn
        self._admit(line)
        try:
            await turn.come
        except BaseException:
            self.give_back(ref)
            raise

    def urge(self, ref: ConnectionRef) -> None:
        """Somebody waits for it by now."""
        line = self._lines.get(ref[:2])
        turn = line.behind.pop(ref, None) if line is not None else None
        if line is not None and turn is not None:
            line.urgent[ref] = turn
            self._admit(line)

    def give_back(self, ref: ConnectionRef) -> None:
        line = self._lines.get(ref[:2])
        if line is None:
            return
        for place in (line.urgent, line.behind):
            place.pop(ref, None)
        line.running.discard(ref)
        line.running_behind.discard(ref)
        self._admit(line)
        if line.idle:
            self._lines.pop(ref[:2], None)

    def close(self) -> None:
        """Send those home whose turn has not come and for whom nobody waits: they have begun nothing."""
        self._closed = True
        for line in self._lines.values():
            for turn in line.behind.values():
                turn.come.cancel()
            line.behind.clear()

    def _admit(self, line: Line) -> None:
        while line.urgent and len(line.running) - len(line.running_behind) < self._urgent:
            self._begin(line, line.urgent)
        while line.behind and len(line.running_behind) < self._behind:
            now = clock.monotonic()
            if now < self._next_behind:
                if not line.paced:
                    line.paced = True
                    asyncio.get_running_loop().call_later(self._next_behind - now, self._go_on, line)
                return
            self._next_behind = now + self._pause_s(line, now)
            line.running_behind.add(self._begin(line, line.behind))

    def _pause_s(self, line: Line, now: float) -> float:
        """Until the next one that nobody waits for. What has ended already is no reason to hurry: nothing is saved by it."""
        last = next(reversed(line.behind.values()))
        waiting = sum(len(one.behind) for one in self._lines.values())
        in_time_s = (last.ends_at - now) * PART / waiting
        return max(min(self._pace_s, in_time_s), min(self._pace_s, HURRY_S)) if in_time_s > 0 else self._pace_s

    def _go_on(self, line: Line) -> None:
        line.paced = False
        self._admit(line)

    @staticmethod
    def _begin(line: Line, waiting: Waiting) -> ConnectionRef:
        ref, turn = waiting.popitem(last=False)
        line.running.add(ref)
        if not turn.come.done():
            turn.come.set_result(None)
        return ref
