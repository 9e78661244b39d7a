"""Ends the tokens of a credential at its provider: of a connection that was deleted, or that was never completed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.auth.revocation import RevocationOutcome, revocable, revoke
from gateway.auth.words import short
from gateway.catalog.load import Catalog
from gateway.connections.dialogues import Dialogues
from gateway.connections.fitting import mode_for
from gateway.errors import GatewayError
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration

ASK_AGAIN_S: Final = 1.0

log = structlog.get_logger(__name__)


class Revoker:
    """Once more after a second, where the provider is unavailable."""

    def __init__(self, catalog: Catalog, dialogues: Dialogues) -> None:
        self._catalog = catalog
        self._dialogues = dialogues

    async def revoke(
        self,
        ref: ConnectionRef,
        provider_name: str,
        integration: Integration,
        held: Mapping[str, Any],
        config: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
    ) -> list[RevocationOutcome]:
        """One outcome a token; empty where the credential holds none that a provider could end. `config` with its secrets.

        Never raises: a failure is an outcome, and logged."""
        provider = self._catalog.get(provider_name)
        if provider is None:
            return []
        try:
            mode = mode_for(provider, held, ref)
            return await self._ended(mode, held, Context(provider, integration, config, metadata))
        except (GatewayError, TokenRefused, TokenUnavailable) as fault:
            return [self.failed(ref, fault.message if isinstance(fault, GatewayError) else str(fault))]

    def failed(self, ref: ConnectionRef, reason: str) -> RevocationOutcome:
        """The outcome of a credential that could not even be tried."""
        log.warning("revocation_failed", connection_id=ref.connection_id, detail=reason)
        return RevocationOutcome("credential", "failed", short(reason))

    async def _ended(self, mode: AuthMode, held: Mapping[str, Any], context: Context) -> list[RevocationOutcome]:
        tokens = revocable(context, mode.revocable(held))
        if not tokens:
            return []
        how, credential = mode.revocation(held, context), dict(mode.values(held))
        outcomes = await self._dialogues.hold(revoke(context, how, tokens, credential))
        again = [token for token, told in zip(tokens, outcomes, strict=True) if told.outcome == "unavailable"]
        if not again:
            return outcomes
        await clock.sleep(ASK_AGAIN_S)
        second = await self._dialogues.hold(revoke(context, how, again, credential))
        return _merged(outcomes, second)


def _merged(first: Sequence[RevocationOutcome], second: Sequence[RevocationOutcome]) -> list[RevocationOutcome]:
    newer = {outcome.token: outcome for outcome in second}
    return [newer.get(outcome.token, outcome) for outcome in first]
