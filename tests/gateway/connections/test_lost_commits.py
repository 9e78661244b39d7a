"""After a failover, the newest version of each connection in memory is written back."""

from typing import Any

from sqlalchemy import select, update

from gateway.records.connection import ConnectionRef
from gateway.store.tables import connections
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
SHOWN = "/connections/c1?provider_config_key=tracker"


async def refresh(node: RunningGateway) -> None:
    await node.json("GET", f"{SHOWN}&force_refresh=true", expect=200)


async def test_connection_that_was_created_again_is_written_back_although_the_former_had_a_higher_version(
    running: RunningGateway, tracker: Tracker
) -> None:
    store = running.runtime.store
    await running.import_connection(tracker.grant())
    for _ in range(2):
        await refresh(running)
    await running.json("DELETE", SHOWN, expect=200)
    await running.import_connection(tracker.grant())
    async with store.transactions.read() as db:
        before: dict[str, Any] = dict((await db.execute(select(connections))).mappings().one())
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        await refresh(other)
    finally:
        await other.stop()
    newest = await store.connections.get(REF)
    assert newest is not None
    await store.transactions.write(lambda db: db.execute(update(connections).values(before)))  # a failover
    await running.runtime.live.lost_commits.write_back([newest])
    written = await store.connections.get(REF)
    assert written is not None
    assert (written.uid, written.version) == (newest.uid, newest.version)
