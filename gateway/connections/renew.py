"""Renews a credential: one task a node, one lease a cluster.

A refresh token may be good for one use only, and a provider that sees it twice revokes the whole grant. So: waiters in
this process share one task; processes take turns by a lease in the store; the row is read again under the lease; the
rotated pair is committed before anybody uses the new token; and no leaving client can cancel any of it.
"""

import asyncio
import uuid
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any, Final

import structlog

from gateway import clock
from gateway.auth.context import Context
from gateway.catalog.load import Catalog
from gateway.catalog.provider import Provider
from gateway.connections import backoff
from gateway.connections.dialogues import Dialogues
from gateway.connections.fitting import mode_for
from gateway.connections.integrations import Integrations
from gateway.errors import GatewayError, NotFound, Unavailable
from gateway.metrics import Metrics
from gateway.metrics.families import REFRESHES
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.store import Store

LEASE: Final = timedelta(seconds=30)  # longer than the token call may take, so that a slow endpoint cannot outlast it
LOOK_AGAIN_S: Final = 0.1
SAVE_AGAIN_S: Final = (0.1, 0.5, 1, 2, 5)  # the last one again and again
WAIT_S: Final = 45.0

log = structlog.get_logger(__name__)


class Renewer:
    """Shared by everything that needs a fresh token."""

    def __init__(
        self, store: Store, integrations: Integrations, catalog: Catalog, dialogues: Dialogues, metrics: Metrics
    ) -> None:
        self._store = store
        self._integrations = integrations
        self._catalog = catalog
        self._dialogues = dialogues
        self._metrics = metrics
        self._running: dict[ConnectionRef, asyncio.Task[Connection]] = {}

    def turn_to(self, integrations: Integrations, catalog: Catalog, dialogues: Dialogues) -> None:
        """Work by another configuration; what is being asked for ends under the one it began with."""
        self._integrations, self._catalog, self._dialogues = integrations, catalog, dialogues

    async def renewed(self, connection: Connection, *, force: bool = False) -> Connection:
        """The connection with a newer credential than `connection` holds.

        `force` asks the endpoint even while an earlier failure says to wait. Raises ReconnectNeeded or Unavailable, the
        latter also where a new pair is there and the store does not take it; it is kept and offered again meanwhile.
        """
        task = self.start(connection, force=force)
        done, _ = await asyncio.wait({task}, timeout=WAIT_S)
        if not done:
            raise Unavailable(
                "store_unavailable",
                "The token is being renewed, and the gateway's database is slow to store it. Try again in 5 seconds.",
                retry_after_s=5,
            )
        return task.result()

    def start(self, connection: Connection, *, force: bool = False) -> "asyncio.Task[Connection]":
        """The task that renews it, begun or joined; it outlives whoever asked for it."""
        task = self._running.get(connection.ref)
        if task is None:
            task = asyncio.create_task(self._renew(connection, force))
            self._running[connection.ref] = task
            task.add_done_callback(lambda done: self._ended(connection.ref, done))
        return task

    async def close(self, within_s: float = 15) -> None:
        """Let what is under way finish: an answer that arrives now may hold the only refresh token there is."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=within_s)

    def _ended(self, ref: ConnectionRef, task: "asyncio.Task[Connection]") -> None:
        self._running.pop(ref, None)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not isinstance(fault, GatewayError):
            self._metrics.add(REFRESHES, *ref[:2], "failed")
            log.error("refresh_crashed", connection_id=ref.connection_id, exc_info=fault)

    async def _renew(self, seen: Connection, force: bool) -> Connection:
        held = self._store.open(seen.credential)
        provider = self._catalog.get(seen.provider)
        if provider is None:  # a reload has just taken it away
            raise backoff.no_way_to_renew(seen)
        if not mode_for(provider, held, seen.ref).refreshable(held, provider):
            raise backoff.no_way_to_renew(seen)
        owner = uuid.uuid4().hex
        current = await self._take_turn(seen, owner, force)
        if current.version != seen.version:
            return current
        try:
            integration = self._integrations.get(*seen.ref[:2])
            provider = self._catalog.get(current.provider)
            if provider is None:
                raise backoff.no_way_to_renew(current)
        except GatewayError:  # a reload has just taken it away
            await self._store.connections.release_lease(seen.ref, owner=owner)
            raise
        return await self._ask(current, owner, integration, provider)

    async def _take_turn(self, seen: Connection, owner: str, force: bool) -> Connection:
        """Hold the lease on return, unless the row already has a newer version than `seen`."""
        while True:
            row = await self._read(seen.ref)
            if row.version != seen.version:
                return row
            noted = row.failure
            if noted is not None and noted != seen.failure:
                raise backoff.refusal(row, noted, clock.now())  # another node has just been told no
            if noted is not None and not force and not backoff.may_try(row, clock.now()):
                raise backoff.refusal(row, noted, clock.now())
            if await self._store.connections.lease_refresh(seen.ref, owner=owner, now=clock.now(), ttl=LEASE):
                break
            await asyncio.sleep(LOOK_AGAIN_S)
        row = await self._read(seen.ref)
        failed_since = row.failure is not None and row.failure != seen.failure
        if row.version != seen.version or failed_since:
            await self._store.connections.release_lease(seen.ref, owner=owner)
        if row.version == seen.version and failed_since and row.failure is not None:
            raise backoff.refusal(row, row.failure, clock.now())
        return row

    async def _ask(self, row: Connection, owner: str, integration: Integration, provider: Provider) -> Connection:
        held = self._store.open(row.credential)
        secret_config = self._store.open(row.secret_config)
        started = clock.monotonic()
        mode = mode_for(provider, held, row.ref)
        context = Context(provider, integration, {**row.config, **secret_config}, row.metadata)
        try:
            fresh = await self._dialogues.hold(mode.renew(held, context))
        except (TokenRefused, TokenUnavailable) as fault:
            return await self._failed(row, owner, fault)
        except BaseException:  # nothing was asked: a setting is missing, or the process ends
            await self._store.connections.release_lease(row.ref, owner=owner)
            raise
        saved = await self._save(row, owner, fresh, mode.expires_at(fresh))
        took_ms = round((clock.monotonic() - started) * 1000)
        self._metrics.add(REFRESHES, *row.ref[:2], "renewed")
        log.info("token_refreshed", **_who(row.ref), version=saved.version, duration_ms=took_ms)
        return saved

    async def _failed(self, row: Connection, owner: str, fault: TokenRefused | TokenUnavailable) -> Connection:
        now = clock.now()
        noted = backoff.failure(fault, row.failure, now)
        log.warning("token_refresh_failed", **_who(row.ref), reason=noted.code, final=noted.final, detail=noted.message)
        after = await self._store.connections.record_failure(row.ref, owner=owner, version=row.version, failure=noted)
        if after is None:  # somebody else renewed or replaced it meanwhile: theirs counts, not our refusal
            return await self._read(row.ref)
        self._metrics.add(REFRESHES, *row.ref[:2], "refused" if noted.final else "unavailable")
        raise backoff.refusal(after, noted, now) from fault

    async def _save(
        self, row: Connection, owner: str, fresh: dict[str, Any], expires_at: datetime | None
    ) -> Connection:
        """Commit the new pair. It exists nowhere else, so a store that stumbles, however, is asked until it takes it;
        the lease is not given back before that, since the refresh token in the row is spent.
        """
        waits = chain(SAVE_AGAIN_S, repeat(SAVE_AGAIN_S[-1]))
        while True:
            try:
                saved = await self._store.connections.save_refreshed(
                    row.ref,
                    owner=owner,
                    version=row.version,
                    credential=fresh,
                    expires_at=expires_at,
                    now=clock.now(),
                )
            except Exception as fault:  # noqa: BLE001 (whatever it was, the pair must not be lost to it)
                log.error("rotated_token_unsaved", **_who(row.ref), detail=str(fault))
                await asyncio.sleep(next(waits))
            else:
                return saved if saved is not None else await self._read(row.ref)

    async def _read(self, ref: ConnectionRef) -> Connection:
        row = await self._store.connections.get(ref)
        if row is None:
            raise NotFound("unknown_connection", f"Connection '{ref.connection_id}' has been deleted.")
        return row


def _who(ref: ConnectionRef) -> dict[str, str]:
    return {"environment": ref.environment, "integration": ref.integration_id, "connection_id": ref.connection_id}
