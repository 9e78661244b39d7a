"""A master key that this process was not given: the operator may have put it into the configuration, and not told us yet.

So the configuration is asked for anew, once for all who miss the key meanwhile, and ever more rarely where it does not come.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable
from typing import Final

import structlog

from gateway import clock
from gateway.pauses import Pauses
from gateway.vault import WrappedKey

ANSWER_S: Final = 3.0  # a whole configuration is read anew within one, as a rule; requests wait for it
TOLD_EVERY_S: Final = 60.0  # of each data key, however many requests need it

log = structlog.get_logger(__name__)


class MissingKeys:
    """`ask`: begins to read the configuration anew for these master keys; `answered` is then called. None: nobody can."""

    def __init__(self) -> None:
        self.ask: Callable[[Collection[str]], None] | None = None
        self._answer: asyncio.Future[None] | None = None
        self._overdue_at = 0.0  # when it should have been there (monotonic)
        self._pauses = Pauses()
        self._told: dict[str, float] = {}  # data key id ▸ when (monotonic)

    def tell(self, locked: Iterable[WrappedKey]) -> None:
        """Log which data keys do not open, since they are wrapped under master keys that are missing."""
        now = clock.monotonic()
        for one in locked:
            if now < self._told.get(one.id, -math.inf) + TOLD_EVERY_S:
                continue
            self._told[one.id] = now
            detail = f"Data key {one.id} is wrapped under master key {one.master_key_id}, which is not given."
            log.error("data_key_unusable", detail=detail, fix="add that key to store.encryption_keys; reload")

    async def asked_for(self, ids: Collection[str]) -> bool:
        """Whether the configuration was read anew since these master keys, by id, were found missing.

        Waits at most `ANSWER_S`. False at once where that was in vain a moment ago.
        """
        if self._answer is not None and clock.monotonic() < self._overdue_at:
            answer: asyncio.Future[None] | None = self._answer
        else:
            answer = self._begun(ids)
        if answer is None:
            return False
        done, _ = await asyncio.wait({answer}, timeout=ANSWER_S)
        return bool(done)

    def answered(self) -> None:
        """It was read anew, whatever came of it."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)
        self._answer = None

    def _begun(self, ids: Collection[str]) -> "asyncio.Future[None] | None":
        due = self._pauses.due(ids) if self.ask is not None else []
        if self.ask is None or not due:
            return None
        log.warning("encryption_key_missing", key_ids=due, effect="the configuration is read again")
        # One that is overdue may be lost, so it is asked for again; whoever waits for it still has what comes first.
        answer = self._answer = self._answer or asyncio.get_running_loop().create_future()
        self._overdue_at = clock.monotonic() + ANSWER_S
        self.ask(due)
        return answer
