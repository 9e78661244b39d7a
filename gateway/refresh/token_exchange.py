"""Calls token endpoints, and writes the start and the reply of each call to the journal before it returns the reply."""

import asyncio
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gateway import clock
from gateway.egress.client import Egress, fetch_reply
from gateway.egress.egress_errors import EgressError
from gateway.journal import Entry, JournalWriter
from gateway.records.provider_call import ProviderCall, Reply

# ── Remembers the credentials that this process has sent. A second attempt must not send the same credential before its
# worker could read the reply to the first attempt.

CredentialId = tuple[str, int]  # the `uid` of a connection, and the version of its credential


class SentCredentials:
    """Credentials of attempts that are in flight, or that have a journalled reply which is not released yet."""

    def __init__(self) -> None:
        # For each attempt: when its reply arrived, in monotonic seconds; infinity while the call is in flight.
        self._responded_at: dict[CredentialId, dict[str, float]] = {}
        self._credential_ids: dict[str, CredentialId] = {}

    def has_unread_reply(self, entry: Entry, asked_at: float) -> bool:
        """Return whether another attempt with this credential is in flight, or got its reply after `asked_at`
        (monotonic)."""
        responded_at_by_attempt = self._responded_at.get(_credential_id(entry), {})
        return any(
            attempt != entry.attempt and responded_at > asked_at
            for attempt, responded_at in responded_at_by_attempt.items()
        )

    def record_sent(self, entry: Entry) -> None:
        credential = self._credential_ids[entry.attempt] = _credential_id(entry)
        self._responded_at.setdefault(credential, {})[entry.attempt] = math.inf

    def record_response(self, entry: Entry) -> None:
        if entry.attempt in self._credential_ids:
            self._responded_at[self._credential_ids[entry.attempt]][entry.attempt] = clock.monotonic()

    def forget(self, attempt: str) -> None:
        """Forget the attempt, because its reply was released or not journalled. An unknown attempt is ignored."""
        credential = self._credential_ids.pop(attempt, None)
        if credential is not None:
            attempts = self._responded_at[credential]
            del attempts[attempt]
            if not attempts:
                del self._responded_at[credential]


def _credential_id(entry: Entry) -> CredentialId:
    return entry.about["row"], entry.about["version"]


class ExchangeLost(EgressError):
    """The outcome of a call is unknown. The journal might have the only copy of the reply."""


class TokenExchange(Protocol):
    """Sends the calls of refreshes to token endpoints.

    If a method gets None as `entry`, there is no journal, and nothing is recorded.
    """

    @property
    def journal_fault(self) -> str | None:
        """Why replies cannot be journalled now; None if they can, or if no call was sent yet."""

    @property
    def available(self) -> bool:
        """Whether calls can be sent. Without its parent, a worker sends none until it ends."""

    async def send(
        self, call: ProviderCall, entry: Entry | None, step: int, *, timeout_s: float, limit_bytes: int
    ) -> Reply:
        """Send the call, journal the reply if possible, and return the reply.

        `step`: the call's index in its attempt, from 0. Raises EgressError. Raises ExchangeLost if the outcome is
        unknown and the journal might have the reply.
        """

    def release(self, attempt: str) -> None:
        """Let the journal delete the records of `attempt`, which are no longer needed."""


class Journals:
    """The journal writers of this process, one for each folder."""

    def __init__(self) -> None:
        self._writers: dict[Path, JournalWriter] = {}
        self.sent_credentials = SentCredentials()

    def of(self, folder: Path) -> JournalWriter:
        writer = self._writers.get(folder)
        if writer is None:
            writer = self._writers[folder] = JournalWriter(folder)
        return writer

    @property
    def fault(self) -> str | None:
        return next((writer.fault for writer in self._writers.values() if writer.fault), None)

    def release(self, attempt: str) -> None:
        self.sent_credentials.forget(attempt)
        for writer in self._writers.values():
            writer.release(attempt)

    async def try_again(self) -> None:
        """Try again to create a file in each journal folder that could not be written before."""
        for writer in self._writers.values():
            if writer.fault is not None:
                await writer.ready()

    async def close(self) -> None:
        for writer in self._writers.values():
            await writer.close()
        self._writers.clear()


class LocalExchange:
    """Sends token exchanges from this process, without a parent. If the process dies, calls in flight are lost.

    `egress`: returns the egress of the current configuration.
    """

    def __init__(self, journals: Journals, egress: Callable[[], Egress]) -> None:
        self._journals = journals
        self._egress = egress

    @property
    def journal_fault(self) -> str | None:
        return self._journals.fault

    @property
    def available(self) -> bool:
        return True

    async def send(
        self, call: ProviderCall, entry: Entry | None, step: int, *, timeout_s: float, limit_bytes: int
    ) -> Reply:
        return await send_journalled(
            self._journals, self._egress(), call, entry, step, timeout_s=timeout_s, limit_bytes=limit_bytes
        )

    def release(self, attempt: str) -> None:
        self._journals.release(attempt)


async def send_journalled(
    journals: Journals,
    egress: Egress,
    call: ProviderCall,
    entry: Entry | None,
    step: int,
    *,
    timeout_s: float,
    limit_bytes: int,
    now: Callable[[], datetime] | None = None,
    wanted_at: float | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Reply:
    """Send the call, journal the reply if possible, and return the reply. Raises EgressError.

    Only a 2xx reply is journalled, because after a refusal the same request gets the same refusal again. `now`: returns
    the time for the reply's `asked_at`; None means the clock of this process. `abandoned`: returns whether the worker
    that wants the reply is gone; then nothing is sent. `wanted_at`: when the worker sent the request, in monotonic
    seconds; None means now. The worker has not read replies that arrived after `wanted_at`, and it waits for at most
    `timeout_s` seconds. After that, nothing is sent: the worker no longer renews its lease, so another node might have
    replaced the token. Raises ExchangeLost if another attempt sent the same credential and the worker has not read the
    reply.
    """
    wanted_at = clock.monotonic() if wanted_at is None else wanted_at
    if entry is None:
        _check_still_awaited(wanted_at, timeout_s)
        return await fetch_reply(egress, call, timeout_s=timeout_s, limit_bytes=limit_bytes, now=now, once=True)
    if journals.sent_credentials.has_unread_reply(entry, wanted_at):
        raise ExchangeLost("timeout", "the response to an earlier request with the same token was not read yet.")
    journals.sent_credentials.record_sent(entry)
    is_journalled = False
    try:
        writer = journals.of(entry.folder)
        segment = await writer.begin(entry, step)
        try:
            _check_still_awaited(wanted_at, timeout_s)  # a blocked process or a slow disk can take this long
            if abandoned():  # a recovery might have read the journal before this call was recorded
                raise EgressError("unreachable", "the worker that requested the exchange has ended.", sent=False)
            reply = await fetch_reply(egress, call, timeout_s=timeout_s, limit_bytes=limit_bytes, now=now, once=True)
        except asyncio.CancelledError:
            raise  # the token might be spent: keep the record that this call began
        except BaseException:
            if segment is not None:
                writer.release_call(entry, step, segment)
            raise
        if segment is not None and 200 <= reply.status < 300:
            is_journalled = await writer.reply(entry, step, segment, call, reply)
        elif segment is not None:
            writer.release_call(entry, step, segment)
        return reply
    finally:
        if is_journalled:
            journals.sent_credentials.record_response(entry)
        else:
            journals.sent_credentials.forget(entry.attempt)


def _check_still_awaited(wanted_at: float, timeout_s: float) -> None:
    """Raise EgressError if the process that wanted the call at `wanted_at` (monotonic) no longer waits for its reply."""
    if clock.monotonic() - wanted_at >= timeout_s:
        raise EgressError("timeout", f"the request was not sent within {timeout_s:g} s.", sent=False)
