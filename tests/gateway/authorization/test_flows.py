"""Authorizations: those that the previous version began are completed, and those that fail are reported."""

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from gateway.authorization import open_authorizations, outcomes
from gateway.errors import Unavailable
from gateway.records.connecting import FlowOptions
from gateway.store.pending_authorizations import _flow_seal_place
from gateway.store.tables import flow_results, flows
from tests.fakes.gateways import RunningGateway, write_entry
from tests.fakes.held_calls import hold_after
from tests.fakes.pages import BROWSER
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

# The members of a flow that the first version stored. Members that were added later have a default.
FIRST_MEMBERS = ("provider", "mode", "kept", "config", "end_user", "tags", "webhook_url_override")


async def store_in_earlier_form(running: RunningGateway, *members: str) -> dict[str, Any]:
    """Seal the only flow again with only these members, as an earlier version stored it."""
    store = running.runtime.store
    async with store.transactions.read() as db:
        row = (await db.execute(select(flows))).mappings().one()
    flow = await store.flows._flow(row)
    before = {name: value for name, value in store.open(flow.details).items() if name in members}
    assert set(before) == set(members)
    sealed = store.vault.seal_json(before, **_flow_seal_place(flow.environment, flow.state_digest))
    await store.transactions.write(lambda db: db.execute(update(flows).values(details=sealed.ciphertext)))
    return before


async def start_flow(running: RunningGateway) -> str:
    """Start a flow and return the URL of the provider's page."""
    token = await running.session_token(tags={"team": "a"})
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={token}&params[subdomain]=acme"
    async with running.http.get(begin, allow_redirects=False) as response:
        return response.headers["Location"]


async def test_authorization_started_by_an_earlier_version_is_finished(
    running: RunningGateway, tracker: Tracker
) -> None:
    consent = await start_flow(running)
    before = await store_in_earlier_form(running, *FIRST_MEMBERS)
    assert before["config"]["subdomain"] == "acme"
    async with running.http.get(consent, headers=BROWSER) as response:
        assert response.status == 200, await response.text()
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    assert (listed["end_user"]["id"], listed["tags"]["team"]) == ("u1", "a")


async def test_a_choice_that_an_earlier_version_offered_can_be_made(running: RunningGateway, tracker: Tracker) -> None:
    running.document["environments"]["dev"]["integrations"]["tracker"]["site_selection"] = "ask"
    await running.restart()
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin) as response:
        html = await response.text()
    token = re.search(r'name="token" value="([^"]+)"', html)
    assert token is not None, html
    await store_in_earlier_form(running, *FIRST_MEMBERS, "began", "held", "told", "sites")
    form = {"token": token[1], "site": "cloud-2"}
    async with running.http.post(f"{running.url}/oauth/site", data=form) as response:
        assert response.status == 200, await response.text()
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    connection = await running.json("GET", f"/connections/{listed['connection_id']}?provider_config_key=tracker")
    assert connection["connection_config"]["subdomain"] == "globex"


async def test_options_that_await_confirmation_cannot_be_finished(running: RunningGateway) -> None:
    """A page contains their token. As the `state` of a callback it is refused."""
    token = await running.session_token()
    runtime = running.runtime
    session = await runtime.sessions.find(token)
    token_of_options = await runtime.flows.store_options(session, "tracker", FlowOptions())
    async with running.http.get(f"{running.url}/oauth/callback?state={token_of_options}&code=x") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_state")
    assert await runtime.flows.read_options(session, "tracker", token_of_options) == FlowOptions()


async def test_a_flow_whose_integration_changed_its_provider_is_reported(
    running: RunningGateway, tracker: Tracker
) -> None:
    async with running.http.get(await start_flow(running), headers=BROWSER, allow_redirects=False) as response:
        query = urlsplit(response.headers["Location"]).query
    entry = {
        "display_name": "Keyed",
        "categories": ["developer-tools"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {"base_url": f"{tracker.url}/api"},
    }
    write_entry(running.folder, "keyed", entry)
    running.document["environments"]["dev"]["integrations"]["tracker"] = {"provider": "keyed"}
    cookies = {"Cookie": "; ".join(f"{cookie.key}={cookie.value}" for cookie in running.http.cookie_jar)}
    await running.restart()
    with capture_logs() as logs:
        async with running.http.get(f"{running.url}/oauth/callback?{query}", headers=cookies) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_state")
    (failed,) = [line for line in logs if line["event"] == "authorization_failed"]
    assert "was changed while you authorized" in failed["detail"]


async def test_a_store_that_fails_after_the_flow_was_used_up_is_reported(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    body = {"connection_id": "c1", "integration_id": "tracker"}
    session = await running.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={session['data']['token']}"
    async with running.http.get(begin, allow_redirects=False) as response:
        state = parse_qs(urlsplit(response.headers["Location"]).query)["state"][0]

    async def fail(*_: Any, **__: Any) -> None:
        raise Unavailable("store_unavailable", "The database is not reachable.", retry_after_s=1)

    monkeypatch.setattr(type(running.runtime.store.rejections), "forget_scopes", fail)
    query = {"state": state, "error": "invalid_scope"}
    with capture_logs() as logs:
        async with running.http.get(f"{running.url}/oauth/callback", params=query) as response:
            assert response.headers["Gateway-Error"] == "store_unavailable"
            assert response.headers["Retry-After"] == "1"
    assert [line["reason"] for line in logs if line["event"] == "authorization_failed"] == ["store_unavailable"]


async def stored_counts(running: RunningGateway) -> tuple[int, int]:
    """Return the numbers of stored authorizations and results."""
    async with running.runtime.store.transactions.read() as db:
        counts = [
            (await db.execute(select(func.count()).select_from(table))).scalar_one() for table in (flows, flow_results)
        ]
    return counts[0], counts[1]


@pytest.mark.parametrize(("query", "stored"), [("", (2, 0)), ("&connection_id=x", (0, 2))])
async def test_a_session_starts_a_limited_number_of_authorizations(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, advance_clock: Any, query: str, stored: tuple[int, int]
) -> None:
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 2)
    token, other = await running.session_token(), await running.session_token()

    async def begin(token: str, accept: str = "*/*", query: str = query) -> tuple[int, str, bool]:
        url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}{query}"
        async with running.http.get(url, allow_redirects=False, headers={"Accept": accept}) as response:
            return response.status, await response.text(), "Retry-After" in response.headers

    usual = 302 if not query else 400
    assert [(await begin(token))[0] for _ in range(2)] == [usual, usual]
    status, text, waits = await begin(token)
    assert (status, "Finish one that is open in another window, or try again in" in text, waits) == (429, True, True)
    status, text, _ = await begin(token, "text/html")
    assert (status, "try again in" in text) == (429, True)
    assert await stored_counts(running) == stored
    assert (await begin(other))[0] == usual
    advance_clock(660)
    assert (await begin(token))[0] == usual


async def test_authorizations_that_the_end_user_refuses_count_as_started(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One link could begin and refuse authorizations without limit: each stored a result and sent the application an
    event."""
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 2)
    token = await running.session_token(webhook_url_override="https://hook.example.com/x")
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    for _ in range(2):
        async with running.http.get(begin, allow_redirects=False) as response:
            state = parse_qs(urlsplit(response.headers["Location"]).query)["state"][0]
        denied = {"state": state, "error": "access_denied"}
        async with running.http.get(f"{running.url}/oauth/callback", params=denied) as response:
            assert response.status == 400
    async with running.http.get(begin, allow_redirects=False) as response:
        assert response.status == 429
    assert await stored_counts(running) == (0, 2)


async def test_callbacks_without_the_browsers_cookie_store_a_limited_number_of_failures(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a callback does not use up its state, so the same callback could be repeated without limit."""
    monkeypatch.setattr(outcomes, "MAX_FAILURES", 2)
    query = urlsplit(await start_flow(running)).query
    running.http.cookie_jar.clear()
    for _ in range(4):
        url = f"{running.url}/oauth/callback"
        async with running.http.get(url, params={"state": parse_qs(query)["state"][0], "code": "x"}) as response:
            assert response.status == 400
    assert await stored_counts(running) == (1, 2)


async def test_finished_authorizations_do_not_count(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, tracker: Tracker
) -> None:
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 1)
    token = await running.session_token()
    for _ in range(3):
        async with running.http.get(f"{running.url}/oauth/connect/tracker?connect_session_token={token}") as response:
            assert response.status == 200, await response.text()


async def listed_connections(running: RunningGateway) -> list[Any]:
    connections: list[Any] = (await running.json("GET", "/connections"))["connections"]
    return connections


async def wait_for_connection(running: RunningGateway) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await listed_connections(running):
            await asyncio.sleep(0.01)


async def test_browser_that_disconnects_when_the_flow_was_used_up_gets_its_connection(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    consent = await start_flow(running)
    has_consumed, go_on = hold_after(monkeypatch, running.runtime.store.flows, "consume")
    back = asyncio.ensure_future(running.http.get(consent, headers=BROWSER))
    await has_consumed.wait()
    await running.disconnect(back)
    go_on.set()
    await wait_for_connection(running)
    assert len(await listed_connections(running)) == 1


async def test_browser_that_disconnects_when_the_choice_was_used_up_gets_its_connection(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.document["environments"]["dev"]["integrations"]["tracker"]["site_selection"] = "ask"
    await running.restart()
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin) as response:
        token = re.search(r'name="token" value="([^"]+)"', await response.text())
    assert token is not None
    has_consumed, go_on = hold_after(monkeypatch, running.runtime.store.flows, "consume")
    form = {"token": token[1], "site": "cloud-2"}
    chosen = asyncio.ensure_future(running.http.post(f"{running.url}/oauth/site", data=form))
    await has_consumed.wait()
    await running.disconnect(chosen)
    go_on.set()
    await wait_for_connection(running)
