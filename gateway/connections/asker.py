"""Where a new pair comes from: the disk, where one that died has left it, or else the provider."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode, Dialogue
from gateway.connections.attempt import Attempt
from gateway.connections.commit import Pair, who
from gateway.connections.dialogues import Dialogues
from gateway.connections.lease import TOKEN_CALL_S
from gateway.oauth.token import GRANT_GONE, TokenRefused, TokenUnavailable
from gateway.records.connection import Connection
from gateway.store import Store
from gateway.store.leftovers import Left
from gateway.store.notes import Noted

log = structlog.get_logger(__name__)

Stored = Callable[[], None]


class Asker:
    """By the lease's holder, and by nobody else."""

    def __init__(self, store: Store, dialogues: Dialogues) -> None:
        self._store = store
        self._dialogues = dialogues

    async def pair(
        self, row: Connection, mode: AuthMode, kept: Mapping[str, Any], context: Context
    ) -> tuple[Pair, Stored]:
        """It is on the disk by then, in as far as it can be; what to call once the database has it comes with it.

        Raises TokenRefused, TokenUnavailable and GatewayError.
        """
        left = await self._store.leftovers.of(row) if row.intent is not None else Left()
        if left.pair is not None:
            log.info("refresh_found_on_the_disk", **who(row.ref))
            return Pair(context.provider, kept, left.pair.credential, left.pair.expires_at), _nothing
        by_courier = self._store.pairs.can_note and await self._dialogues.has_courier()
        await self._store.pairs.prepare(row.ref.environment)
        await clock.give_way()  # not once the answer is there, which is to be on the disk as soon as can be

        def attempt(answers: Sequence[Noted] = ()) -> Attempt:
            return Attempt(self._store.pairs.note(row) if by_courier else None, answers)

        asked, fresh = await self._asked(row, mode, kept, context, left.answers, attempt)
        pair = Pair(context.provider, kept, fresh, mode.expires_at(fresh))
        if asked.kept:
            return pair, asked.over
        written = await self._store.pairs.keep(row, pair.fresh, pair.expires_at)
        asked.over()
        return pair, written

    async def _asked(
        self,
        row: Connection,
        mode: AuthMode,
        kept: Mapping[str, Any],
        context: Context,
        answers: Sequence[Noted],
        attempt: Callable[..., Attempt],
    ) -> tuple[Attempt, dict[str, Any]]:
        if answers:
            log.info("refresh_found_on_the_disk", **who(row.ref))
            again = attempt(answers)
            try:
                return again, await self._held(mode.renew(kept, context), again)
            except (TokenRefused, TokenUnavailable):
                if again.asked:
                    raise  # by the provider, and not by what was found
        first = attempt()
        try:
            return first, await self._held(mode.renew(kept, context), first)
        except TokenRefused as fault:
            before = self._before(row)
            if fault.code not in GRANT_GONE or before is None:
                raise
            # The provider still takes the token before this one, for the case that it, not we, lost the rotation.
            log.warning("previous_refresh_token_tried", **who(row.ref), reason=fault.code)
            second = attempt()
            return second, await self._held(mode.renew({**kept, **before}, context), second)

    async def _held(self, dialogue: Dialogue[dict[str, Any]], attempt: Attempt) -> dict[str, Any]:
        try:
            return await self._dialogues.hold(dialogue, timeout_s=TOKEN_CALL_S, attempt=attempt)
        except Exception:
            attempt.over()
            raise

    def _before(self, row: Connection) -> Mapping[str, Any] | None:
        in_time = row.previous_until is not None and clock.now() < row.previous_until
        return (self._store.open_or_nothing(row.previous) or None) if in_time else None


def _nothing() -> None:
    pass
