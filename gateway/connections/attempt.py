"""One attempt to refresh a credential: its replies are journalled, and what one before it was answered is not asked again."""

from collections.abc import Sequence

from gateway.journal import Entry, Recorded
from gateway.journal.record import call_name
from gateway.records.call import Call, Reply
from gateway.refresh.exchange import Exchange, ExchangeLost


class Attempt:
    """`entry` None: there is no journal. `recorded`: replies to calls of earlier attempts.

    `asked`: whether a provider was asked anything.
    """

    def __init__(self, exchange: Exchange, entry: Entry | None = None, recorded: Sequence[Recorded] = ()) -> None:
        self._exchange = exchange
        self._entry = entry
        self._recorded = list(recorded)
        self._earlier = {one.attempt for one in recorded}
        self._lost = False
        self._step = 0
        self.asked = False

    def recorded(self, call: Call) -> Reply | None:
        """The reply that an earlier attempt had to the same call, if it got that far."""
        for one in self._recorded:
            if one.call == call_name(call):
                self._recorded.remove(one)
                return one.reply
        return None

    async def ask(self, call: Call, timeout_s: float, limit_bytes: int) -> Reply:
        """Raises EgressError."""
        self.asked = True
        step = self._step
        self._step += 1
        try:
            return await self._exchange.ask(call, self._entry, step, timeout_s=timeout_s, limit_bytes=limit_bytes)
        except ExchangeLost:
            self._lost = True
            raise

    def release(self) -> None:
        """What was recorded is in the database, or of no use. Of an exchange that was lost nobody knows that."""
        for attempt in self._earlier:
            self._exchange.released(attempt)
        if self._entry is not None and self._step and not self._lost:
            self._exchange.released(self._entry.attempt)
