"""The cache of opened connections. Proxied calls read only this cache. Reads of the store use single flight.

An entry is an encrypted row of the store. An entry's credential stays decrypted for at most a minute. A task follows
the store's change log, so that deletions and refreshes by other processes also take effect in this process. Such
changes usually take effect immediately, and at the latest within `trust_s` seconds. If the store cannot be read, entries
stay usable until `ttl_s` seconds after the last read of the store.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Final

import structlog

from gateway import clock
from gateway.access import refusals
from gateway.catalog.provider import Provider
from gateway.config import LiveConfig
from gateway.connections.cache_entries import CacheEntries, CacheEntry
from gateway.connections.change_feed import ChangeFeed, Follower
from gateway.connections.lost_commits import LostCommits
from gateway.connections.opened import OpenedConnection, open_connection
from gateway.connections.refused_scopes import ScopeRefusals
from gateway.connections.rejected_credentials import EarlyRefreshes, Rejections
from gateway.errors import GatewayError, InvalidRequest, NotFound, ReconnectNeeded, Unavailable
from gateway.generation import CurrentGeneration, Generation
from gateway.integrations.registry import ManagedIntegrations
from gateway.records.connection import Connection, ConnectionRef, Mark
from gateway.records.integration import Integration
from gateway.refresh import backoff
from gateway.refresh.auth_exchange import mode_for
from gateway.refresh.refresher import Refresher
from gateway.refresh.schedule import RefreshSlots, refresh_at, refresh_from, requests_wait_from, seconds_left
from gateway.store import ChangesMissed, Store
from gateway.vault import VaultError

# ── Finds the integrations that a new configuration does not change. Only connections of such integrations stay open.


def is_unchanged(
    old_generation: Generation, new_generation: Generation, environment: str, integration_id: str
) -> bool | None:
    """Return whether the integration and its catalog entry are unchanged, or None if the integration no longer
    exists."""
    integration = new_generation.integrations.find(environment, integration_id)
    if integration is None:
        return None
    is_same_integration = integration == old_generation.integrations.find(environment, integration_id)
    return is_same_integration and new_generation.catalog.get(integration.provider) == old_generation.catalog.get(
        integration.provider
    )


# ── Reads connection rows from the store with single flight: one read for all callers that wait for the same row.


class SingleFlightRows:
    """The reads in progress. A read continues when the calls that wait for it are cancelled."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loading: dict[ConnectionRef, asyncio.Task[Connection]] = {}

    async def row(self, ref: ConnectionRef) -> Connection:
        """Return the row from the store, with one read for all concurrent callers. Raises NotFound if the connection
        does not exist."""
        task = self._loading.get(ref)
        if task is None:
            task = asyncio.create_task(self.reload_row(ref))
            self._loading[ref] = task
            task.add_done_callback(lambda done: self._on_read(ref, done))
        return await asyncio.shield(task)

    def handle_change(self, ref: ConnectionRef) -> None:
        """Let later callers begin a new read, because the read in progress may return the row before its change."""
        self._loading.pop(ref, None)

    def handle_missed_changes(self) -> None:
        self._loading.clear()

    def _on_read(self, ref: ConnectionRef, task: "asyncio.Task[Connection]") -> None:
        if self._loading.get(ref) is task:
            del self._loading[ref]
        if not task.cancelled():
            task.exception()  # marks the error as handled; otherwise asyncio logs it if no caller waits for the task

    async def reload_row(self, ref: ConnectionRef) -> Connection:
        """Return the row from the store with a new read. Raises NotFound if the connection does not exist."""
        row = await self._store.connections.get(ref)
        if row is None:
            raise NotFound(
                "unknown_connection",
                f"Integration '{ref.integration_id}' in environment '{ref.environment}' has no connection "
                f"'{ref.connection_id}'. Check the id, or {refusals.CONNECT_STEP}.",
                payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
            )
        return row


# ── The cache: opens connections, keeps them current, and evicts them.

log = structlog.get_logger(__name__)

MAX_LOAD_S: Final = 120.0
CLEANUP_EVERY_S: Final = 10.0
OPEN_FOR_S: Final = 60.0
TRAVEL_TIME_S: Final = 0.1  # a token with less remaining lifetime could expire before it reaches the provider
# how far ahead refreshes are scheduled; a connection in use is scheduled again before then
SCHEDULE_AHEAD_S: Final = 3600.0
RETRY_S: Final = 5.0  # pause after a background refresh that failed, unless the stored failure has a later time
RECHECK_S: Final = 1.0  # how long a credential in its refresh window is used before the cache checks its refresh again
MAX_ORIGINS: Final = 10_000  # maximum number of origins in `provider_at`


class ConnectionCache:
    """Maps a connection's reference to the opened connection. `feed` keeps the cache up to date.

    `provider_at`: maps the origins of opened connections to the names of their providers, for metrics. `followers`:
    other caches that get the same changes. `on_change`: called after changes in the store, except after refreshes by
    this process. `lost_commits`: the rows to write back after a failover of the database.
    """

    def __init__(
        self,
        store: Store,
        current: CurrentGeneration,
        managed: ManagedIntegrations,
        refresher: Refresher,
        followers: Sequence[Follower] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._current = current
        self._managed = managed
        self._entries = CacheEntries()
        self._loads = SingleFlightRows(store)
        self.feed = ChangeFeed(store, current, managed, self, (self._loads, *followers), on_change)
        self._forgotten_at: dict[ConnectionRef, float] = {}
        self._cleared_at = 0.0
        self._cleaned_at = 0.0
        self._refresher = refresher
        self.lost_commits = LostCommits(store, refresher)
        self._slots = RefreshSlots()
        self.provider_at: dict[str, str] = {}
        self.early_refreshes = EarlyRefreshes(store, refresher, self)
        self.rejections = Rejections(store, refresher.metrics, self.replace, self._leave_fast_path)
        self.scope_refusals = ScopeRefusals(store, self.replace)
        current.add_listener(self._apply_generation)

    @property
    def _limits(self) -> LiveConfig:
        return self._current.generation.config.live

    @property
    def entry_count(self) -> int:
        """Number of connections in memory."""
        return len(self._entries)

    @property
    def decrypted_count(self) -> int:
        """Number of decrypted credentials in memory."""
        return sum(entry.opened is not None for entry in self._entries.values())

    async def close(self) -> None:
        """Stop waiting for refreshes, which continue in the refresher. Then wait until rejections are stored."""
        await self.early_refreshes.close()
        await self.rejections.close()

    # ── connections for calls ─────────────────────────────────────────────────────────────────────────────────────────

    def peek(self, ref: ConnectionRef, now: float | None = None) -> OpenedConnection | None:
        """Return the connection if its entry is fresh, else None. This is a dictionary lookup, without I/O and without
        await. `now`: monotonic seconds, None to read the clock."""
        entry = self._entries.get(ref)
        if entry is None:
            return None
        if now is None:
            now = clock.monotonic()
        if now >= entry.good_until:
            return None
        entry.used_at = now
        return entry.opened

    def reopen(self, ref: ConnectionRef) -> OpenedConnection | None:
        """Open the connection again, without await, if its row is in memory and its token needs no refresh.

        Otherwise return None; the caller must then use `open_connection`.
        """
        entry = self._entries.get(ref)
        if entry is None or (entry.opened is not None and entry.opened.for_one_request):
            return None
        connection, now = entry.connection, clock.now()
        try:
            due = refresh_from(connection, self.provider_of(connection))
            if _has_expired(connection, now) or (due is not None and now >= due):
                return None
            opened_connection = self._open_and_cache(connection, OPEN_FOR_S, clock.monotonic())
        except (GatewayError, VaultError):
            return None
        return None if opened_connection.for_one_request else opened_connection

    async def open_connection(self, environment: str, integration_id: str, connection_id: str) -> OpenedConnection:
        """Return the connection, loaded and refreshed if needed. Raises NotFound if the connection does not exist,
        ReconnectNeeded if the end user must authorize again, and Unavailable if the token cannot be refreshed now."""
        ref = ConnectionRef(environment, integration_id, connection_id)
        opened_connection = self.peek(ref)
        if opened_connection is not None:
            return opened_connection
        self._current.generation.integrations.get(environment, integration_id)
        began_at = clock.monotonic()
        connection = await self.read_row(ref)
        provider = self.provider_of(connection)
        now = clock.now()
        usable_s = OPEN_FOR_S
        if _has_expired(connection, now):
            if connection.failure is not None and not self.may_try(connection, now):
                raise backoff.refresh_error(connection, connection.failure, now)  # raised without a read of the store
            connection = await self._refresh_connection(connection)
        elif (due := refresh_from(connection, provider)) is not None and now >= due:
            connection, usable_s = await self._refresh_if_urgent(connection, provider, now), RECHECK_S
        return self._open_and_cache(connection, usable_s, began_at)

    async def open_unusable(self, ref: ConnectionRef) -> OpenedConnection | None:
        """Return a connection that must be authorized again, opened with its stored credential; None if it cannot be
        opened.

        It is not cached, and only for checks of a request: the request must not be sent.
        """
        try:
            connection = await self.read_row(ref)
            provider = self.provider_of(connection)
            credential = self._store.open(connection.credential)
            secret_config = self._store.open(connection.secret_config)
            integration = self._current.generation.integrations.get(*ref[:2])
            mode = mode_for(provider, credential, ref)
            return open_connection(connection, integration, provider, mode, credential, secret_config)
        except (GatewayError, VaultError):
            return None

    async def fresh_row(self, ref: ConnectionRef, *, force: bool = False) -> tuple[Connection, GatewayError | None]:
        """Return the row from the store. The token is refreshed first if it is in its refresh window, if it has
        expired, or if `force` is true.

        If the refresh fails and the token is still valid, the error is returned with the row. The error is raised if
        the token has expired. With `force`, the error is also raised if the refusal is final.
        """
        connection = await self._loads.row(ref)
        provider = self.provider_of(connection)
        due = refresh_from(connection, provider)
        now = clock.now()
        expired = _has_expired(connection, now)
        is_due = force or (due is not None and now >= due and (expired or self.may_try(connection, now)))
        credential = self._store.open(connection.credential)
        if not is_due or (not expired and not mode_for(provider, credential, ref).refreshable(credential, provider)):
            return connection, None
        try:
            connection = await self._refresher.refresh(connection, force=force)
        except (ReconnectNeeded, Unavailable, InvalidRequest) as fault:
            if _has_expired(connection, clock.now()) or (force and isinstance(fault, ReconnectNeeded)):
                raise
            # The row is read again, because the earlier row has neither the failure nor a token that another node got
            # meanwhile.
            row = await self._loads.reload_row(ref)
            return row, fault if row.version == connection.version else None
        self.replace(connection)
        return connection, None

    async def read_row(self, ref: ConnectionRef) -> Connection:
        """Return the row from memory, or from the store if it is not in memory. Raises NotFound if the connection does
        not exist."""
        entry = self._entries.get(ref)
        return entry.connection if entry else await self._loads.row(ref)

    def provider_of(self, connection: Connection) -> Provider:
        """Return the connection's catalog entry. Raises ReconnectNeeded if its integration now uses another provider,
        and NotFound if that provider has no entry any more."""
        generation = self._current.generation
        integration = generation.integrations.get(*connection.ref[:2])
        provider = generation.catalog.get(connection.provider)
        if provider is None and integration.provider == connection.provider:
            raise backoff.no_catalog_entry_error(integration.integration_id, integration.provider)
        if provider is None or integration.provider != connection.provider:
            raise ReconnectNeeded(
                "reconnect_needed",
                f"Connection '{connection.ref.connection_id}' was made with provider '{connection.provider}', but "
                f"integration '{integration.integration_id}' now uses '{integration.provider}'. "
                + refusals.sentence(refusals.RECONNECT_STEP),
                payload={
                    "provider_config_key": connection.ref.integration_id,
                    "connection_id": connection.ref.connection_id,
                },
            )
        return provider

    def _open_and_cache(self, connection: Connection, usable_s: float, began_at: float) -> OpenedConnection:
        provider = self.provider_of(connection)  # read again, because the configuration can change during a refresh
        credential = self._store.open(connection.credential)
        secret_config = self._store.open(connection.secret_config)
        integration = self._current.generation.integrations.get(*connection.ref[:2])
        mode = mode_for(provider, credential, connection.ref)
        opened_connection = open_connection(connection, integration, provider, mode, credential, secret_config)
        self.rejections.apply_stored_verdict(connection)
        if len(self.provider_at) >= MAX_ORIGINS:
            self.provider_at.clear()  # origins in use are added again within a minute
        self.provider_at.update(dict.fromkeys(opened_connection.allowed_origins, provider.name))
        now = clock.monotonic()
        if self._forgotten_at.get(connection.ref, 0.0) >= began_at:
            return opened_connection  # deleted during the load: used for this request, but not cached
        if max(self.feed.changed_at.get(connection.ref, 0.0), self._cleared_at) >= began_at:
            # The change may be newer than this row, so the next run of the feed reads the row again.
            self.feed.unread.setdefault(connection.ref, now)
        good_until = (
            0.0
            if opened_connection.for_one_request
            else now + min(usable_s, seconds_left(connection, provider, clock.now(), max_s=OPEN_FOR_S))
        )
        refresh_at = self._refresh_at(connection, provider, now) if mode.refreshable(credential, provider) else None
        self._put(CacheEntry(connection, opened_connection, good_until, now, refresh_at))
        return opened_connection

    def _put(self, entry: CacheEntry) -> None:
        limits = self._limits
        self._entries.put(entry, ttl_s=limits.ttl_s, max_entries=limits.max_connections, max_bytes=limits.max_bytes)

    def _leave_fast_path(self, ref: ConnectionRef) -> None:
        entry = self._entries.get(ref)
        if entry is not None and entry.opened is not None:
            entry.opened.fast_route.clear()

    # ── refreshes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def may_try(self, connection: Connection, now: datetime) -> bool:
        """Return whether a new refresh may be tried for this connection. After a failure, the gateway waits before the
        next refresh."""
        if connection.failure is None:
            return True
        client_since = self._current.generation.integrations.client_since(*connection.ref[:2])
        return backoff.may_try(connection, now, client_since)

    async def _refresh_connection(self, connection: Connection) -> Connection:
        """Refresh the connection. If the new token is so short-lived that it has already expired, refresh once more."""
        connection = await self._refresher.refresh(connection)
        return await self._refresher.refresh(connection) if _has_expired(connection, clock.now()) else connection

    async def _refresh_if_urgent(self, connection: Connection, provider: Provider, now: datetime) -> Connection:
        """Refresh a connection with a valid token that is due for a refresh, and return the connection to use. The
        refresh runs in the background. The request waits for the refresh only if the token is about to expire."""
        if not self.may_try(connection, now):
            return connection
        wait_from, expires_at = requests_wait_from(connection, provider), connection.expires_at
        if wait_from is None or expires_at is None or now < wait_from:
            self._refresh_in_background(connection)
            return connection
        spare_s = (expires_at - now).total_seconds() - TRAVEL_TIME_S
        if spare_s > 0:
            task = self._refresher.start(connection, urgent=True)
            await asyncio.wait({task}, timeout=spare_s)
            if not task.done() or task.cancelled() or task.exception() is not None:
                return connection  # the refresh is slow or failed; the token is still valid for this request
            return task.result()
        try:
            return await self._refresher.refresh(connection)
        except (ReconnectNeeded, Unavailable):
            if _has_expired(connection, clock.now()):
                raise
            return connection

    def _refresh_at(self, connection: Connection, provider: Provider, now: float) -> float | None:
        """Return when to refresh the connection, in monotonic seconds, or None if no refresh is to be scheduled. Each
        token is scheduled only once: if the token already has a time, this time is returned again. A refresh that runs
        now does not count as scheduled, because it can fail."""
        entry = self._entries.get(connection.ref)
        if entry is not None and entry.connection.version == connection.version and entry.refresh_at is not None:
            return entry.refresh_at
        due = refresh_from(connection, provider)
        if due is not None and clock.now() >= due:
            return now + RETRY_S  # the refresh runs now, or has failed
        # Look ahead at least as long as an unused entry stays in memory, because this time is computed again only at
        # the entry's next use.
        within_s = max(SCHEDULE_AHEAD_S, self._limits.ttl_s + OPEN_FOR_S)
        return refresh_at(connection, provider, now, self._slots, within_s=within_s)

    def _refresh_in_background(self, connection: Connection) -> None:
        self._refresher.start_background_refresh(connection, partial(self._after_background_refresh, connection))

    def _after_background_refresh(self, row: Connection, task: "asyncio.Task[Connection]") -> None:
        """Put the refreshed connection into the cache. If the refresh failed, for example because the store or the token
        endpoint was not available, try it again later, even if no request needs it. `row`: the row before the refresh."""
        if task.cancelled():
            return
        if task.exception() is None:
            self.replace(task.result())
            return
        entry = self._entries.get(row.ref)
        if entry is not None and entry.connection.version == row.version and entry.refresh_at is None:
            entry.refresh_at = clock.monotonic() + RETRY_S  # if a failure was stored, it is postponed again then
            self._entries.schedule_entry(entry, self._limits.ttl_s)

    # ── changes by this process ───────────────────────────────────────────────────────────────────────────────────────

    def _apply_generation(self, old_generation: Generation, new_generation: Generation) -> None:
        """Close connections if their integration or catalog entry changed. The next use opens each of them again."""
        unchanged = cache(partial(is_unchanged, old_generation, new_generation))
        for ref, entry in self._entries.items():
            is_same = unchanged(*ref[:2])
            if is_same is None:
                self._entries.drop(ref)
                continue
            if not is_same:
                entry.opened, entry.good_until = None, 0.0
            self._entries.schedule_entry(entry, new_generation.config.live.ttl_s)  # `ttl_s` may have changed

    def apply_integration(self, environment: str, integration_id: str, integration: Integration | None) -> None:
        """Apply a change of an integration made through the API. `integration`: the changed integration, None if it was
        deleted. The integration's connections in memory are opened again at their next use. If the integration no
        longer exists, the connections are dropped."""
        if not self._managed.put(environment, integration_id, integration):
            return
        has_integration = self._current.generation.integrations.has(environment, integration_id)
        for ref, entry in self._entries.items():
            if ref[:2] != (environment, integration_id):
                continue
            if has_integration:
                entry.opened, entry.good_until = None, 0.0
            else:
                self.forget(ref)

    def replace(self, connection: Connection) -> None:
        """Replace the cached row by a row that was just written. The next use opens the credential."""
        self._loads.handle_change(connection.ref)
        entry = self._entries.get(connection.ref)
        if entry is not None and entry.connection.version <= connection.version:
            if entry.connection.version < connection.version:
                entry.refresh_at = None  # this time was for the old token; the new token's first use sets a new time
            entry.connection, entry.opened, entry.good_until = connection, None, 0.0
            self._entries.update_size(entry)

    def forget(self, ref: ConnectionRef) -> None:
        """Drop a deleted connection. The deletion takes effect immediately in this process, and within `trust_s`
        seconds in other processes."""
        self._entries.drop(ref)
        self._loads.handle_change(ref)
        self._forgotten_at[ref] = clock.monotonic()

    # ── called by the change feed (`FedCache`) ────────────────────────────────────────────────────────────────────────

    async def refresh_entries(self, refs: Mapping[ConnectionRef, Mark | None]) -> None:
        """With one query, read the versions of all connections that may have changed. Then read each changed row.

        A row that cannot be read is read again at each run of the feed, until `sweep` drops the row.
        """
        changed_refs: dict[ConnectionRef, None] = {}
        for ref, mark in refs.items():
            cached_entry = self._entries.get(ref)
            if cached_entry is None or cached_entry.connection.mark == mark:
                self.feed.unread.pop(ref, None)
            else:
                changed_refs[ref] = None
        if not changed_refs:
            return
        first_fault: Exception | None = None
        try:
            marks = await self._store.connections.marks(list(changed_refs))
            for ref in list(changed_refs):
                entry = self._entries.get(ref)
                try:
                    if entry is not None and marks.get(ref) != entry.connection.mark:
                        await self._refresh_entry(ref, entry)
                except Exception as fault:  # noqa: BLE001 (one failure must not stop the other entries)
                    first_fault = first_fault or fault
                else:
                    del changed_refs[ref]
                    self.feed.unread.pop(ref, None)
        finally:
            for ref in changed_refs:
                self.feed.unread.setdefault(ref, clock.monotonic())
        if first_fault is not None:
            raise first_fault

    async def _refresh_entry(self, ref: ConnectionRef, entry: CacheEntry) -> None:
        known_row = entry.connection
        row = await self._store.connections.get(ref)
        current_entry = self._entries.get(ref) or entry
        if row is None:
            self.forget(ref)
        elif row.uid == known_row.uid and row.version < known_row.version:
            raise ChangesMissed  # the database has lost commits
        elif row.uid == current_entry.connection.uid and row.version < current_entry.connection.version:
            return  # this process refreshed the connection during the read
        elif row.mark != current_entry.connection.mark:
            same_token = row.uid == current_entry.connection.uid and row.version == current_entry.connection.version
            self._put(
                CacheEntry(row, used_at=entry.used_at, refresh_at=current_entry.refresh_at if same_token else None)
            )

    async def refresh_integration(self, ref: ConnectionRef) -> None:
        """Replace an API-managed integration by the one in the store. If this process changes it during the read, read again:
        otherwise a deleted integration could reappear."""
        while True:
            write_count = self._managed.changes
            try:
                integration = await self._store.integrations.get(*ref[:2])
            except VaultError as fault:
                log.error("integration_cannot_be_opened", integration=ref.integration_id, detail=str(fault))
                integration = None
            if write_count == self._managed.changes:
                return self.apply_integration(*ref[:2], integration)

    def sweep(self) -> None:
        now = clock.monotonic()
        if now - self.feed.synced_at > self._limits.ttl_s:
            for entry in self._entries.values():
                self._set_row_aside(entry)
            self._entries.clear()
            self.feed.announce_missed()
        for ref in [ref for ref, changed_at in self.feed.unread.items() if now - changed_at >= self._limits.trust_s]:
            del self.feed.unread[ref]
            if (unread_entry := self._entries.get(ref)) is not None:
                self._set_row_aside(unread_entry)
            self.forget(ref)  # the row has changed and cannot be read, so the old row must not be used
        for entry in self._entries.due(now):
            self._maintain_entry(entry, now)
        if now - self._cleaned_at >= CLEANUP_EVERY_S:
            self._cleaned_at = now
            for times in (self.feed.changed_at, self._forgotten_at):
                for ref in [ref for ref, changed_at in times.items() if now - changed_at > MAX_LOAD_S]:
                    del times[ref]

    def _maintain_entry(self, entry: CacheEntry, now: float) -> None:
        # This formula equals the one in `next_due`. Otherwise an entry that is kept could be due again immediately.
        if now >= entry.used_at + self._limits.ttl_s:
            self._set_row_aside(entry)
            self._entries.drop(entry.connection.ref)
            return
        if now >= entry.good_until:
            entry.opened = None  # drop the decrypted credential, which stays in memory for a minute at most
        if entry.refresh_at is not None and now >= entry.refresh_at:
            entry.refresh_at = self._start_scheduled_refresh(entry.connection, now)
        self._entries.schedule_entry(entry, self._limits.ttl_s)

    def _start_scheduled_refresh(self, connection: Connection, now: float) -> float | None:
        """Start the refresh now, before a call must wait for it. If it may not start, return when to try again, in
        monotonic seconds."""
        if self._refresher.is_refreshing(connection.ref):
            return now + RETRY_S  # another task started that refresh and does not schedule the next one if it fails
        wall_time, failure = clock.now(), connection.failure
        if self.may_try(connection, wall_time):
            self._refresh_in_background(connection)
            return None
        if failure is None or failure.retry_at is None:
            return None  # only the end user can end this failure
        return now + (failure.retry_at - wall_time).total_seconds()

    def _set_row_aside(self, entry: CacheEntry) -> None:
        """Keep the row of a dropped entry for `write_back` if it may be newer than the database's."""
        if self.feed.uncertain:
            self.lost_commits.set_row_aside(entry.connection)

    async def write_back(self) -> None:
        """Write rows back to the database if they are newer in memory. This includes rows that were evicted while the
        database was unreadable."""
        await self.lost_commits.write_back(entry.connection for entry in self._entries.values())

    def forget_all(self) -> None:
        self._entries.clear()
        self._loads.handle_missed_changes()
        self._cleared_at = clock.monotonic()


def _has_expired(connection: Connection, now: datetime) -> bool:
    return connection.expires_at is not None and now >= connection.expires_at
