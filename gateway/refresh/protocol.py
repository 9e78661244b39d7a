"""Runs a refresh from the claim to the commit (ADR 20).

    1. Claim: one UPDATE writes the lease and the intent to the database.
    2. Call the token endpoint. Renew the lease until the refresh ends.
    3. Write the reply to the journal on this machine's disk.
    4. Commit: store the new token pair in the database.

Many refresh tokens work only once, and a provider that receives such a token twice can revoke the whole grant. So the
intent tells other processes that the token might be spent, even if this process dies. No process uses a new token
before it is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import AuthContext
from gateway.auth.mode import AuthMode, Dialogue
from gateway.catalog.provider import Provider
from gateway.errors import GatewayError, InvalidRequest, NotFound, ReconnectNeeded
from gateway.generation import CurrentGeneration
from gateway.journal import RecordedReply
from gateway.journal.reader import OpenRecord
from gateway.oauth.token_responses import GRANT_GONE, TokenRefused, TokenUnavailable
from gateway.observe.logs import current_trace_id
from gateway.observe.metrics import OTHER, REFRESH_DURATION, REFRESH_FAILURES, REFRESH_WAITS, REFRESHES, Metrics
from gateway.records.connection import Connection, ConnectionRef, Lease, RefreshFailure, log_fields
from gateway.records.operation import Operation, RecordOperation, current_request_id
from gateway.records.provider_call import scrubbed
from gateway.records.states import REJECTED, StateTrigger
from gateway.records.trace import current_refresh
from gateway.refresh import backoff, decision
from gateway.refresh.auth_exchange import Attempt, AuthDialogueRunner, mode_for
from gateway.refresh.backoff import ROTATION_LOST
from gateway.refresh.decision import (
    Facts,
    Holder,
    LeaseState,
    Node,
    RefreshStep,
    TokenRotation,
    keeps_intent,
    next_step,
)
from gateway.refresh.save_tokens import (
    LEASE,
    READ_AGAIN_S,
    TOKEN_CALL_S,
    RefreshedTokens,
    commit,
    has_same_credential,
    keep_lease,
    lease_ran_out,
    refresh_tokens,
    repeat_last,
    save_after_lost_lease,
    token_digest,
)
from gateway.store import Store
from gateway.store.failover import Claim
from gateway.store.journal_recovery import EarlierReplies
from gateway.store.refreshes import IMMEDIATELY

# Metrics use these failure codes as labels: the codes of RFC 6749 §5.2, and the gateway's own codes. All other codes
# share one label, because a provider can send any text as a code.
KNOWN_REASONS: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"),
        *("invalid_scope", ROTATION_LOST, backoff.NOT_REFRESHABLE, "token_endpoint_unavailable"),
    }
)

# ── Collects the facts for `gateway.refresh.decision` from the connection's row, this machine and this node.

FENCE: Final = timedelta(seconds=60)
"""How long other nodes wait after a lease has expired. Until then, its holder's machine can return and finish."""
CLAIMING_STEPS: Final = frozenset({RefreshStep.CLAIM, RefreshStep.TAKE_UP, RefreshStep.SEND_AGAIN})


class FactCollector:
    """Collects the facts that decide the next step of a refresh.

    Reads the journal and the lock files of this machine only if an intent is open.
    """

    def __init__(self, store: Store, current: CurrentGeneration) -> None:
        self._store = store
        self._current = current

    async def step(self, row: Connection, records: Sequence[OpenRecord] | None = None) -> RefreshStep:
        """Return the next step that this node may take with `row` now.

        `records`: the journal's records, for a caller that asks about many rows; None to read the journal.
        """
        return next_step(await self.facts(row, records))

    async def facts(self, row: Connection, records: Sequence[OpenRecord] | None = None) -> Facts:
        intent, lease = row.intent is not None, self._lease_state(row, clock.now())
        holder, recorded = Holder.NOBODY if row.lease is None else Holder.ELSEWHERE, False
        if intent:
            holder = await self._store.holders.holder_of(row.lease)
            # Read the journal only if the decision depends on it.
            may_claim = lease is not LeaseState.HELD or holder is Holder.HERE_DEAD
            recorded = may_claim and await self._store.journal.has_reply(row, records)
        return Facts(
            node=await self._node(),  # read last, so that the state is fresh when the caller claims the lease
            intent=intent,
            lease=lease,
            holder=holder,
            recorded=recorded,
            rotation=self._rotation(row) if intent else TokenRotation.UNKNOWN,
            shared=self._store.holders.shared,
            reported=intent and row.failure is not None and row.failure.code == ROTATION_LOST,
        )

    def fence_end(self, lease: Lease, now: datetime) -> datetime:
        """Return until when other machines wait for the holder of `lease`.

        An outage of the database does not count: a holder that is alive could neither renew its lease nor store its
        reply.
        """
        outage_end = self._store.failover.outage_end(now)
        return (lease.until if outage_end is None else max(lease.until, outage_end)) + FENCE

    def _lease_state(self, row: Connection, now: datetime) -> LeaseState:
        """Return the lease's state by this node's estimate of the database's time. The database checks a claim."""
        if row.lease is None:
            return LeaseState.FREE
        if row.lease.until > now:
            return LeaseState.HELD
        return LeaseState.RUN_OUT if self.fence_end(row.lease, now) > now else LeaseState.LONG_RUN_OUT

    async def _node(self) -> Node:
        if clock.offset.is_refused:
            return Node.CLOCK_OFF
        return Node.RECONCILING if await self._store.failover.reconciling() else Node.READY

    def _rotation(self, row: Connection) -> TokenRotation:
        provider = self._current.generation.catalog.get(row.provider)
        declared = provider.refresh.rotating if provider is not None and provider.refresh is not None else None
        if not (row.rotates or declared):
            return TokenRotation.UNKNOWN if declared is None else TokenRotation.NONE
        return (
            TokenRotation.KNOWN if provider is None or self._sends_refresh_token(row, provider) else TokenRotation.NONE
        )

    def _sends_refresh_token(self, row: Connection, provider: Provider) -> bool:
        mode = modes().get(provider.auth_mode)
        try:
            credential = self._store.open(row.credential)
        except GatewayError:
            return True  # unknown while the credential cannot be decrypted; True is the case that sends less
        return mode is None or credential["type"] not in mode.types() or mode.sends_refresh_token(credential, provider)


# ── Gets a new token pair: from the journal if a dead process left the reply there, otherwise from the provider.

log = structlog.get_logger(__name__)

Release = Callable[[], None]

UNREAD_DETAIL: Final = (
    "the response has a new refresh token, so it stays in the refresh journal until the catalog entry can read it"
)
UNREAD_FIX: Final = (
    "correct `token_response` of the provider's catalog entry and reload; if the response cannot be used, let the end "
    "user connect again"
)


class UnreadToken(TokenUnavailable):
    """The journal has a response with a new refresh token, which the catalog entry cannot read."""


class LeaseOver(Exception):
    """The lease expired before any request was sent, so another process might hold the lease now."""


class TokenSource:
    """Gets the new token pair for a claim. Only the holder of the lease may call `obtain_pair`."""

    def __init__(self, store: Store, dialogues: AuthDialogueRunner) -> None:
        self._store = store
        self._dialogues = dialogues

    async def obtain_pair(
        self, claim: Claim, mode: AuthMode, old_credential: Mapping[str, Any], context: AuthContext
    ) -> tuple[RefreshedTokens, Release]:
        """Return the new token pair, and a function to call after the pair is stored in the database.

        The provider's reply is already in the journal, unless the journal cannot be written. Raises TokenRefused,
        TokenUnavailable, GatewayError and LeaseOver.
        """
        row = claim.row
        earlier = await self._store.journal.earlier_replies(row) if row.intent is not None else EarlierReplies()
        if earlier.credential is not None:
            log.info("refresh_found_in_journal", **log_fields(row.ref))
            return _refreshed_tokens(
                row, mode, context, old_credential, earlier.credential.values, earlier.credential.expires_at
            ), _release_nothing
        await self._store.journal.prepare(row.ref.environment)
        await clock.give_way()  # run other tasks now, because later the reply must reach the journal quickly
        if lease_ran_out(claim):
            raise LeaseOver
        attempt, new_credential = await self._exchange_token(row, mode, old_credential, context, earlier.replies)
        return _refreshed_tokens(
            row, mode, context, old_credential, new_credential, mode.expires_at(new_credential)
        ), attempt.release

    async def _exchange_token(
        self,
        row: Connection,
        mode: AuthMode,
        old_credential: Mapping[str, Any],
        context: AuthContext,
        replies: Sequence[RecordedReply],
    ) -> tuple[Attempt, dict[str, Any]]:
        if replies:
            log.info("refresh_found_in_journal", **log_fields(row.ref))
            attempt = self._attempt(row, old_credential, replies)
            try:
                return attempt, await self._run_dialogue(row, mode.renew(old_credential, context), attempt)
            except (TokenRefused, TokenUnavailable) as fault:
                if attempt.has_sent:
                    raise  # the failure comes from the provider itself, not from an old reply in the journal
                if isinstance(fault, TokenUnavailable) and fault.maybe_journalled:
                    raise  # the token in the row is spent
        if not self._dialogues.exchange.available:  # not a failure of the token endpoint: other nodes can refresh now
            raise backoff.parent_ended_error()
        fresh_attempt = self._attempt(row, old_credential)
        try:
            return fresh_attempt, await self._run_dialogue(row, mode.renew(old_credential, context), fresh_attempt)
        except TokenRefused as fault:
            previous_tokens = self._accepted_previous_tokens(row)
            if fault.code not in GRANT_GONE or previous_tokens is None:
                raise
            # During a grace period, the provider still accepts the previous refresh token. Try that token, because the
            # provider might have lost the last rotation.
            log.warning("previous_refresh_token_tried", **log_fields(row.ref), reason=fault.code)
            previous_credential = {**old_credential, **previous_tokens}
            previous_attempt = self._attempt(row, previous_credential)
            return previous_attempt, await self._run_dialogue(
                row, mode.renew(previous_credential, context), previous_attempt
            )

    def _attempt(
        self, row: Connection, credential: Mapping[str, Any], replies: Sequence[RecordedReply] = ()
    ) -> Attempt:
        spent_tokens = [token for token in refresh_tokens(credential) if isinstance(token, str)]
        return Attempt(self._dialogues.exchange, self._store.journal.entry(row), replies, spent_tokens)

    async def _run_dialogue(
        self, row: Connection, dialogue: Dialogue[dict[str, Any]], attempt: Attempt
    ) -> dict[str, Any]:
        """Run `dialogue` and return its result. Release the attempt's journal records if the provider gave no token.

        The records stay if the reply has a new refresh token that the catalog entry cannot read: a corrected entry
        reads it later. After any other error, the records stay until the intent is closed, because they might have the
        only copy of a new token.
        """
        try:
            return await self._dialogues.run(dialogue, timeout_s=TOKEN_CALL_S, attempt=attempt)
        except (TokenRefused, TokenUnavailable) as fault:
            if isinstance(fault, TokenUnavailable) and fault.maybe_done and attempt.has_unread_token:
                log.error("token_response_unreadable", **log_fields(row.ref), detail=fault.reason, fix=UNREAD_FIX)
                raise UnreadToken(f"{fault.reason}; {UNREAD_DETAIL}", maybe_done=True, maybe_journalled=True) from None
            attempt.release()
            raise

    def _accepted_previous_tokens(self, row: Connection) -> Mapping[str, Any] | None:
        is_accepted = row.previous_until is not None and clock.now() < row.previous_until
        return (self._store.open_or_nothing(row.previous) or None) if is_accepted else None


def _refreshed_tokens(
    row: Connection,
    mode: AuthMode,
    context: AuthContext,
    old_credential: Mapping[str, Any],
    new_credential: Mapping[str, Any],
    expires_at: datetime | None,
) -> RefreshedTokens:
    """Return the new tokens, with a report if the mode has dropped a part of the credential.

    If an intent was open before this refresh, the part was most likely lost with an earlier response.
    """
    part = mode.dropped_part(old_credential, new_credential)
    note = backoff.dropped_part_note(part, row.intent.at if row.intent is not None else None) if part else None
    return RefreshedTokens(context.provider, old_credential, new_credential, expires_at, note)


def _release_nothing() -> None:
    pass


class ClaimResult(NamedTuple):
    """What the protocol found or did when it claimed the lease.

    `row`: the row before the claim, or the row with a newer credential. `claimed_at`: the time just before the claim or
    the last check, in monotonic seconds. `keeps_intent`: as in `decision.keeps_intent`.
    """

    row: Connection
    claimed_at: float
    keeps_intent: bool = False


class RefreshProtocol:
    """Runs refreshes; each call of `refresh` is one refresh.

    The protocol reads the configuration after it has acquired the lease, so it sends no request if a reload has removed
    the catalog entry meanwhile.
    """

    def __init__(
        self,
        store: Store,
        current: CurrentGeneration,
        dialogues: AuthDialogueRunner,
        metrics: Metrics,
        record_operation: RecordOperation,
    ) -> None:
        self._store = store
        self._current = current
        self._record_operation = record_operation
        self._token_source = TokenSource(store, dialogues)
        self.fact_collector = FactCollector(store, current)
        self._metrics = metrics

    async def refresh(self, known_row: Connection, *, force: bool) -> Connection:
        """Return the connection with a newer credential than `known_row` has. Raises GatewayError.

        If another process has already stored a newer credential, return that credential without a call.
        """
        try:
            self._open_row(known_row)
        except ReconnectNeeded as fault:
            await self._store_token_end(known_row, fault)
            raise
        while True:
            owner = await self._store.holders.new_owner()
            claim_result = await self._claim_lease(known_row, owner, force)
            if not has_same_credential(claim_result.row, known_row):
                return claim_result.row
            refreshed = await self._refresh_claimed(claim_result, owner)
            if refreshed is not None and not has_same_credential(refreshed, known_row):
                return refreshed
            # Another process took the lease and is still refreshing: wait for its result.

    def _open_row(self, known_row: Connection) -> tuple[Provider, AuthMode, Mapping[str, Any]]:
        """Return the row's catalog entry, its auth mode and its decrypted credential.

        Raises ReconnectNeeded if the credential cannot be refreshed, NotFound if the catalog does not have the entry,
        and another GatewayError if the credential cannot be decrypted.
        """
        credential = self._store.open(known_row.credential)
        provider = self._current.generation.catalog.get(known_row.provider)
        if provider is None:
            raise backoff.no_catalog_entry_error(known_row.ref.integration_id, known_row.provider)
        mode = mode_for(provider, credential, known_row.ref)
        if not mode.refreshable(credential, provider):
            raise backoff.not_refreshable_error(known_row)
        return provider, mode, credential

    async def _claim_lease(self, known_row: Connection, owner: str, force: bool) -> ClaimResult:
        """Claim the lease of a connection for a refresh, and write the intent.

        If another process has stored a credential that differs from the credential of `known_row`, return that row
        without a claim. Raises the error for the caller if this node cannot claim the lease now.
        """
        row, pauses, has_waited = known_row, repeat_last(READ_AGAIN_S), False
        while True:
            failure, now = row.failure, clock.now()
            client_since = self._current.generation.integrations.client_since(*row.ref[:2])
            if (
                failure is not None
                and not backoff.may_try(row, now, client_since)
                and (not force or failure != known_row.failure)
            ):
                # An earlier failure forbids the attempt. With `force`, ignore the failure that is already in
                # `known_row`.
                raise backoff.refresh_error(row, failure, now)
            intent = token_digest(self._store, row)
            facts = await self.fact_collector.facts(row)
            step, asked_at = next_step(facts), clock.monotonic()
            if step in CLAIMING_STEPS:
                holder_is_dead = facts.lease is LeaseState.HELD
                after_fence = step is RefreshStep.SEND_AGAIN and facts.lease is not LeaseState.FREE
                expired_for = FENCE if after_fence else IMMEDIATELY
                if await self._store.refreshes.lease_refresh(
                    known_row.ref,
                    owner=owner,
                    ttl=LEASE,
                    known_row=row,
                    intent=intent,
                    expired_for=expired_for,
                    from_holder=holder_is_dead,
                ):
                    return ClaimResult(row, asked_at, keeps_intent(facts))
            elif row is not known_row:  # `known_row` can be old, so raise no error before a new read
                await self._raise_if_long_wait(row, step, now)
            last_read, row = row, await self._read(known_row.ref)
            if not has_same_credential(row, known_row):
                return ClaimResult(row, asked_at)
            # If the row is unchanged, wait for the process that refreshes, or for the nodes after a failover.
            if (row.mark, row.intent, row.lease) == (last_read.mark, last_read.intent, last_read.lease):
                if not has_waited:
                    has_waited = True
                    self._metrics.add(REFRESH_WAITS, *row.ref[:2])
                await clock.sleep(next(pauses))

    async def _raise_if_long_wait(self, row: Connection, step: RefreshStep, now: datetime) -> None:
        """Raise the error for the caller, unless a short wait is enough."""
        if step is RefreshStep.HALT:
            raise backoff.clock_off_error(clock.offset.seconds)
        if step is RefreshStep.WAIT and self._store.failover.pending_s > decision.MIN_WAIT_S + READ_AGAIN_S[-1]:
            raise backoff.failed_over_error()
        if step is RefreshStep.DEFER and row.lease is not None:
            raise backoff.interrupted_error(row, self.fact_collector.fence_end(row.lease, now), now)
        if step is RefreshStep.REFUSE and row.failure is not None:
            raise backoff.refresh_error(row, row.failure, now)
        if step is RefreshStep.REPORT_LOST and row.intent is not None and row.lease is not None:
            # The holder keeps the lease, because its machine might still have the reply and finish the refresh.
            lost_failure = backoff.lost_token_failure(row, row.intent.at, now)
            await self._record_failure(
                row, row.lease.owner, lost_failure, now, keep_intent=True, former_lease=row.lease
            )

    async def _refresh_claimed(self, claim_result: ClaimResult, owner: str) -> Connection | None:
        """Call the token endpoint, store the outcome and return the row. Raises the error for the caller.

        Return None if another process might hold the lease now, or has stored a newer credential.
        """
        row = claim_result.row
        async with keep_lease(self._store, row, owner, claim_result.claimed_at) as claim:
            started = clock.monotonic()
            if (trace := current_refresh.get()) is not None:
                trace.left_queue_at = started
            try:
                await clock.give_way()
                integration = self._current.generation.integrations.get(*row.ref[:2])
                provider, mode, old_credential = self._open_row(row)
                config = self._store.settings_of(row)
                context = AuthContext(provider, integration, config, row.metadata)
                pair, release = await self._token_source.obtain_pair(claim, mode, old_credential, context)
            except (TokenRefused, TokenUnavailable) as fault:
                return await self._store_failure(claim_result, owner, fault)
            except InvalidRequest as fault:  # a setting is missing, and no request was sent
                await self._store_missing_setting(row, owner, fault)
                raise
            except (GatewayError, LeaseOver) as fault:  # no request was sent, for example because the entry was removed
                keep_intent = row.intent is not None
                await self._store.refreshes.release_lease(
                    row.ref, owner=owner, keep_intent=keep_intent, former_lease=row.lease
                )
                if isinstance(fault, LeaseOver):
                    return None
                raise
            except BaseException:  # a bug, or the process ends: the token might be spent, so the intent stays open
                await self._store.refreshes.end_lease(row.ref, owner=owner)
                raise
            saved_row = await commit(self._store, row, owner, pair)
        if saved_row is None:
            saved_row = await save_after_lost_lease(self._store, row, pair)
        release()
        if saved_row is not None:
            took_ms = round((clock.monotonic() - started) * 1000)
            self._metrics.add(REFRESHES, *row.ref[:2], "renewed")
            self._metrics.measure(REFRESH_DURATION, took_ms, *row.ref[:2])
            log.info("token_refreshed", **log_fields(row.ref), version=saved_row.version, duration_ms=took_ms)
            if pair.note is not None:
                reason = pair.note.reason
                log.warning("credential_part_dropped", **log_fields(row.ref), reason=reason, detail=pair.note.detail)
                if reason == ROTATION_LOST:
                    self._metrics.add(REFRESH_FAILURES, *row.ref[:2], reason)
            self._record(row, None, {"version": saved_row.version}, took_ms)
        return saved_row

    async def _store_failure(
        self, claim_result: ClaimResult, owner: str, fault: TokenRefused | TokenUnavailable
    ) -> Connection | None:
        """Store the failure, unless the row now has another credential or another holder of the lease."""
        row, now = claim_result.row, clock.now()
        lost_at = (
            row.intent.at if row.intent is not None and row.intent.digest == token_digest(self._store, row) else None
        )
        failure = backoff.refresh_failure(fault, row.failure, now, lost_at=lost_at, since=row.state_since)
        credential = self._store.open(row.credential)
        tokens = tuple(text for name, text in credential.items() if name.endswith("_token") and isinstance(text, str))
        # logs, events and responses show the text
        failure = replace(failure, message=scrubbed(failure.message, tokens))
        # The provider refused a token that was sent again, and no other machine can have a reply: close the intent.
        settled = failure.code == backoff.ROTATION_LOST and not claim_result.keeps_intent
        keep_intent = not settled and (
            lost_at is not None or (isinstance(fault, TokenUnavailable) and fault.maybe_done)
        )
        keep_lease = isinstance(fault, TokenUnavailable) and fault.maybe_journalled
        try:
            await self._record_failure(
                row,
                owner,
                failure,
                now,
                keep_intent=keep_intent,
                keep_lease=keep_lease,
                rotates=isinstance(fault, UnreadToken),
            )
        except GatewayError as refusal:
            if keep_lease:  # other machines wait until this machine finishes with the reply in its journal
                with suppress(GatewayError):
                    await self._store.refreshes.end_lease(row.ref, owner=owner)
            raise refusal from fault
        return None

    async def _record_failure(
        self,
        row: Connection,
        owner: str,
        failure: RefreshFailure,
        now: datetime,
        *,
        keep_intent: bool,
        former_lease: Lease | None = None,
        keep_lease: bool = False,
        rotates: bool = False,
    ) -> None:
        """Store `failure` and raise the error for callers. The arguments are those of `RefreshStore.record_failure`.

        Return without an error if another process holds the lease or has stored a newer credential.
        """
        stored_row = await self._store.refreshes.record_failure(
            row.ref,
            owner=owner,
            version=row.version,
            failure=failure,
            keep_intent=keep_intent,
            former_lease=former_lease,
            keep_lease=keep_lease,
            rotates=rotates,
        )
        if stored_row is None:
            return
        failure_fields = {"reason": failure.code, "final": failure.final, "detail": failure.message}
        log.warning("token_refresh_failed", **log_fields(row.ref), **failure_fields)
        self._record(row, failure.code, {"final": failure.final, "message": failure.message})
        self._metrics.add(REFRESHES, *row.ref[:2], "refused" if failure.final else "unavailable")
        self._metrics.add(REFRESH_FAILURES, *row.ref[:2], failure.code if failure.code in KNOWN_REASONS else OTHER)
        raise backoff.refresh_error(stored_row, failure, now)

    def _record(self, row: Connection, code: str | None, detail: Mapping[str, Any], took_ms: float = 0.0) -> None:
        """Add this refresh to the call log, with the id of the request that started the refresh."""
        trace = current_refresh.get()
        if trace is not None:
            trace.end()
        self._record_operation(
            Operation(
                "refresh",
                clock.now(),
                current_request_id.get(),
                *row.ref,
                error_code=code,
                duration_ms=took_ms,
                trace_id=current_trace_id.get(),
                detail=detail,
                trace=trace,
            )
        )

    async def _store_token_end(self, known_row: Connection, fault: ReconnectNeeded) -> None:
        """Record that an access token without a refresh token has expired."""
        now = clock.now()
        if (
            (known_row.failure is not None and known_row.failure.code != REJECTED)
            or known_row.expires_at is None
            or known_row.expires_at > now
        ):
            return
        if (fault.payload or {}).get("reason") != backoff.NOT_REFRESHABLE:
            return
        owner = await self._store.holders.new_owner()
        if await self._store.refreshes.lease_refresh(known_row.ref, owner=owner, ttl=LEASE, known_row=known_row):
            await self._store.refreshes.record_failure(
                known_row.ref, owner=owner, version=known_row.version, failure=backoff.token_end_failure(now)
            )

    async def _store_missing_setting(self, row: Connection, owner: str, fault: GatewayError) -> None:
        failure = RefreshFailure(fault.code, fault.message, False, clock.now(), 1, clock.now() + backoff.FIRST_WAIT)
        await self._store.refreshes.record_failure(
            row.ref,
            owner=owner,
            version=row.version,
            failure=failure,
            keep_intent=row.intent is not None,
            former_lease=row.lease,
            trigger=StateTrigger.UNFINISHED,
        )

    async def _read(self, ref: ConnectionRef) -> Connection:
        row = await self._store.connections.get(ref)
        if row is None:
            raise NotFound("unknown_connection", f"Connection '{ref.connection_id}' has been deleted.")
        return row
