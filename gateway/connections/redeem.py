"""One refresh from the claim to the commit (ADR 20).

    claim: lease and intent in one UPDATE, on the disk ▸ the call, the lease renewed meanwhile ▸ its answer, on the disk
    ▸ the new pair, in the database

A refresh token may be good for one use only, and a provider that sees it twice may revoke the whole grant. So the intent
says, whatever happens to this process, that the token may be spent; and nobody uses a new token before it is stored.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.catalog.load import Catalog
from gateway.catalog.provider import Provider
from gateway.connections import backoff
from gateway.connections.asker import Asker
from gateway.connections.commit import LOOK_AGAIN_S, again, commit, rescue, same, who
from gateway.connections.dialogues import Dialogues
from gateway.connections.ends import ended
from gateway.connections.fitting import mode_for
from gateway.connections.integrations import Integrations
from gateway.connections.lease import LEASE, held
from gateway.connections.standing import CLAIMING, FENCE, Standing
from gateway.errors import GatewayError, InvalidRequest, NotFound, ReconnectNeeded
from gateway.metrics import Metrics
from gateway.metrics.families import REFRESHES
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.call import scrubbed
from gateway.records.connection import Connection, ConnectionRef, RefreshFailure
from gateway.records.states import REJECTED, Happening
from gateway.refresh.decision import Lease, Step, next_step
from gateway.secret import digest
from gateway.store import Store
from gateway.store.leases import AT_ONCE

log = structlog.get_logger(__name__)


class Redeemer:
    """Holds what a refresh needs; each call of `redeem` is one refresh."""

    def __init__(
        self, store: Store, integrations: Integrations, catalog: Catalog, dialogues: Dialogues, metrics: Metrics
    ) -> None:
        self._store = store
        self._integrations = integrations
        self._catalog = catalog
        self._asker = Asker(store, dialogues)
        self.standing = Standing(store, catalog)
        self._metrics = metrics

    def turn_to(self, integrations: Integrations, catalog: Catalog, dialogues: Dialogues) -> None:
        """Work by another configuration, also where a turn is being waited for: what is not declared is not asked for."""
        self._integrations, self._catalog = integrations, catalog
        self._asker = Asker(self._store, dialogues)
        self.standing = Standing(self._store, catalog)

    async def redeem(self, seen: Connection, *, force: bool) -> Connection:
        """The connection with a newer credential than `seen` has, whoever got it. Raises GatewayError."""
        try:
            self._entry(seen)
        except ReconnectNeeded as fault:
            await self._ended(seen, fault)
            raise
        while True:
            owner = await self._store.holders.new_owner()
            row = await self._claimed(seen, owner, force)
            if not same(row, seen):
                return row
            renewed = await self._asked(row, owner)
            if renewed is not None and not same(renewed, seen):
                return renewed
            # The lease was lost to another, who is still at it: wait for what that one writes.

    def _entry(self, seen: Connection) -> tuple[Provider, AuthMode, Mapping[str, Any]]:
        """Raises ReconnectNeeded where there is nothing to renew it with, or no entry any more after a reload."""
        kept = self._store.open(seen.credential)
        provider = self._catalog.get(seen.provider)
        if provider is None:
            raise backoff.no_way_to_renew(seen)
        mode = mode_for(provider, kept, seen.ref)
        if not mode.refreshable(kept, provider):
            raise backoff.no_way_to_renew(seen)
        return provider, mode, kept

    async def _claimed(self, seen: Connection, owner: str, force: bool) -> Connection:
        """The row with our lease and intent on it, or the row with another credential than `seen` has."""
        row, waits = seen, again(LOOK_AGAIN_S)
        while True:
            noted, now = row.failure, clock.now()
            if noted is not None and not backoff.may_try(row, now) and (not force or noted != seen.failure):
                raise backoff.refusal(row, noted, now)  # told no before; with force only if just now, by another
            intent = self._digest(row)
            facts = await self.standing.facts(row)
            step = next_step(facts)
            if step in CLAIMING:
                held = facts.lease is Lease.HELD
                long_ago = step is Step.SEND_AGAIN and facts.lease is not Lease.FREE
                ran_out = FENCE if long_ago else AT_ONCE
                if await self._store.connections.lease_refresh(
                    seen.ref, owner=owner, ttl=LEASE, seen=row, intent=intent, ran_out=ran_out, from_holder=held
                ):
                    return row
            elif row is not seen:  # what is in memory may be old
                await self._not_now(row, step, now)
            known, row = row, await self._read(seen.ref)
            if not same(row, seen):
                return row
            if (row.mark, row.intent, row.lease) == (known.mark, known.intent, known.lease):  # another is at it
                await clock.sleep(next(waits))

    async def _not_now(self, row: Connection, step: Step, now: datetime) -> None:
        """Raise what the caller is to be answered, where waiting a moment does not help."""
        if step is Step.HALT:
            raise backoff.clock_off(clock.offset.seconds)
        if step is Step.DEFER and row.lease is not None:
            raise backoff.interrupted(row, row.lease.until + FENCE, now)
        if step is Step.REFUSE and row.failure is not None:
            raise backoff.refusal(row, row.failure, now)
        if step is Step.REPORT_LOST and row.intent is not None and row.lease is not None:
            # In the name of the holder, which stays: its machine may still have the reply, and go on with it.
            lost = backoff.lost(row, row.intent.at, now)
            await self._noted(row, row.lease.owner, lost, now, still_open=True)

    async def _asked(self, row: Connection, owner: str) -> Connection | None:
        """What came of the call, stored; None where we were fenced off. Raises what the caller shall hear."""
        async with held(self._store, row.ref, owner):
            started = clock.monotonic()
            try:
                await clock.give_way()
                integration = self._integrations.get(*row.ref[:2])
                provider, mode, kept = self._entry(row)
                config = {**row.config, **self._store.open(row.secret_config)}
                context = Context(provider, integration, config, row.metadata)
                pair, release = await self._asker.pair(row, mode, kept, context)
            except (TokenRefused, TokenUnavailable) as fault:
                return await self._failed(row, owner, fault)
            except InvalidRequest as fault:  # a setting is missing, and nothing was asked
                await self._unfinished(row, owner, fault)
                raise
            except GatewayError:  # nothing was asked: a reload took its entry away
                still_open = row.intent is not None
                await self._store.connections.release_lease(
                    row.ref, owner=owner, still_open=still_open, former=row.lease
                )
                raise
            except BaseException:  # a fault of ours, or the process ends: what was asked may have been done
                await self._store.connections.end_lease(row.ref, owner=owner)
                raise
            saved = await commit(self._store, row, owner, pair)
        if saved is None:
            saved = await rescue(self._store, row, pair)
        release()
        if saved is not None:
            took_ms = round((clock.monotonic() - started) * 1000)
            self._metrics.add(REFRESHES, *row.ref[:2], "renewed")
            log.info("token_refreshed", **who(row.ref), version=saved.version, duration_ms=took_ms)
        return saved

    async def _failed(self, row: Connection, owner: str, fault: TokenRefused | TokenUnavailable) -> Connection | None:
        """Judged by the row as it is now: whoever holds another credential or the lease by now overrules us."""
        now = clock.now()
        lost_at = row.intent.at if row.intent is not None and row.intent.digest == self._digest(row) else None
        noted = backoff.failure(fault, row.failure, now, lost_at=lost_at, since=row.state_since)
        held = self._store.open(row.credential)
        known = tuple(text for name, text in held.items() if name.endswith("_token") and isinstance(text, str))
        noted = replace(noted, message=scrubbed(noted.message, known))  # it goes into logs, events and answers
        settled = noted.code == backoff.ROTATION_LOST  # it was sent again, and refused
        maybe_done = not settled and isinstance(fault, TokenUnavailable) and (fault.maybe_done or lost_at is not None)
        keep_lease = isinstance(fault, TokenUnavailable) and fault.maybe_journalled
        try:
            await self._noted(row, owner, noted, now, still_open=maybe_done, keep_lease=keep_lease)
        except GatewayError as refusal:
            if keep_lease:  # other machines wait for this one, which finishes from its journal
                with suppress(GatewayError):
                    await self._store.connections.end_lease(row.ref, owner=owner)
            raise refusal from fault
        return None

    async def _noted(
        self,
        row: Connection,
        owner: str,
        failure: RefreshFailure,
        now: datetime,
        *,
        still_open: bool,
        keep_lease: bool = False,
    ) -> None:
        """Keep `failure` and raise what it means to callers. Returns where another holds the lease or has written."""
        kept = row.lease if row.lease is not None and row.lease.owner == owner else None
        after = await self._store.connections.record_failure(
            row.ref,
            owner=owner,
            version=row.version,
            failure=failure,
            still_open=still_open,
            former=kept,
            keep_lease=keep_lease,
        )
        if after is None:
            return
        why = {"reason": failure.code, "final": failure.final, "detail": failure.message}
        log.warning("token_refresh_failed", **who(row.ref), **why)
        self._metrics.add(REFRESHES, *row.ref[:2], "refused" if failure.final else "unavailable")
        raise backoff.refusal(after, failure, now)

    async def _ended(self, seen: Connection, fault: ReconnectNeeded) -> None:
        """Note that a token without a refresh token has come to its end: its state says so from now on."""
        now = clock.now()
        if (
            (seen.failure is not None and seen.failure.code != REJECTED)
            or seen.expires_at is None
            or seen.expires_at > now
        ):
            return
        if (fault.payload or {}).get("reason") != backoff.NOT_RENEWABLE:
            return
        owner = await self._store.holders.new_owner()
        if await self._store.connections.lease_refresh(seen.ref, owner=owner, ttl=LEASE, seen=seen):
            await self._store.connections.record_failure(
                seen.ref, owner=owner, version=seen.version, failure=ended(now)
            )

    async def _unfinished(self, row: Connection, owner: str, fault: GatewayError) -> None:
        noted = RefreshFailure(fault.code, fault.message, False, clock.now(), 1, clock.now() + backoff.FIRST)
        await self._store.connections.record_failure(
            row.ref,
            owner=owner,
            version=row.version,
            failure=noted,
            still_open=row.intent is not None,
            former=row.lease,
            happening=Happening.UNFINISHED,
        )

    def _digest(self, row: Connection) -> str:
        """Names the refresh token in use without telling anything about it; where there is none, the whole credential."""
        token = self._store.open(row.credential).get("refresh_token")
        return digest(f"{row.uid} {token if isinstance(token, str) else row.credential.ciphertext.hex()}")

    async def _read(self, ref: ConnectionRef) -> Connection:
        row = await self._store.connections.get(ref)
        if row is None:
            raise NotFound("unknown_connection", f"Connection '{ref.connection_id}' has been deleted.")
        return row
