"""Creating a stored connection from a credential."""

import pytest

from gateway.records.connection import Connection, ConnectionRef
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_import_without_settings_reads_the_existing_connection_once(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections, reads = running.runtime.store.connections, list[ConnectionRef]()
    get = connections.get

    async def get_and_record(ref: ConnectionRef) -> Connection | None:
        reads.append(ref)
        return await get(ref)

    monkeypatch.setattr(connections, "get", get_and_record)
    integration = running.runtime.generation.integrations.get("dev", "tracker")
    for _ in range(2):
        credential = {"type": "OAUTH2", "access_token": tracker.grant()["access_token"]}
        await running.runtime.creator.prepare(integration, credential, connection_id="c1")
    assert reads == [ConnectionRef("dev", "tracker", "c1")] * 2
