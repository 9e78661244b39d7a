"""The first page: problems that need a person now, and the calls of one day."""

import re
from typing import Any

from tests.fakes.console import at_console, operation
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_idle_gateway_shows_no_problem(running: RunningGateway) -> None:
    async with at_console(running) as console:
        page = await console.page("/dev")
        assert "Nothing to do" in page
        data = await console.data("/dev.json")
        assert (data["failures"], data["trouble"], data["dead"], data["traffic"]) == ([], [], [], None)


async def test_page_now_groups_failures_and_links_to_each(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    refused = [operation(n, status=403, error_code="forbidden", key_id=7, rule="rules") for n in range(3)]
    down = [operation(n, status=502, error_code="upstream_unreachable") for n in range(10, 15)]
    await log.add_many([*refused, *down, operation(20, upstream_ms=5.0, gateway_ms=0.2), operation(21, status=404)])
    async with at_console(running) as console:
        data = await console.data("/dev.json")
        found = [(failure["count"], failure["kind"], failure["reason"]) for failure in data["failures"]]
        assert found == [(5, "call", "upstream_unreachable"), (3, "call", "forbidden"), (1, "call", "404")]
        assert data["traffic"]["calls"] == 10
        assert data["traffic"]["failed_percent"] == 90.0
        page = await console.page("/dev")
        assert "code=upstream_unreachable" in page
        listed = await console.data("/dev/calls.json?kind=call&integration=tracker&code=forbidden&since=24h")
        assert len(listed["operations"]) == 3
        assert (await console.data("/dev/calls.json?status=404&failed=1&since=24h"))["operations"][0]["status"] == 404


async def test_a_failure_links_only_to_an_integration_that_exists(running: RunningGateway) -> None:
    typo = operation(1, status=404, error_code="unknown_provider_config", integration_id="trakcer")
    nameless = operation(2, status=400, error_code="invalid_headers", integration_id="", connection_id="")
    await running.runtime.store.call_log.add_many([typo, nameless, operation(3, status=404)])
    async with at_console(running) as console:
        page = await console.page("/dev")
        assert re.findall(r"/console/dev/integration[?]key=(\w*)", page) == ["tracker"]
        assert "trakcer" in page
        assert "Calls name an integration that does not exist." in page
        assert "Calls lack a header that the gateway needs, or have one with a wrong value." in page


async def test_chart_of_a_day_uses_the_stored_totals(running: RunningGateway) -> None:
    rows = [operation(n * 60, gateway_ms=1.0, token_ms=2.0, upstream_ms=40.0) for n in range(200)]
    await running.runtime.store.call_log.add_many(rows)
    async with at_console(running) as console:
        traffic = (await console.data("/dev.json"))["traffic"]
        assert (traffic["calls"], traffic["failed"], traffic["provider_ms"]) == (200, 0, {"p50": 50, "p95": 50})
        assert traffic["milliseconds"] == {"gateway": 1.0, "token": 2.0, "provider": 40.0}
        assert sum(int(bar["text"].split(": ")[1].split(",")[0]) for bar in traffic["chart"]["bars"]) == 200
        assert len(await console.page("/dev")) <= 40_000


async def test_a_connection_that_expires_soon_is_shown_among_many_expired_ones(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = {name: value for name, value in tracker.grant().items() if name != "refresh_token"}
    await running.import_connection({**grant, "expires_in": 2 * 86_400}, "soon")
    for n in range(11):
        await running.import_connection({**grant, "expires_in": 3600}, f"ended{n}")
    advance_clock(3700)
    async with at_console(running) as console:
        assert [item["connection_id"] for item in (await console.data("/dev.json"))["ending"]] == ["soon"]
