"""One attempt to renew a credential: a courier notes what it is answered, and what one before it was is not asked again."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.courier import Courier, CourierLost, Errand, Line, Way
from gateway.egress.errors import EgressError
from gateway.records.call import Call, Reply
from gateway.store.notes import Note, Noted, named


@dataclass(frozen=True, slots=True)
class Sender:
    """A courier, and the way that the configuration tells it to take."""

    courier: Courier
    way: Way


class Attempt:
    """`answers`: of earlier ones' calls. `note` None: nothing can be noted, so nobody is sent.

    `asked`: whether a provider was asked anything. `kept`: whether all that it answered outlives this process.
    """

    def __init__(self, note: Note | None = None, answers: Sequence[Noted] = ()) -> None:
        self._note = note
        self._answers = list(answers)
        self._lines = set[Line]()
        self._lost = False
        self._step = 0
        self.asked = False
        self.kept = note is not None

    def found(self, call: Call) -> Reply | None:
        """The answer that an earlier attempt had to the same call, if it got that far."""
        for answer in self._answers:
            if answer.call == named(call):
                self._answers.remove(answer)
                return answer.reply
        return None

    async def sent(self, sender: Sender | None, call: Call, timeout_s: float, limit_bytes: int) -> Reply | None:
        """What the courier was answered; None where there is none to send. Raises EgressError."""
        self.asked = True
        note, step = self._note, self._step
        self._step += 1
        errand = Errand(call, sender.way, note, step, timeout_s, limit_bytes) if note and sender else None
        try:
            came = await sender.courier.ask(errand) if errand and sender else None
        except CourierLost:
            self._lost = True
            raise
        if came is None:
            self.kept = False
            return None
        line, brought = came
        self._lines.add(line)
        self.kept = self.kept and brought.noted
        if brought.fault is not None:
            raise EgressError(brought.fault.kind, brought.fault.message, sent=brought.fault.sent)
        return brought.reply

    def over(self) -> None:
        """What was noted is in the database, or of no use to anyone. Of a courier that was lost nobody knows that."""
        if self._note is not None and not self._lost:
            for line in self._lines:
                line.done(self._note.attempt)
