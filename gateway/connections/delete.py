"""Deletes a connection in the store, then revokes its tokens at the provider.

Also revokes the tokens of connections that were never completed. A refresh in progress could fetch a token that would
never be revoked. Therefore the deletion takes the refresh lease before it reads the credential for the last time. After
the deletion, no refresh is possible.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.mode import AuthMode
from gateway.auth.provider_responses import safe_text
from gateway.auth.revocation import RevocationOutcome, revocable, revoke
from gateway.background import ShieldedTasks
from gateway.connections.cache import ConnectionCache
from gateway.errors import GatewayError
from gateway.generation import CurrentGeneration
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.refresh.auth_exchange import AuthDialogueRunner, mode_for
from gateway.store import Store

# ── Revokes a credential's tokens at its provider, for deleted connections and for connections never completed.

RETRY_S: Final = 1.0

log = structlog.get_logger(__name__)


class Revoker:
    """Revokes tokens at their provider. If the provider is unavailable, tries once more after `RETRY_S` seconds."""

    def __init__(self, current: CurrentGeneration, dialogues: AuthDialogueRunner) -> None:
        self._current = current
        self._dialogues = dialogues

    async def revoke(
        self,
        ref: ConnectionRef,
        provider_name: str,
        integration: Integration,
        credential: Mapping[str, Any],
        config: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
    ) -> list[RevocationOutcome]:
        """Revoke the tokens at the provider; return one outcome for each revocable token. `config`: all settings,
        including secret ones.

        Never raises: a failure is returned as an outcome, and logged."""
        provider = self._current.generation.catalog.get(provider_name)
        if provider is None:
            return []
        try:
            mode = mode_for(provider, credential, ref)
            return await self._revoke_tokens(mode, credential, AuthContext(provider, integration, config, metadata))
        except (GatewayError, TokenRefused, TokenUnavailable) as fault:
            return [self.record_failed(ref, fault.message if isinstance(fault, GatewayError) else str(fault))]

    def record_failed(self, ref: ConnectionRef, reason: str) -> RevocationOutcome:
        """Log and return the outcome of a credential for which no revocation could be tried."""
        log.warning("revocation_failed", connection_id=ref.connection_id, detail=reason)
        return RevocationOutcome("credential", "failed", safe_text(reason))

    async def _revoke_tokens(
        self, mode: AuthMode, credential: Mapping[str, Any], context: AuthContext
    ) -> list[RevocationOutcome]:
        tokens = revocable(context, mode.revocable(credential))
        if not tokens:
            return []
        spec, values = mode.revocation(credential, context), dict(mode.values(credential))
        outcomes = await self._dialogues.run(revoke(context, spec, tokens, values))
        unavailable = [
            token for token, outcome in zip(tokens, outcomes, strict=True) if outcome.outcome == "unavailable"
        ]
        if not unavailable:
            return outcomes
        await clock.sleep(RETRY_S)
        second_outcomes = await self._dialogues.run(revoke(context, spec, unavailable, values))
        return _with_second_outcomes(outcomes, second_outcomes)


def _with_second_outcomes(
    first_outcomes: Sequence[RevocationOutcome], second_outcomes: Sequence[RevocationOutcome]
) -> list[RevocationOutcome]:
    second_by_token = {outcome.token: outcome for outcome in second_outcomes}
    return [second_by_token.get(outcome.token, outcome) for outcome in first_outcomes]


LEASE: Final = timedelta(seconds=15)
LEASE_WAIT_S: Final = 30.0  # maximum wait of a deletion; a token call takes at most 28 s
LEASE_RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConnectionDeletion:
    """A deleted connection, and the results of revoking its tokens."""

    connection: Connection
    revocation: tuple[RevocationOutcome, ...]

    @property
    def at_provider(self) -> bool:
        """Whether the connection was also revoked at the provider: the connection had a token, and no token can still
        work."""
        return bool(self.revocation) and not any(result.may_still_work for result in self.revocation)


class Deleter:
    """Deletes connections, for the API and for the command line."""

    def __init__(self, store: Store, current: CurrentGeneration, live: ConnectionCache, revoker: Revoker) -> None:
        self._store = store
        self._current = current
        self._live = live
        self._revoker = revoker
        self._tasks = ShieldedTasks()

    async def delete(
        self, ref: ConnectionRef, *, at_provider: bool = True, integration: Integration | None = None
    ) -> ConnectionDeletion | None:
        """Delete the connection and return the result, or None if the connection does not exist. `at_provider`: whether
        to revoke its tokens at the provider. `integration`: the connection's integration, needed if it is no longer in
        the registry.

        The deletion continues if the caller is cancelled.
        """
        return await self._tasks.run(self._delete(ref, at_provider, integration))

    async def close(self, within_s: float = 15) -> None:
        """Wait for deletions in progress, at most `within_s` seconds."""
        await self._tasks.close(within_s)

    async def _delete(
        self, ref: ConnectionRef, at_provider: bool, integration: Integration | None
    ) -> ConnectionDeletion | None:
        if at_provider:
            await self._take_refresh_lease(ref)
        row = await self._store.connections.get(ref)
        deleted = row is not None and await self._store.connections.delete(ref, now=clock.now())
        self._live.forget(ref)
        if row is None or not deleted:
            return None
        outcomes = await self._revoke_row(row, integration) if at_provider else []
        by_token = {outcome.token: outcome.outcome for outcome in outcomes}
        deletion = ConnectionDeletion(row, tuple(outcomes))
        log.info(
            "connection_deleted",
            environment=ref.environment,
            integration=ref.integration_id,
            connection_id=ref.connection_id,
            at_provider=deletion.at_provider,
            revocation=[f"{name.replace('_', ' ')}: {outcome}" for name, outcome in by_token.items()],
        )
        return deletion

    async def _take_refresh_lease(self, ref: ConnectionRef) -> None:
        """Take the refresh lease, so that no refresh runs or can start on any node. Give up after `LEASE_WAIT_S`
        seconds."""
        owner, until = f"delete-{uuid.uuid4().hex}", clock.monotonic() + LEASE_WAIT_S
        while not await self._store.refreshes.lease_refresh(ref, owner=owner, ttl=LEASE):
            if clock.monotonic() >= until or await self._store.connections.get(ref) is None:
                return
            await asyncio.sleep(LEASE_RETRY_S)

    async def _revoke_row(self, row: Connection, known_integration: Integration | None) -> list[RevocationOutcome]:
        """Revoke the row's tokens at the provider; return one outcome for each revocable token."""
        integration = known_integration or self._current.generation.integrations.find(*row.ref[:2])
        if integration is None:
            return []
        try:
            credential = self._store.open(row.credential)
            config = self._store.settings_of(row)
        except GatewayError as fault:
            return [self._revoker.record_failed(row.ref, fault.message)]
        return await self._revoker.revoke(row.ref, row.provider, integration, credential, config, row.metadata)
