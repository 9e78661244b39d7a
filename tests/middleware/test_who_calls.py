"""The audit actor is set only while a request is handled, not for the next request on the same connection."""

import aiohttp

from gateway.records.audit import SYSTEM, current_actor
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_a_refresh_for_a_proxied_call_is_not_by_the_caller_of_the_request_before(
    running: RunningGateway, tracker: Tracker
) -> None:
    running.runtime.store.trail.all_refreshes = True
    grant = {name: text for name, text in tracker.grant().items() if name != "expires_in"}
    await running.import_connection({**grant, "expires_at": "2020-01-01T00:00:00Z"})
    async with aiohttp.ClientSession(
        headers=running.headers, connector=aiohttp.TCPConnector(limit=1), auto_decompress=False
    ) as one_connection:
        async with one_connection.get(f"{running.url}/connections") as response:
            assert response.status == 200
        headers = {"Provider-Config-Key": "tracker", "Connection-Id": "c1"}
        async with one_connection.get(f"{running.url}/proxy/me", headers=headers) as response:
            assert response.status == 200
    await running.runtime.audit_keeper.run_once()
    found = await running.json("GET", "/audit?action=connection.refreshed", expect=200)
    assert [item["actor"] for item in found["data"]] == [{"kind": "system"}]
    assert current_actor.get() is SYSTEM
