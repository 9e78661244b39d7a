"""Calls: the list with its filters, and one call with everything that happened during it."""

import pytest

from tests.fakes.console import at_console, operation
from tests.fakes.gateways import RunningGateway


async def test_call_page_shows_all_operations_of_its_request(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    await log.add_many(
        [
            operation(
                2, kind="refresh", request_id="r1", path="", method="", token_ms=None, error_code="invalid_grant"
            ),
            operation(1, gateway_ms=0.5, token_ms=20.0, upstream_ms=80.0, rule="GET /items/*", key_id=3),
            operation(3),
        ]
    )
    async with at_console(running) as console:
        calls = (await console.data("/dev/calls.json?request=r1&kind=call"))["operations"]
        one = await console.data(f"/dev/call.json?id={calls[0]['id']}")
        assert one["operation"]["path"] == "/items/1"
        assert [other["kind"] for other in one["others"]] == ["refresh"]
        assert [(part["name"], part["ms"]) for part in one["where"]["parts"]] == [
            ("gateway", 0.5),
            ("token", 20.0),
            ("provider", 80.0),
        ]
        assert "Gateway-Dry-Run: true" in one["curl"]
        page = await console.page(f"/dev/call?id={calls[0]['id']}")
        assert "GET /items/*" in page
        for path in ("/dev/call?id=0", "/dev/call?id=x", "/dev/call?id=99999999999"):
            await console.page(path, expect=404)


async def test_the_list_marks_dry_runs(running: RunningGateway) -> None:
    rows = [operation(1, detail={"dry_run": True}, attempts=0), operation(2, detail={"tool": "get"}), operation(3)]
    await running.runtime.store.call_log.add_many(rows)
    async with at_console(running) as console:
        page = await console.page("/dev/calls?kind=call")
    assert page.count(">dry run<") == 1


@pytest.mark.parametrize("query", ["since=x", "status=9xx", "key=x", "before=-1", "kind=dance", "text=x"])
@pytest.mark.asyncio(loop_scope="module")
async def test_error_for_a_wrong_filter_names_it(shared_gateway: RunningGateway, query: str) -> None:
    async with at_console(shared_gateway) as console:
        assert f"'{query.partition('=')[0]}' " in await console.page(f"/dev/calls?{query}", expect=400)
