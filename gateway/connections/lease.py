"""The lease on a connection's refresh, held for as long as something is under way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.errors import GatewayError
from gateway.records.connection import ConnectionRef
from gateway.store import Store

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
            if not await store.connections.extend_lease(ref, owner=owner, ttl=LEASE):
                log.warning("refresh_lease_lost", connection_id=ref.connection_id, integration=ref.integration_id)
                return
        except GatewayError as fault:
            log.warning("refresh_lease_not_renewed", connection_id=ref.connection_id, detail=fault.message)
