"""The cache of opened connections: the hot path's only stop.

A kept entry is a row of the store, sealed; its credential stays opened for at most a minute. A task follows the store's
change log, so that what another process deleted or renewed is known here at once, and within `trust_s` at the latest;
while the store cannot be read, entries serve until `ttl_s` after the last time it could.
"""

import asyncio
from datetime import datetime
from typing import Final

from gateway import clock
from gateway.catalog.load import Catalog
from gateway.catalog.provider import Provider
from gateway.config import LiveConfig
from gateway.connections import advice, backoff
from gateway.connections.cache import Cache
from gateway.connections.fitting import mode_for
from gateway.connections.integrations import Integrations
from gateway.connections.loads import Loads
from gateway.connections.margin import last_from, refresh_from, renew_at, seconds_left
from gateway.connections.opened import Opened
from gateway.connections.ready import ready
from gateway.connections.refusals import Refusals
from gateway.connections.rejections import Rejections
from gateway.connections.renew import Renewer
from gateway.connections.shelf import Kept
from gateway.connections.slots import Slots
from gateway.connections.turning import Turning
from gateway.errors import GatewayError, InvalidRequest, ReconnectNeeded, Unavailable
from gateway.records.connection import Connection, ConnectionRef
from gateway.store import Store

OPENED_S: Final = 60.0
REACH_S: Final = 0.1  # what a token must still be good for to arrive alive
PLANNED_S: Final = 3600.0  # how far ahead a renewal has its slot; who is in use still has its turn to get one by then
AGEING_S: Final = 1.0  # how long an ageing credential serves before it is asked again whether its renewal has come
MOST_ORIGINS: Final = 10_000  # of which it is known whose they are


class Live(Cache):
    """From an address to a connection that can be used at once. `followers` hear of every change that it hears of.

    `provider_at`: an origin ▸ the provider whose credentials travelled there of late, for metrics. `heard` is called when
    something has changed in the store.
    """

    def __init__(
        self, config: LiveConfig, store: Store, integrations: Integrations, catalog: Catalog, renewer: Renewer
    ) -> None:
        super().__init__(config, store, integrations)
        self._catalog = catalog
        self._renewer = renewer
        self._loads = Loads(store)
        self._slots = Slots()
        self.provider_at: dict[str, str] = {}
        self.refusals = Refusals(store, renewer, self)
        self.rejections = Rejections(store, renewer.metrics, self.replace, self._leave_fast_path)

    def turn_to(self, config: LiveConfig, integrations: Integrations, catalog: Catalog) -> None:
        """Work by another configuration. What was opened under another integration or entry is opened anew."""
        turning = Turning((self._integrations, self._catalog), (integrations, catalog))
        self._config, self._integrations, self._catalog = config, integrations, catalog
        for ref, kept in self._kept.items():
            stays = turning.stays(*ref[:2])
            if stays is None:
                self._kept.drop(ref)
                continue
            if not stays:
                kept.opened, kept.good_until = None, 0.0
            self._kept.look_again(kept, config.ttl_s)  # which may be another by now

    def peek(self, ref: ConnectionRef, now: float | None = None) -> Opened | None:
        """The connection if it is fresh: a dict look-up, no I/O, nothing to await. `now`: monotonic seconds."""
        kept = self._kept.get(ref)
        if kept is None:
            return None
        if now is None:
            now = clock.monotonic()
        if now >= kept.good_until:
            return None
        kept.used_at = now
        return kept.opened

    async def opened(self, environment: str, integration_id: str, connection_id: str) -> Opened:
        """The connection, loaded and renewed where needed. Raises NotFound, ReconnectNeeded, Unavailable."""
        ref = ConnectionRef(environment, integration_id, connection_id)
        found = self.peek(ref)
        if found is not None:
            return found
        self._integrations.get(environment, integration_id)
        began = clock.monotonic()
        connection = await self.known(ref)
        provider = self.provider_of(connection)
        now = clock.now()
        good_s = OPENED_S
        if _expired(connection, now):
            if connection.failure is not None and not backoff.may_try(connection, now):
                raise backoff.refusal(connection, connection.failure, now)  # known here: no need to ask the store
            connection = await self._renewed(connection)
        elif (due := refresh_from(connection, provider)) is not None and now >= due:
            connection, good_s = await self._ageing(connection, provider, now), AGEING_S
        return self._keep(connection, good_s, began)

    async def _renewed(self, connection: Connection) -> Connection:
        """Renewed, and once more where the new token ended before it came here, as short-lived ones may."""
        connection = await self._renewer.renewed(connection)
        return await self._renewer.renewed(connection) if _expired(connection, clock.now()) else connection

    async def _ageing(self, connection: Connection, provider: Provider, now: datetime) -> Connection:
        """Still valid: served as it is and renewed behind the request, which waits for that on the last stretch alone."""
        if not backoff.may_try(connection, now):
            return connection
        last, ends = last_from(connection, provider), connection.expires_at
        if last is None or ends is None or now < last:
            self._renew_behind(connection)
            return connection
        spare_s = (ends - now).total_seconds() - REACH_S
        if spare_s > 0:
            task = self._renewer.start(connection, urgent=True)
            await asyncio.wait({task}, timeout=spare_s)
            if not task.done() or task.cancelled() or task.exception() is not None:
                return connection  # slow or failed, it is none of this request's business
            return task.result()
        try:
            return await self._renewer.renewed(connection)
        except (ReconnectNeeded, Unavailable):
            if _expired(connection, clock.now()):
                raise
            return connection

    async def current(self, ref: ConnectionRef, *, force: bool = False) -> tuple[Connection, GatewayError | None]:
        """The row as the store has it, renewed when it is in its margin, has expired, or by `force`.

        A renewal that fails leaves a token that is still valid in place: the fault then stands beside the row, which
        tells of it too. It is raised where the token is not valid any more, and by `force` where the no is final.
        """
        connection = await self._loads.row(ref)
        provider = self.provider_of(connection)
        due = refresh_from(connection, provider)
        now = clock.now()
        expired = _expired(connection, now)
        wanted = force or (due is not None and now >= due and (expired or backoff.may_try(connection, now)))
        held = self._store.open(connection.credential)
        if not wanted or (not expired and not mode_for(provider, held, ref).refreshable(held, provider)):
            return connection, None
        try:
            connection = await self._renewer.renewed(connection, force=force)
        except (ReconnectNeeded, Unavailable, InvalidRequest) as fault:
            if _expired(connection, clock.now()) or (force and isinstance(fault, ReconnectNeeded)):
                raise
            # Read again: what was read before knows nothing of the failure, nor of what another node got meanwhile.
            row = await self._loads.row_anew(ref)
            return row, fault if row.version == connection.version else None
        self.replace(connection)
        return connection, None

    async def close(self) -> None:
        """Let go of what waits for a renewal; the renewal itself is the renewer's. Wait for verdicts that are being stored."""
        await self.refusals.close()
        await self.rejections.close()

    async def known(self, ref: ConnectionRef) -> Connection:
        """The row as it is in memory or, where it is not, in the store. Raises NotFound."""
        kept = self._kept.get(ref)
        return kept.connection if kept else await self._loads.row(ref)

    def provider_of(self, connection: Connection) -> Provider:
        """The entry that the connection was made with. Raises ReconnectNeeded where its integration moved to another."""
        integration = self._integrations.get(*connection.ref[:2])
        provider = self._catalog.get(connection.provider)
        if provider is None or integration.provider != connection.provider:
            raise ReconnectNeeded(
                "reconnect_needed",
                f"Connection '{connection.ref.connection_id}' was made with provider '{connection.provider}', but "
                f"integration '{integration.integration_id}' now uses '{integration.provider}'. "
                + advice.sentence(advice.RECONNECT),
                payload={
                    "provider_config_key": connection.ref.integration_id,
                    "connection_id": connection.ref.connection_id,
                },
            )
        return provider

    def _leave_fast_path(self, ref: ConnectionRef) -> None:
        kept = self._kept.get(ref)
        if kept is not None and kept.opened is not None:
            kept.opened.routes.clear()

    def _keep(self, connection: Connection, good_s: float, began: float) -> Opened:
        provider = self.provider_of(connection)  # asked again: a reload may have come while a renewal was awaited
        held = self._store.open(connection.credential)
        secret_config = self._store.open(connection.secret_config)
        integration = self._integrations.get(*connection.ref[:2])
        mode = mode_for(provider, held, connection.ref)
        opened = ready(connection, integration, provider, mode, held, secret_config)
        self.rejections.learn(connection)
        if len(self.provider_at) >= MOST_ORIGINS:
            self.provider_at.clear()  # within a minute those in use are known again
        self.provider_at.update(dict.fromkeys(opened.allowed_origins, provider.name))
        now = clock.monotonic()
        if self._forgotten_at.get(connection.ref, 0.0) >= began:
            return opened  # deleted while it was being loaded: good for this request, not to be remembered
        if max(self._changed_at.get(connection.ref, 0.0), self._cleared_at) >= began:
            self._unread.setdefault(
                connection.ref, now
            )  # which came first, its change or our reading, the next look tells
        good_until = (
            0.0
            if opened.for_one_request
            else now + min(good_s, seconds_left(connection, provider, clock.now(), at_most=OPENED_S))
        )
        begins = self._renew_at(connection, provider, now) if mode.refreshable(held, provider) else None
        self._put(Kept(connection, opened, good_until, now, begins))
        return opened

    def _renew_at(self, connection: Connection, provider: Provider, now: float) -> float | None:
        """As it was reckoned before, if it was: each token has one slot."""
        if self._renewer.under_way(connection.ref):
            return None
        kept = self._kept.get(connection.ref)
        if kept is not None and kept.connection.version == connection.version and kept.renew_at is not None:
            return kept.renew_at
        within_s = max(
            PLANNED_S, self._config.ttl_s + OPENED_S
        )  # else it could be put away before it is reckoned again
        return renew_at(connection, provider, now, self._slots, within_s=within_s)

    def _renew_behind(self, connection: Connection) -> None:
        self._renewer.start_behind(connection, self._took_over)

    def _took_over(self, task: "asyncio.Task[Connection]") -> None:
        if not task.cancelled() and task.exception() is None:
            self.replace(task.result())


def _expired(connection: Connection, now: datetime) -> bool:
    return connection.expires_at is not None and now >= connection.expires_at
