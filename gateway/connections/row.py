"""What is to be stored of a credential and its settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.connections.lifespan import lifespan
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
    return NewConnection(
        ref=ref,
        provider=context.provider.name,
        credential=held,
        expires_at=mode.expires_at(held),
        config=plain,
        secret_config=secret or None,
        metadata=context.metadata,
        life=lifespan(context.provider, held, key="/".join(ref), granted_at=granted_at, refreshed_at=refreshed_at),
        account=account,
    )
