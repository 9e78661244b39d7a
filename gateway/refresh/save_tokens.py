"""The lease held while something is under way, and new tokens put on the disk. They exist nowhere else: storage errors
are retried."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any, Final

import structlog

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.errors import GatewayError
from gateway.records.connection import Connection, ConnectionRef
from gateway.refresh.refresh_token_expiry import lifespan
from gateway.store import Store

# ── The lease on a connection's refresh, held for as long as something is under way.

LEASE: Final = timedelta(seconds=30)
TOKEN_CALL_S: Final = 28.0  # shorter than the lease: even a holder that cannot reach the store ends before that does
BEAT_S: Final = LEASE.total_seconds() / 3

log = structlog.get_logger(__name__)


@asynccontextmanager
async def held(store: Store, ref: ConnectionRef, owner: str) -> AsyncIterator[None]:
    """Renew the lease of `owner` while the body runs: an answer may take several calls, a save several tries.

    A lease that was lost stays lost; what the body writes then is fenced off by the store.
    """
    beating = asyncio.create_task(_beat(store, ref, owner))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def _beat(store: Store, ref: ConnectionRef, owner: str) -> None:
    while True:
        await clock.sleep(BEAT_S)
        try:
            if not await store.refreshes.extend_lease(ref, owner=owner, ttl=LEASE):
                log.warning("refresh_lease_lost", connection_id=ref.connection_id, integration=ref.integration_id)
                return
        except GatewayError as fault:
            log.warning("refresh_lease_not_renewed", connection_id=ref.connection_id, detail=fault.message)


# ── Puts a new pair on the disk. It exists nowhere else, so whatever stumbles is asked again until it takes it.

LOOK_AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5)
SAVE_AGAIN_S: Final = (0.1, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class Pair:
    """What a token endpoint gave (`fresh`) for what was held before (`kept`)."""

    provider: Provider
    kept: Mapping[str, Any] = field(repr=False)
    fresh: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None

    @property
    def rotates(self) -> bool:
        """Whether the refresh token was replaced by another."""
        before, after = self.kept.get("refresh_token"), self.fresh.get("refresh_token")
        return isinstance(before, str) and isinstance(after, str) and before != after

    @property
    def spent(self) -> str | None:
        """The refresh token that was replaced by another, where the provider still takes it for a while."""
        token = self.kept.get("refresh_token")
        replaced = isinstance(token, str) and token != self.fresh.get("refresh_token")
        return token if replaced and self.grace is not None else None

    @property
    def grace(self) -> timedelta | None:
        """How long it does."""
        policy = self.provider.refresh
        return timedelta(seconds=policy.reuse_grace_s) if policy and policy.reuse_grace_s else None


async def commit(store: Store, row: Connection, owner: str, pair: Pair) -> Connection | None:
    """The row with the new pair in place of what `row` holds; None where another has the lease or was quicker.

    A store that stumbles, however, is asked again; the lease is not given back before, since the refresh token in the row
    is spent.
    """
    waits, spent, grace = again(SAVE_AGAIN_S), pair.spent, pair.grace
    while True:
        now = clock.now()
        granted_at = row.granted_at or row.created_at
        try:
            return await store.refreshes.save_refreshed(
                row.ref,
                owner=owner,
                version=row.version,
                credential=pair.fresh,
                expires_at=pair.expires_at,
                now=now,
                life=lifespan(pair.provider, pair.fresh, key=row.uid, granted_at=granted_at, refreshed_at=now),
                previous=spent,
                previous_until=now + grace if spent and grace else None,
                rotates=row.rotates or pair.rotates,
                uid=row.uid,
            )
        except Exception as fault:  # noqa: BLE001 (whatever it was, the pair must not be lost to it)
            log.error("rotated_token_unsaved", **who(row.ref), detail=str(fault))
            await asyncio.sleep(next(waits))


async def rescue(store: Store, row: Connection, pair: Pair) -> Connection | None:
    """Our token pair, stored after all unless a process that took the lease from us has stored a newer one: then None."""
    log.warning("refresh_lease_was_lost", **who(row.ref))
    waits = again(LOOK_AGAIN_S)
    while (there := await store.connections.get(row.ref)) is not None and same(there, row):
        owner = await store.holders.new_owner()
        if await store.refreshes.lease_refresh(row.ref, owner=owner, ttl=LEASE, seen=there):
            return await commit(store, row, owner, pair)
        await clock.sleep(next(waits))
    return None


def same(there: Connection, row: Connection) -> bool:
    """With the credential that `row` has; what was made again at its address is none of ours."""
    return (there.uid, there.version) == (row.uid, row.version)


def again(waits_s: Sequence[float]) -> Iterator[float]:
    """These seconds in turn, and then the last of them for ever."""
    return chain(waits_s, repeat(waits_s[-1]))


def who(ref: ConnectionRef) -> dict[str, str]:
    return {"environment": ref.environment, "integration": ref.integration_id, "connection_id": ref.connection_id}
