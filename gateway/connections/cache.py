"""What is kept of connections, how it learns of changes, and when it is put away.

A kept entry is a row of the store, sealed; its credential stays opened for at most a minute.
"""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Final

import structlog

from gateway import clock
from gateway.config import LiveConfig
from gateway.connections import backoff
from gateway.connections.following import Following
from gateway.connections.integrations import Integrations
from gateway.connections.shelf import Kept, Shelf
from gateway.records.connection import Connection, ConnectionRef, Mark
from gateway.records.integration import Integration
from gateway.store import ChangesMissed, Store
from gateway.vault import VaultError

LONGEST_LOAD_S: Final = 120.0
TIDIED_EVERY_S: Final = 10.0
TOGETHER: Final = 200  # rows that are compared with the database at once

log = structlog.get_logger(__name__)


class Cache(Following):
    """Follows the change log for what it keeps; what is opened, and how, is `Live`'s."""

    def __init__(self, config: LiveConfig, store: Store, integrations: Integrations) -> None:
        super().__init__(config, store, integrations)
        self._kept = Shelf()
        self._forgotten_at: dict[ConnectionRef, float] = {}
        self._cleared_at = 0.0
        self._tidied_at = 0.0
        self._set_aside: dict[ConnectionRef, Connection] = {}
        self.written_back: Counter[tuple[str, str]] = Counter()
        """By environment and integration: newer tokens that were put back after a failover of the database."""

    @abstractmethod
    def _renew_behind(self, connection: Connection) -> None:
        """Renew it although nobody asks for it just now."""

    @property
    def kept(self) -> int:
        """How many connections are in memory."""
        return len(self._kept)

    def replace(self, connection: Connection) -> None:
        """Take over a row that was just written; the credential is opened at its next use."""
        kept = self._kept.get(connection.ref)
        if kept is not None and kept.connection.version <= connection.version:
            if kept.connection.version < connection.version:
                kept.renew_at = None  # which was the former token's; of this one it is known from its first use on
            kept.connection, kept.opened, kept.good_until = connection, None, 0.0

    def forget(self, ref: ConnectionRef) -> None:
        """Delete is effective here at once; elsewhere within `trust_s`."""
        self._kept.drop(ref)
        self._forgotten_at[ref] = clock.monotonic()

    def integration_is(self, environment: str, integration_id: str, made: Integration | None) -> None:
        """Know what was made under that key through the API, None for nothing any more. What was opened under another is
        opened anew, or not at all."""
        if not self._integrations.put(environment, integration_id, made):
            return
        there = self._integrations.has(environment, integration_id)
        for ref, kept in self._kept.items():
            if ref[:2] != (environment, integration_id):
                continue
            if there:
                kept.opened, kept.good_until = None, 0.0
            else:
                self.forget(ref)

    async def _write_back(self) -> None:
        """Of all that is kept, and of what was put away while the database could not be read: what was renewed last first."""
        rows = {**self._set_aside, **{kept.connection.ref: kept.connection for kept in self._kept.values()}}
        ordered = sorted(rows.values(), key=lambda row: row.last_refreshed_at or row.created_at, reverse=True)
        before = self.written_back.total()
        for begin in range(0, len(ordered), TOGETHER):
            some = ordered[begin : begin + TOGETHER]
            marks = await self._store.connections.marks([row.ref for row in some])
            older = (row for row in some if row.ref in marks and marks[row.ref][0] < row.version)
            await asyncio.gather(*map(self._write_one_back, older))
        await self._store.failover.end()
        self._set_aside.clear()
        written_back = self.written_back.total() - before
        if written_back:
            log.error("database_lost_commits", written_back=written_back, kept=len(rows))
        else:
            log.info("changes_missed", kept=len(rows))

    async def _write_one_back(self, row: Connection) -> None:
        where = {"environment": row.ref.environment, "integration": row.ref.integration_id}
        try:
            written = await self._store.connections.write_back(row, now=clock.now())
        except VaultError as fault:
            log.error("token_not_written_back", connection_id=row.ref.connection_id, detail=str(fault), **where)
            return
        if written is not None:
            self.written_back[row.ref[:2]] += 1
            log.warning("token_written_back", connection_id=row.ref.connection_id, version=written.version, **where)

    def _forget_all(self) -> None:
        self._kept.clear()
        self._cleared_at = clock.monotonic()

    async def _refresh_entries(self, refs: Mapping[ConnectionRef, Mark | None]) -> None:
        """One question about all that may be others than they were, and one more about each that is.

        What could not be read is asked for again at the next look, and `_sweep` sees for how long.
        """
        left: dict[ConnectionRef, None] = {}
        for ref, mark in refs.items():
            there = self._kept.get(ref)
            if there is None or there.connection.mark == mark:
                self._unread.pop(ref, None)
            else:
                left[ref] = None
        if not left:
            return
        first: Exception | None = None
        try:
            marks = await self._store.connections.marks(list(left))
            for ref in list(left):
                kept = self._kept.get(ref)
                try:
                    if kept is not None and marks.get(ref) != kept.connection.mark:
                        await self._refresh_entry(ref, kept)
                except Exception as fault:  # noqa: BLE001 (the others are not to suffer from it)
                    first = first or fault
                else:
                    del left[ref]
                    self._unread.pop(ref, None)
        finally:
            for ref in left:
                self._unread.setdefault(ref, clock.monotonic())
        if first is not None:
            raise first

    async def _refresh_entry(self, ref: ConnectionRef, kept: Kept) -> None:
        row = await self._store.connections.get(ref)
        if row is None:
            self.forget(ref)
        elif row.uid == kept.connection.uid and row.version < kept.connection.version:
            raise ChangesMissed  # the database has lost what it had committed
        elif row.mark != kept.connection.mark:
            self._put(Kept(row, used_at=kept.used_at))

    async def _refresh_integration(self, ref: ConnectionRef) -> None:
        try:
            made = await self._store.integrations.get(*ref[:2])
        except VaultError as fault:
            log.error("integration_cannot_be_opened", integration=ref.integration_id, detail=str(fault))
            made = None
        self.integration_is(*ref[:2], made)

    def _sweep(self) -> None:
        now = self._swept_at = clock.monotonic()
        if now - self._synced_at > self._config.ttl_s:
            for kept in self._kept.values():
                self._put_away(kept)
            self._kept.clear()
            self._tell_missed()
        for ref in [ref for ref, at in self._unread.items() if now - at >= self._config.trust_s]:
            del self._unread[ref]
            if (unread := self._kept.get(ref)) is not None:
                self._put_away(unread)
            self.forget(ref)  # known to have changed, and how cannot be read: not served on
        for kept in self._kept.due(now):
            self._see_to(kept, now)
        if now - self._tidied_at >= TIDIED_EVERY_S:
            self._tidied_at = now
            for noted in (self._changed_at, self._forgotten_at):
                for ref in [ref for ref, at in noted.items() if now - at > LONGEST_LOAD_S]:
                    del noted[ref]

    def _see_to(self, kept: Kept, now: float) -> None:
        if now >= kept.used_at + self._config.ttl_s:  # as `next_due` reckons it: what stays must not be due now
            self._put_away(kept)
            self._kept.drop(kept.connection.ref)
            return
        if now >= kept.good_until:
            kept.opened = None  # sealed again: a credential stays opened for a minute at most
        if kept.renew_at is not None and now >= kept.renew_at:
            kept.renew_at = None  # whoever uses it lately shall not wait for its renewal: here, or at its next use
            if backoff.may_try(kept.connection, clock.now()):
                self._renew_behind(kept.connection)
        self._kept.look_again(kept, self._config.ttl_s)

    def _put_away(self, kept: Kept) -> None:
        """Not served any more; while the database cannot be read, it may be newer than what that shows later."""
        if self._lost or self._missed:
            self._set_aside[kept.connection.ref] = kept.connection

    def _put(self, kept: Kept) -> None:
        self._kept.put(kept, ttl_s=self._config.ttl_s, most=self._config.max_connections)
