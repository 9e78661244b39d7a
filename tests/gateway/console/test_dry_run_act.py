"""A logged call is repeated as a dry run: nothing is sent, and no token is shown."""

from tests.fakes.console import at_console, csrf_token, operation
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_a_call_is_repeated_as_a_dry_run(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    await running.import_connection(grant)
    body = {"display_name": "agent", "limits": {"rules": ["GET /items/*"]}}
    minted = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    log = running.runtime.store.call_log
    refused = operation(2, method="DELETE", key_id=minted["id"], status=403, error_code="forbidden", rule="rules")
    deleted = operation(3, connection_id="gone")
    await log.add_many([operation(1, key_id=minted["id"]), refused, deleted, operation(4, kind="refresh", path="")])
    sent = tracker.calls["api"]
    async with at_console(running) as console:
        found = {item["request_id"]: item["id"] for item in (await console.data("/dev/calls.json"))["operations"]}
        page = await console.page(f"/dev/call?id={found['r1']}")
        form = csrf_token(page)

        async def dry(name: str, expect: int = 200) -> str:
            return await console.send("/dev/call/dry-run", {"form": form, "id": str(found[name])}, expect=expect)

        passes = await dry("r1")
        assert f"GET {tracker.url}/items/1" in passes
        assert "Bearer ***" in passes
        assert "The key allows this call" in passes
        assert grant["access_token"] not in passes
        assert "The key refuses this call" in await dry("r2")
        assert "no connection 'gone'" in await dry("r3")
        assert "Only a proxied call" in await dry("r4", expect=400)
        assert "do not allow" in await console.page(f"/dev/call?id={found['r2']}")
    assert tracker.calls["api"] == sent


async def test_a_key_without_the_connection_refuses_the_dry_run(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    body = {"display_name": "agent", "limits": {"connections": ["tracker/c2"]}}
    minted = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    refused = operation(1, key_id=minted["id"], status=404, error_code="unknown_connection")
    await running.runtime.store.call_log.add_many([refused])
    async with at_console(running) as console:
        (first_operation,) = (await console.data("/dev/calls.json"))["operations"]
        form = csrf_token(await console.page(f"/dev/call?id={first_operation['id']}"))
        page = await console.send("/dev/call/dry-run", {"form": form, "id": str(first_operation["id"])})
        assert "its limits do not include this connection" in page
        assert "The key allows this call" not in page
