"""Where a new pair comes from: the journal, where a process that died has left the reply, or else the provider."""

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
from gateway.journal import Recorded
from gateway.oauth.token import GRANT_GONE, TokenRefused, TokenUnavailable
from gateway.records.connection import Connection
from gateway.store import Store
from gateway.store.refresh_journal import Left

log = structlog.get_logger(__name__)

Release = Callable[[], None]


class Asker:
    """By the lease's holder, and by nobody else."""

    def __init__(self, store: Store, dialogues: Dialogues) -> None:
        self._store = store
        self._dialogues = dialogues

    async def pair(
        self, row: Connection, mode: AuthMode, kept: Mapping[str, Any], context: Context
    ) -> tuple[Pair, Release]:
        """Its reply is in the journal by then, if it can be; what to call once the database has the pair comes with it.

        Raises TokenRefused, TokenUnavailable and GatewayError.
        """
        left = await self._store.journal.left(row) if row.intent is not None else Left()
        if left.credential is not None:
            log.info("refresh_found_in_journal", **who(row.ref))
            return Pair(context.provider, kept, left.credential.values, left.credential.expires_at), _nothing
        await self._store.journal.prepare(row.ref.environment)
        await clock.give_way()  # not once the reply is there, which is to be in the journal as soon as can be
        attempt, fresh = await self._asked(row, mode, kept, context, left.replies)
        return Pair(context.provider, kept, fresh, mode.expires_at(fresh)), attempt.release

    async def _asked(
        self, row: Connection, mode: AuthMode, kept: Mapping[str, Any], context: Context, replies: Sequence[Recorded]
    ) -> tuple[Attempt, dict[str, Any]]:
        if replies:
            log.info("refresh_found_in_journal", **who(row.ref))
            again = self._attempt(row, replies)
            try:
                return again, await self._held(mode.renew(kept, context), again)
            except (TokenRefused, TokenUnavailable):
                if again.asked:
                    raise  # by the provider, and not by what was recorded
        first = self._attempt(row)
        try:
            return first, await self._held(mode.renew(kept, context), first)
        except TokenRefused as fault:
            before = self._before(row)
            if fault.code not in GRANT_GONE or before is None:
                raise
            # The provider still takes the token before this one, for the case that it, not we, lost the rotation.
            log.warning("previous_refresh_token_tried", **who(row.ref), reason=fault.code)
            second = self._attempt(row)
            return second, await self._held(mode.renew({**kept, **before}, context), second)

    def _attempt(self, row: Connection, replies: Sequence[Recorded] = ()) -> Attempt:
        return Attempt(self._dialogues.exchange, self._store.journal.entry(row), replies)

    async def _held(self, dialogue: Dialogue[dict[str, Any]], attempt: Attempt) -> dict[str, Any]:
        try:
            return await self._dialogues.hold(dialogue, timeout_s=TOKEN_CALL_S, attempt=attempt)
        except Exception:
            attempt.release()
            raise

    def _before(self, row: Connection) -> Mapping[str, Any] | None:
        in_time = row.previous_until is not None and clock.now() < row.previous_until
        return (self._store.open_or_nothing(row.previous) or None) if in_time else None


def _nothing() -> None:
    pass
