"""Renews the lease during a refresh, and stores new tokens.

New tokens exist nowhere else, so each storage error is retried until the write succeeds.
"""

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
from gateway.errors import GatewayError, exc_info_of
from gateway.records.connection import Connection, log_fields
from gateway.records.states import HistoryNote
from gateway.refresh.schedule import lifespan
from gateway.secret import digest
from gateway.store import Store
from gateway.store.failover import Claim
from gateway.vault import VaultError

# ── Renews the lease on a connection's refresh until the refresh ends.

LEASE: Final = timedelta(seconds=30)
# The timeout of a call to a token endpoint, in seconds. The timeout is shorter than the lease, so that a holder that
# cannot reach the store stops before its lease expires.
TOKEN_CALL_S: Final = 28.0
RENEW_EVERY_S: Final = LEASE.total_seconds() / 3

log = structlog.get_logger(__name__)


@asynccontextmanager
async def keep_lease(store: Store, row: Connection, owner: str, claimed_at: float) -> AsyncIterator[Claim]:
    """Renew the lease of `owner` until the body of the `async with` ends.

    The body can take longer than a lease: it can send several calls, or need several attempts to store the reply.
    `claimed_at`: the time just before `row` was claimed, in monotonic seconds. If another process takes the lease, it
    is not claimed again, and the store refuses the writes of the body. If the database loses the lease in a failover,
    `gateway.refresh.recovery` claims it again.
    """
    claim = store.failover.claims[owner] = Claim(row, claimed_at)
    renewal = asyncio.create_task(_renew_until_cancelled(store, claim, owner))
    try:
        yield claim
    finally:
        del store.failover.claims[owner]
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)


def lease_ran_out(claim: Claim) -> bool:
    """Return whether another process might hold the lease now, because this process did not renew the lease in time."""
    return clock.monotonic() - claim.lease_from >= LEASE.total_seconds()


async def _renew_until_cancelled(store: Store, claim: Claim, owner: str) -> None:
    ref, lease_lost = claim.row.ref, False
    while True:
        await clock.sleep(RENEW_EVERY_S)
        try:
            asked_at = clock.monotonic()
            if await store.refreshes.extend_lease(ref, owner=owner, ttl=LEASE):
                claim.lease_from = asked_at
            elif not lease_lost:
                lease_lost = True
                log.warning("refresh_lease_lost", connection_id=ref.connection_id, integration=ref.integration_id)
        except Exception as fault:  # without the renewal, another process takes the lease
            log.warning(
                "refresh_lease_not_renewed",
                connection_id=ref.connection_id,
                detail=str(fault),
                exc_info=exc_info_of(fault),
            )


# ── Stores a new token pair. The pair exists nowhere else, so storage errors are retried until the write succeeds.

READ_AGAIN_S: Final = (0.05, 0.1, 0.2, 0.5)
SAVE_AGAIN_S: Final = (0.1, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class RefreshedTokens:
    """A new token pair: the new credential (`new_credential`) and the credential that it replaces (`old_credential`).

    `note`: reports in the history which part of `old_credential` the new credential lacks; None if it lacks nothing.
    """

    provider: Provider
    old_credential: Mapping[str, Any] = field(repr=False)
    new_credential: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None
    note: HistoryNote | None = None

    @property
    def rotates(self) -> bool:
        """Whether the provider replaced the refresh token, or that of the end user's grant (auth mode CUSTOM)."""
        token_pairs = zip(refresh_tokens(self.old_credential), refresh_tokens(self.new_credential), strict=True)
        return any(
            isinstance(old_token, str) and isinstance(new_token, str) and old_token != new_token
            for old_token, new_token in token_pairs
        )

    @property
    def replaced_refresh_token(self) -> str | None:
        """The refresh token that was replaced, if the provider still accepts it for a grace period; else None."""
        token = self.old_credential.get("refresh_token")
        is_replaced = isinstance(token, str) and token != self.new_credential.get("refresh_token")
        return token if is_replaced and self.grace is not None else None

    @property
    def grace(self) -> timedelta | None:
        """How long the provider accepts an old refresh token after a refresh; None if the catalog entry says
        nothing."""
        policy = self.provider.refresh
        return timedelta(seconds=policy.reuse_grace_s) if policy and policy.reuse_grace_s else None


def refresh_tokens(credential: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the credential's refresh token, and that of the end user's grant (auth mode CUSTOM); None if absent."""
    user = credential.get("user")
    return credential.get("refresh_token"), user.get("refresh_token") if isinstance(user, Mapping) else None


async def commit(store: Store, row: Connection, owner: str, pair: RefreshedTokens) -> Connection | None:
    """Store the new pair and return the row; None if another process holds the lease or has stored a newer credential.

    Retry after each error until the write succeeds. The caller renews the lease meanwhile, because the refresh token in
    the row is spent.
    """
    waits, replaced_token, grace_period = repeat_last(SAVE_AGAIN_S), pair.replaced_refresh_token, pair.grace
    while True:
        now = clock.now()
        granted_at = row.granted_at or row.created_at
        try:
            return await store.refreshes.save_refreshed(
                row.ref,
                owner=owner,
                version=row.version,
                credential=pair.new_credential,
                expires_at=pair.expires_at,
                now=now,
                life=lifespan(pair.provider, pair.new_credential, key=row.uid, granted_at=granted_at, refreshed_at=now),
                previous=replaced_token,
                previous_until=now + grace_period if replaced_token and grace_period else None,
                rotates=row.rotates or pair.rotates,
                known_row=row,
                note=pair.note,
            )
        except Exception as fault:  # noqa: BLE001 (no error may lose the pair)
            log.error("token_save_failed", **log_fields(row.ref), detail=str(fault))
            await asyncio.sleep(next(waits))


async def save_after_lost_lease(store: Store, row: Connection, pair: RefreshedTokens) -> Connection | None:
    """Claim the lease again, store the new pair and return the row, after another process took the lease.

    Return None if the store has a newer credential, or if the connection was deleted.
    """
    log.warning("refresh_lease_was_lost", **log_fields(row.ref))
    waits = repeat_last(READ_AGAIN_S)
    while True:
        try:
            stored = await store.connections.get(row.ref)
            if stored is None or stored.uid != row.uid or stored.version > row.version:
                return None
            if stored.version < row.version:  # the database lost commits in a failover
                await store.connections.write_back(row, now=clock.now())
                continue
            owner, intent, now = await store.holders.new_owner(), token_digest(store, row), clock.monotonic()
            if await store.refreshes.lease_refresh(row.ref, owner=owner, ttl=LEASE, known_row=stored, intent=intent):
                async with keep_lease(store, row, owner, now):
                    saved_row = await commit(store, row, owner, pair)
                if saved_row is not None:
                    return saved_row
        except (GatewayError, VaultError) as fault:  # no other copy of the pair exists
            log.error("token_save_failed", **log_fields(row.ref), detail=str(fault))
        await clock.sleep(next(waits))


def token_digest(store: Store, row: Connection) -> str:
    """Return a digest that identifies the refresh token of `row` without revealing the token.

    If the credential has no refresh token, the digest is that of the sealed credential.
    """
    token = store.open(row.credential).get("refresh_token")
    return digest(f"{row.uid} {token if isinstance(token, str) else row.credential.ciphertext.hex()}")


def has_same_credential(stored: Connection, row: Connection) -> bool:
    """Return whether `stored` still has the credential of `row`.

    A connection that was deleted and created again under the same id has another `uid`.
    """
    return (stored.uid, stored.version) == (row.uid, row.version)


def repeat_last(waits_s: Sequence[float]) -> Iterator[float]:
    """Yield each of `waits_s`, then repeat the last value forever."""
    return chain(waits_s, repeat(waits_s[-1]))
