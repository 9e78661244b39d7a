"""Takes up refreshes whose holder died: an intent that is still open when its lease runs out is tried once more.

A lease whose holder is known to be dead, since it was a process of this machine, ends at once.

Where its answer had come already, the pair is found on the disk. Where the provider had not redeemed the token yet, or still
takes it for a grace time, that brings a new pair. Where it refuses, the rotation is lost, and the connection says so
(`rotation_lost`).
"""

import asyncio
from typing import Final

import structlog

from gateway import clock
from gateway.connections.lease import end_leases_of_the_dead
from gateway.connections.renew import Renewer
from gateway.errors import GatewayError
from gateway.store import Store

EVERY_S: Final = 5.0
AT_ONCE: Final = 100

log = structlog.get_logger(__name__)


async def recover(store: Store, renewer: Renewer) -> None:
    """Look for them now and then, for as long as the gateway runs; the lease sees to it that one node does each."""
    while True:
        try:
            await end_leases_of_the_dead(store)
            for row in await store.connections.abandoned(clock.now(), limit=AT_ONCE):
                log.info("refresh_taken_up", connection_id=row.ref.connection_id, integration=row.ref.integration_id)
                renewer.start(row, force=True)
            await store.leftovers.sweep(store.connections.get)
        except GatewayError as fault:
            log.warning("recovery_failed", detail=fault.message)
        await asyncio.sleep(EVERY_S)
