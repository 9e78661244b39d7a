"""A call that fails for want of a connection hands out the link that mends it, and the address to ask whether it has."""

import asyncio
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway import clock
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def failed(running: RunningGateway, connection_id: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with running.proxied(connection_id, headers=headers or {}) as answer:
        return answer.status, (await answer.json())["error"]


async def minted(running: RunningGateway, **wish: Any) -> dict[str, str]:
    told = await running.json("POST", "/environment/api-keys", json={"display_name": "agent", **wish}, expect=200)
    return {"Authorization": f"Bearer {told['data']['secret']}"}


async def session_of(running: RunningGateway, link: str) -> Any:
    token = parse_qs(urlsplit(link).query)["session_token"][0]
    return await running.services.sessions.find(token)


async def connected(running: RunningGateway, link: str) -> None:
    """What the end user's browser does: through the provider's consent and back."""
    token = parse_qs(urlsplit(link).query)["session_token"][0]
    start = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(start) as answer:
        assert answer.status == 200, await answer.text()


async def polled(running: RunningGateway, url: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with running.http.get(url, headers=headers or running.headers) as answer:
        return answer.status, await answer.json()


async def test_following_the_advice_makes_the_next_call_succeed(running: RunningGateway, tracker: Tracker) -> None:
    status, told = await failed(running, "u 1/x")
    assert (status, told["code"]) == (404, "unknown_connection")
    payload = told["payload"]
    assert payload["rule"] == "connection"
    assert "connect_url" in payload["fix"]
    assert payload["changed_by"]
    status, waiting = await polled(running, payload["poll_url"])
    assert (status, waiting["error"]["payload"]["connect_url"]) == (404, payload["connect_url"])
    await connected(running, payload["connect_url"])
    status, there = await polled(running, payload["poll_url"])
    assert (status, there["connection_id"], there["state"]) == (200, "u 1/x", "active")
    async with running.proxied("u 1/x", "/ex/jira/x") as answer:
        assert answer.status == 200


async def test_the_same_link_is_handed_out_until_its_connection_is_there(
    running: RunningGateway, tracker: Tracker
) -> None:
    links = {(await failed(running, "u1"))[1]["payload"]["connect_url"] for _ in range(3)}
    together = await asyncio.gather(*(failed(running, "u2") for _ in range(8)))
    assert len(links) == 1
    assert len({told["payload"]["connect_url"] for _, told in together}) == 1
    link = links.pop()
    assert (await session_of(running, link)).allowed_integrations == ("tracker",)
    await connected(running, link)
    async with asyncio.timeout(5):
        while running.services.links._kept.keys() != {("dev", "tracker", "u2")}:
            await asyncio.sleep(0.02)
        while running.services.links._ending:
            await asyncio.sleep(0.02)
    with pytest.raises(Exception, match="unknown or has expired"):
        await session_of(running, link)


async def test_a_link_that_is_about_to_end_is_not_handed_out(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await failed(running, "u1"))[1]["payload"]["connect_url"]
    later = clock.now() + timedelta(minutes=21)
    monkeypatch.setattr("gateway.clock.now", lambda: later)
    assert (await failed(running, "u1"))[1]["payload"]["connect_url"] != first


async def test_a_dead_connection_comes_with_the_link_that_renews_it(running: RunningGateway, tracker: Tracker) -> None:
    token = tracker.grant()["access_token"]
    await running.imported({"access_token": token, "expires_at": "2020-01-01T00:00:00Z"})
    status, told = await failed(running, "c1")
    assert (status, told["code"]) == (424, "reconnect_needed")
    session = await session_of(running, told["payload"]["connect_url"])
    assert (session.integration_id, session.connection_id) == ("tracker", "c1")
    status, waiting = await polled(running, told["payload"]["poll_url"])
    assert (status, waiting["error"]["payload"]["connect_url"]) == (424, told["payload"]["connect_url"])
    assert waiting["error"]["payload"]["connection"]["credentials"] == {}
    await connected(running, told["payload"]["connect_url"])
    assert (await polled(running, told["payload"]["poll_url"]))[0] == 200
    async with running.proxied("c1", "/ex/jira/x") as answer:
        assert answer.status == 200


async def test_a_link_that_works_no_more_is_not_handed_out_again(running: RunningGateway, tracker: Tracker) -> None:
    token = tracker.grant()["access_token"]
    await running.imported({"access_token": token, "expires_at": "2020-01-01T00:00:00Z"})
    renewing = (await failed(running, "c1"))[1]["payload"]["connect_url"]
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    status, told = await failed(running, "c1")
    assert status == 404
    making = told["payload"]["connect_url"]
    assert making != renewing, "its session went with the connection"
    await running.services.sessions.end(await session_of(running, making))
    last = (await failed(running, "c1"))[1]["payload"]["connect_url"]
    assert not (await session_of(running, last)).reconnects
    await connected(running, last)
    async with running.proxied("c1", "/ex/jira/x") as answer:
        assert answer.status == 200


async def test_an_agent_may_connect_and_poll_without_seeing_anything(running: RunningGateway, tracker: Tracker) -> None:
    scopes = ["environment:proxy", "environment:connect_sessions:write"]
    agent = await minted(running, scopes=scopes, limits={"connections": ["tracker/u1"]})
    status, told = await failed(running, "u1", agent)
    assert status == 404
    assert (await polled(running, told["payload"]["poll_url"], agent))[0] == 404
    await connected(running, told["payload"]["connect_url"])
    status, there = await polled(running, told["payload"]["poll_url"], agent)
    assert (status, there["state"]) == (200, "active")
    assert "credentials" not in there
    assert "connection_config" not in there
    status, told = await failed(running, "u2", agent)
    assert status == 404
    assert "connect_url" not in told["payload"], "that one is none of its business"


async def test_a_key_that_may_not_connect_is_told_who_may(running: RunningGateway) -> None:
    plain = await minted(running, scopes=["environment:proxy"])
    status, told = await failed(running, "u1", plain)
    assert status == 404
    assert "connect_url" not in told["payload"]
    assert "environment:connect_sessions:write" in told["payload"]["fix"]


async def test_a_capability_may_carry_the_right_to_connect(running: RunningGateway, tracker: Tracker) -> None:
    scopes = ["environment:proxy", "environment:connect_sessions:write"]
    body = {"display_name": "x", "kind": "capability", "scopes": scopes, "limits": {"connections": ["tracker/u1"]}}
    told = await running.json("POST", "/environment/api-keys", json=body, expect=200)
    async with running.http.get(f"{told['data']['base_url']}/ex/jira/x") as answer:
        payload = (await answer.json())["error"]["payload"]
        assert answer.status == 404
    link = payload["connect_url"]
    assert "poll_url" not in payload, "it takes a key, and the capability is none"
    await connected(running, link)
    async with running.http.get(f"{told['data']['base_url']}/ex/jira/x") as answer:
        assert answer.status == 200
