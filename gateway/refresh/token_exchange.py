"""A journalled call to a token endpoint: its start and its reply are recorded before the reply is returned."""

import asyncio
import json
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gateway import clock
from gateway.egress.client import Egress, fetch_reply
from gateway.egress.egress_errors import EgressError
from gateway.journal import Entry, Writer
from gateway.records.provider_call import ProviderCall, Reply

# ── The credentials that this process has sent, so that no second attempt sends one before the first reply can have
# been read.

Credential = tuple[str, int]  # row and version


class SentCredentials:
    """Credentials in flight or answered. An attempt's credential stays here until the attempt is released."""

    def __init__(self) -> None:
        self._responded: dict[Credential, dict[str, float]] = {}  # attempt ▸ when (monotonic), infinity while under way
        self._credentials: dict[str, Credential] = {}

    def unread(self, entry: Entry, asked_at: float) -> bool:
        """Return whether another attempt with this credential is in flight, or was answered after `asked_at` (monotonic)."""
        others = self._responded.get(_credential(entry), {})
        return any(attempt != entry.attempt and at > asked_at for attempt, at in others.items())

    def record_sent(self, entry: Entry) -> None:
        credential = self._credentials[entry.attempt] = _credential(entry)
        self._responded.setdefault(credential, {})[entry.attempt] = math.inf

    def record_response(self, entry: Entry) -> None:
        if entry.attempt in self._credentials:
            self._responded[self._credentials[entry.attempt]][entry.attempt] = clock.monotonic()

    def forget(self, attempt: str) -> None:
        """Forget the attempt: it has no reply to read, or it is released. An unknown attempt is ignored."""
        credential = self._credentials.pop(attempt, None)
        if credential is not None:
            attempts = self._responded[credential]
            del attempts[attempt]
            if not attempts:
                del self._responded[credential]


def _credential(entry: Entry) -> Credential:
    about = json.loads(entry.about)
    return about["row"], about["version"]


class ExchangeLost(EgressError):
    """The outcome of a call is unknown; its reply may be in the journal and nowhere else."""


class TokenExchange(Protocol):
    """Sends calls of refreshes to token endpoints. `entry` None: there is no journal, and nothing is recorded."""

    @property
    def journal_fault(self) -> str | None:
        """Why replies cannot be journalled now; None if they can, or if none was tried yet."""

    async def ask(
        self, call: ProviderCall, entry: Entry | None, step: int, *, timeout_s: float, limit_bytes: int
    ) -> Reply:
        """Send the call and return its reply, already journalled if possible. `step`: the call's index in its attempt,
        from 0.

        Raises EgressError, and ExchangeLost where the reply may be journalled.
        """

    def released(self, attempt: str) -> None:
        """Release the records of `attempt`: the database has their content, or nobody needs it."""


class Journals:
    """The journal writers of this process, one for each folder."""

    def __init__(self) -> None:
        self._writers: dict[Path, Writer] = {}
        self.sent = SentCredentials()

    def of(self, folder: Path) -> Writer:
        writer = self._writers.get(folder)
        if writer is None:
            writer = self._writers[folder] = Writer(folder)
        return writer

    @property
    def fault(self) -> str | None:
        return next((writer.fault for writer in self._writers.values() if writer.fault), None)

    def released(self, attempt: str) -> None:
        self.sent.forget(attempt)
        for writer in self._writers.values():
            writer.released(attempt)

    async def try_again(self) -> None:
        """Check whether folders that could not be written are writable now."""
        for writer in self._writers.values():
            if writer.fault is not None:
                await writer.ready()

    async def close(self) -> None:
        for writer in self._writers.values():
            await writer.close()
        self._writers.clear()


class LocalExchange:
    """Sends exchanges in this process: calls in flight die with it. `egress` returns the one in use."""

    def __init__(self, journals: Journals, egress: Callable[[], Egress]) -> None:
        self._journals = journals
        self._egress = egress

    @property
    def journal_fault(self) -> str | None:
        return self._journals.fault

    async def ask(
        self, call: ProviderCall, entry: Entry | None, step: int, *, timeout_s: float, limit_bytes: int
    ) -> Reply:
        asking = send_journalled(
            self._journals, self._egress(), call, entry, step, timeout_s=timeout_s, limit_bytes=limit_bytes
        )
        return await asking

    def released(self, attempt: str) -> None:
        self._journals.released(attempt)


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
    """Send the call and return its reply, already journalled if possible. Raises EgressError.

    Only 2xx is recorded: a repeated request gets the same refusal again. `abandoned`: whether the calling process is
    gone. `wanted_at`: when that process sent the request (monotonic), if not now; it has not read later replies. Raises
    ExchangeLost if another attempt sent the same credential and its reply was not read.
    """
    if entry is None:
        return await fetch_reply(egress, call, timeout_s=timeout_s, limit_bytes=limit_bytes, now=now)
    if journals.sent.unread(entry, clock.monotonic() if wanted_at is None else wanted_at):
        raise ExchangeLost("timeout", "the answer to an earlier request with the same token was not read yet.")
    journals.sent.record_sent(entry)
    journalled = False
    try:
        writer = journals.of(entry.folder)
        begun = await writer.begin(entry, step)
        if abandoned():  # a recovery may have read the journal before this call was recorded in it
            if begun is not None:
                writer.drop(entry, step, begun)
            raise EgressError("unreachable", "the process that wanted it has ended.", sent=False)
        try:
            reply = await fetch_reply(egress, call, timeout_s=timeout_s, limit_bytes=limit_bytes, now=now)
        except asyncio.CancelledError:
            raise  # the token may be spent: keep the record that this call had begun
        except BaseException:
            if begun is not None:
                writer.drop(entry, step, begun)
            raise
        if begun is not None and 200 <= reply.status < 300:
            journalled = await writer.reply(entry, step, begun, call, reply)
        elif begun is not None:
            writer.drop(entry, step, begun)
        return reply
    finally:
        if journalled:
            journals.sent.record_response(entry)
        else:
            journals.sent.forget(entry.attempt)
