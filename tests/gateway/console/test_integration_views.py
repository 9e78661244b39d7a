"""Integrations: the list, and one integration with its findings and a test connection."""

from typing import Any, cast

from tests.fakes.console import at_console, csrf_token, operation
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_an_integration_that_cannot_work_says_why(running: RunningGateway) -> None:
    async with at_console(running) as console:
        (integration,) = (await console.data("/dev/integrations.json"))["integrations"]
        assert (integration["key"], integration["has_client_secret"], integration["faults"]) == ("tracker", True, [])
        secret = running.runtime.generation.integrations.get("dev", "tracker").client_secret
        assert secret is not None
        assert secret.reveal() not in await console.page("/dev/integrations")


async def test_integration_page_has_findings_and_a_test_link(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    await running.runtime.store.call_log.add_many([operation(1, status=429), operation(2)])
    async with at_console(running) as console:
        data = await console.data("/dev/integration.json?key=tracker")
        assert [finding["ok"] for finding in data["findings"]] == [True] * len(data["findings"])
        assert (data["calls"], data["failures"][0]["reason"]) == (2, "429")
        assert [connection["connection_id"] for connection in data["connections"]] == ["c1"]
        page = await console.page("/dev/integration?key=tracker")
        assert f"{running.url}/oauth/callback" in page
        made = await console.send(
            "/dev/integration/connect", {"form": csrf_token(page), "key": "tracker", "user": "me"}
        )
        assert "/connect?session_token=" in made
        await console.page("/dev/integration?key=no", expect=404)


async def test_authorizations_that_never_return_point_to_the_callback_url(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    async def begin(*, returns: bool) -> None:
        start = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
        async with running.http.get(start, allow_redirects=returns) as response:
            # A provider that does not know the callback URL shows its error instead of sending the browser back.
            assert response.status == (200 if returns else 302)

    for _ in range(3):
        await begin(returns=False)
    async with at_console(running) as console:

        async def found() -> dict[str, Any]:
            return cast(dict[str, Any], (await console.data("/dev/integration.json?key=tracker"))["findings"][-1])

        assert "authorization" not in (await found())["what"], "end users may still be on the provider's pages"
        assert "Authorizations that fail" not in await console.page("/dev")
        advance_clock(301)
        lost = await found()
        began = "Of 3 authorizations in the last hour 0 succeeded, 0 failed, and 3 did not return within 5 minutes."
        assert (lost["ok"], lost["what"]) == (False, began)
        first = await console.page("/dev")
        assert "Authorizations that fail" in first
        assert began in first
        assert f"compare the callback URL registered at the provider: {running.url}/oauth/callback" in lost["do"]

        await begin(returns=True)
        lost = await found()
        assert (lost["ok"], lost["do"]) == (True, ""), "the newest authorization succeeded, so the problem is over"
        assert lost["what"].startswith("Of 4 authorizations in the last hour 1 succeeded, 0 failed, and 3 did not")
        assert "Authorizations that fail" not in await console.page("/dev")

        advance_clock(1)
        await begin(returns=False)
        advance_clock(301)
        assert not (await found())["ok"], "the newest authorization did not return, so the problem continues"
