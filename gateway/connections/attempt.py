"""One attempt to renew a credential: a courier notes what it is answered, and what one before it was is not asked again."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.courier import Courier, Errand, Way
from gateway.egress.errors import EgressError
from gateway.records.call import Call, Reply
from gateway.store.notes import Note, Noted, named


@dataclass(frozen=True, slots=True)
class Sender:
    """A courier, and the way that the configuration tells it to take."""

    courier: Courier
    way: Way


class Attempt:
    """`answers`: of an earlier one's calls, in their order. `note` None: nothing can be noted, so nobody is sent.

    `asked`: whether a provider was asked anything. `kept`: whether all that it answered outlives this process.
    """

    def __init__(self, note: Note | None = None, answers: Sequence[Noted] = ()) -> None:
        self._note = note
        self._answers = list(answers)
        self._sender: Sender | None = None
        self._step = 0
        self.asked = False
        self.kept = note is not None

    def found(self, call: Call) -> Reply | None:
        """The answer that an earlier attempt had to the same call, if it got that far."""
        if self._answers and self._answers[0].call == named(call):
            return self._answers.pop(0).reply
        self._answers.clear()
        return None

    async def sent(self, sender: Sender | None, call: Call, timeout_s: float, limit_bytes: int) -> Reply | None:
        """What the courier was answered; None where there is none to send. Raises EgressError."""
        self.asked = True
        note, step = self._note, self._step
        self._step += 1
        if note is None or sender is None:
            self.kept = False
            return None
        self._sender = sender
        brought = await sender.courier.ask(Errand(call, sender.way, note, step, timeout_s, limit_bytes))
        self.kept = self.kept and brought is not None and brought.noted
        if brought is not None and brought.fault is not None:
            raise EgressError(brought.fault.kind, brought.fault.message, sent=brought.fault.sent)
        return brought.reply if brought is not None else None

    def over(self) -> None:
        """What was noted is in the database, or of no use to anyone."""
        if self._note is not None and self._sender is not None:
            self._sender.courier.done(self._note.attempt)
