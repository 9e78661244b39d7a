"""What is to be stored of a credential and its settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.connections.ends import ended
from gateway.connections.lifespan import ends_with_token, lifespan, refresh_token_advice
from gateway.connections.settings import parted
from gateway.records.connection import Account, ConnectionRef, NewConnection


def new_row(
    ref: ConnectionRef,
    mode: AuthMode,
    held: Mapping[str, Any],
    context: Context,
    *,
    granted_at: datetime,
    refreshed_at: datetime,
    account: Account,
) -> NewConnection:
    """Without what only the customer knows. The two times, with `held`, tell when the grant ends."""
    plain, secret = parted(context.provider, context.config)
    life = lifespan(context.provider, held, key="/".join(ref), granted_at=granted_at, refreshed_at=refreshed_at)
    expires_at, now = mode.expires_at(held), clock.now()
    over = not life.settled and expires_at is not None and expires_at <= now
    return NewConnection(
        ref=ref,
        provider=context.provider.name,
        credential=held,
        expires_at=expires_at,
        config=plain,
        secret_config=secret or None,
        metadata=context.metadata,
        life=life,
        account=account,
        ended=ended(now) if over else None,
        warning=_warning(context, held),
    )


def _warning(context: Context, held: Mapping[str, Any]) -> str | None:
    if not ends_with_token(context.provider, held):
        return None
    name, how = context.provider.display_name, refresh_token_advice(context.provider, context.integration)
    return f"{name} gave no refresh token, so the connection ends with its access token. {how}"
