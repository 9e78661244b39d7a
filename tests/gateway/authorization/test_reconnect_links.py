"""A call without a usable connection returns the link to connect one, and the URL to poll for the result."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from gateway import clock
from gateway.errors import Unauthorized
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

PROXY_AND_CONNECT = ["environment:proxy", "environment:connect_sessions:write"]


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway that adds reconnect links to errors, also for keys of gateway.yaml."""
    gateway = gateway_with_links(tracker, tmp_path)
    await gateway.start()
    yield gateway
    await gateway.stop()


def gateway_with_links(tracker: Tracker, folder: Path, **connect: Any) -> RunningGateway:
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    whole = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]) | {"connect": connect}
    whole["environments"]["dev"]["connect_links_in_errors"] = True
    return RunningGateway(folder, whole)


async def failed_call(
    running: RunningGateway, connection_id: str, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    async with running.call_proxy(connection_id, headers=headers or {}) as response:
        return response.status, (await response.json())["error"]


async def mint_key(running: RunningGateway, **fields: Any) -> dict[str, str]:
    body = await running.json(
        "POST", "/environment/api-keys", json={"display_name": secrets.token_hex(4), **fields}, expect=200
    )
    return {"Authorization": f"Bearer {body['data']['secret']}"}


async def session_of(running: RunningGateway, link: str) -> Any:
    token = parse_qs(urlsplit(link).query)["session_token"][0]
    return await running.runtime.sessions.find(token)


async def is_open(running: RunningGateway, link: str) -> bool:
    try:
        await session_of(running, link)
    except Unauthorized as fault:
        return fault.code != "unknown_connect_session_token"
    return True


async def connect(running: RunningGateway, link: str) -> None:
    """Follow the link as the end user's browser does, through the provider's consent and back."""
    token = parse_qs(urlsplit(link).query)["session_token"][0]
    start = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(start) as response:
        assert response.status == 200, await response.text()


async def poll(running: RunningGateway, url: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with running.http.get(url, headers=headers or running.headers) as response:
        return response.status, await response.json()


async def test_if_the_provider_refuses_the_app_the_error_has_no_link(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    for headers in (None, await mint_key(running, scopes=PROXY_AND_CONNECT)):
        status, reply = await failed_call(running, "c1", headers)
        assert (status, reply["code"], reply["payload"]["reason"]) == (424, "reconnect_needed", "invalid_client")
        assert "connect_url" not in reply["payload"]
        assert reply["payload"]["rule"] == "integration"
        assert reply["payload"]["changed_by"] == "the gateway's operator"
        assert reply["payload"]["fix"] == "Check client_id, client_secret and scopes of integration 'tracker'."


async def test_after_following_the_error_the_next_call_succeeds(running: RunningGateway, tracker: Tracker) -> None:
    status, reply = await failed_call(running, "u 1/x")
    assert (status, reply["code"]) == (404, "unknown_connection")
    payload = reply["payload"]
    assert payload["rule"] == "connection"
    assert "connect_url" in payload["fix"]
    assert payload["changed_by"]
    status, waiting = await poll(running, payload["poll_url"])
    assert (status, waiting["error"]["payload"]["connect_url"]) == (404, payload["connect_url"])
    await connect(running, payload["connect_url"])
    status, result = await poll(running, payload["poll_url"])
    assert (status, result["connection_id"], result["state"]) == (200, "u 1/x", "active")
    async with running.call_proxy("u 1/x", "/ex/jira/x") as response:
        assert response.status == 200


async def test_the_same_link_is_returned_until_its_connection_exists(running: RunningGateway, tracker: Tracker) -> None:
    links = {(await failed_call(running, "u1"))[1]["payload"]["connect_url"] for _ in range(3)}
    together = await asyncio.gather(*(failed_call(running, "u2") for _ in range(8)))
    assert len(links) == 1
    assert len({reported["payload"]["connect_url"] for _, reported in together}) == 1
    link = links.pop()
    assert (await session_of(running, link)).allowed_integrations == ("tracker",)
    await connect(running, link)
    async with asyncio.timeout(PATIENCE_S):
        while await is_open(running, link):
            await asyncio.sleep(0.02)
    waits = together[0][1]["payload"]["connect_url"]
    assert (await failed_call(running, "u2"))[1]["payload"]["connect_url"] == waits, (
        "the link of the other connection is unchanged"
    )


async def test_a_link_that_is_about_to_expire_is_not_returned(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await failed_call(running, "u1"))[1]["payload"]["connect_url"]
    later = clock.now() + timedelta(minutes=21)
    monkeypatch.setattr("gateway.clock.now", lambda: later)
    assert (await failed_call(running, "u1"))[1]["payload"]["connect_url"] != first


async def test_error_of_a_revoked_connection_has_a_reconnect_link(running: RunningGateway, tracker: Tracker) -> None:
    token = tracker.grant()["access_token"]
    await running.import_connection({"access_token": token, "expires_at": "2020-01-01T00:00:00Z"})
    status, reply = await failed_call(running, "c1")
    assert (status, reply["code"]) == (424, "reconnect_needed")
    session = await session_of(running, reply["payload"]["connect_url"])
    assert (session.integration_id, session.connection_id) == ("tracker", "c1")
    status, waiting = await poll(running, reply["payload"]["poll_url"])
    assert (status, waiting["error"]["payload"]["connect_url"]) == (424, reply["payload"]["connect_url"])
    assert waiting["error"]["payload"]["connection"]["credentials"] == {}
    await connect(running, reply["payload"]["connect_url"])
    assert (await poll(running, reply["payload"]["poll_url"]))[0] == 200
    async with running.call_proxy("c1", "/ex/jira/x") as response:
        assert response.status == 200


async def test_invalid_link_is_not_returned_again(running: RunningGateway, tracker: Tracker) -> None:
    token = tracker.grant()["access_token"]
    await running.import_connection({"access_token": token, "expires_at": "2020-01-01T00:00:00Z"})
    renewing = (await failed_call(running, "c1"))[1]["payload"]["connect_url"]
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    status, reply = await failed_call(running, "c1")
    assert status == 404
    making = reply["payload"]["connect_url"]
    assert making != renewing, "the deletion of the connection ended the session of its link"
    await running.runtime.sessions.end(await session_of(running, making))
    last = (await failed_call(running, "c1"))[1]["payload"]["connect_url"]
    assert not (await session_of(running, last)).reconnects
    await connect(running, last)
    async with running.call_proxy("c1", "/ex/jira/x") as response:
        assert response.status == 200


async def test_agent_key_may_connect_and_poll_but_read_nothing(running: RunningGateway, tracker: Tracker) -> None:
    scopes = ["environment:proxy", "environment:connect_sessions:write"]
    agent = await mint_key(running, scopes=scopes, limits={"connections": ["tracker/u1"]})
    status, response = await failed_call(running, "u1", agent)
    assert status == 404
    assert (await poll(running, response["payload"]["poll_url"], agent))[0] == 404
    await connect(running, response["payload"]["connect_url"])
    status, result = await poll(running, response["payload"]["poll_url"], agent)
    assert (status, result["state"]) == (200, "active")
    assert "credentials" not in result
    assert "connection_config" not in result
    status, response = await failed_call(running, "u2", agent)
    assert status == 404
    assert "connect_url" not in response["payload"], "the key may not see that connection"


async def test_error_of_a_key_without_the_scope_says_who_can_connect(running: RunningGateway) -> None:
    plain = await mint_key(running, scopes=["environment:proxy"])
    status, response = await failed_call(running, "u1", plain)
    assert status == 404
    assert "connect_url" not in response["payload"]
    assert "environment:connect_sessions:write" in response["payload"]["fix"]


async def test_capability_may_have_the_scope_to_connect(running: RunningGateway, tracker: Tracker) -> None:
    scopes = ["environment:proxy", "environment:connect_sessions:write"]
    body = {"display_name": "x", "kind": "capability", "scopes": scopes, "limits": {"connections": ["tracker/u1"]}}
    reply = await running.json("POST", "/environment/api-keys", json=body, expect=200)
    async with running.http.get(f"{reply['data']['base_url']}/ex/jira/x") as response:
        payload = (await response.json())["error"]["payload"]
        assert response.status == 404
    link = payload["connect_url"]
    assert "poll_url" not in payload, "the URL needs a key, and a capability is not a key"
    await connect(running, link)
    async with running.http.get(f"{reply['data']['base_url']}/ex/jira/x") as response:
        assert response.status == 200


async def end_connection(running: RunningGateway, tracker: Tracker, **extra: Any) -> None:
    """Import connection c1 with an expired token; only its end user can fix it."""
    token = tracker.grant()["access_token"]
    await running.import_connection({"access_token": token, "expires_at": "2020-01-01T00:00:00Z"}, **extra)


async def test_a_call_that_the_key_s_rules_forbid_gets_no_link(running: RunningGateway, tracker: Tracker) -> None:
    """The rule's refusal comes first, also if the rule reads the body, for a WebSocket and for an agent's tool."""
    await end_connection(running, tracker)
    rules = ["GET /ex/jira/rest/api/3/search* as search", "POST /ex/jira/graphql with query issues"]
    headers = await mint_key(running, scopes=PROXY_AND_CONNECT, limits={"connections": ["tracker/c1"], "rules": rules})
    query = {"query": "{ users { id } }"}
    for method, path, body, rule in (
        ("GET", "/ex/jira/users", None, "rules"),
        ("POST", "/ex/jira/graphql", query, "body"),
    ):
        async with running.call_proxy("c1", path, method=method, json=body, headers=headers) as response:
            reply = (await response.json())["error"]
            assert (response.status, reply["code"], reply["payload"]["rule"]) == (403, "forbidden", rule), path
            assert "connect_url" not in reply["payload"]
    for method, path, body in (
        ("GET", "/ex/jira/rest/api/3/search", None),
        ("POST", "/ex/jira/graphql", {"query": "{ issues { id } }"}),
    ):
        async with running.call_proxy("c1", path, method=method, json=body, headers=headers) as response:
            reply = (await response.json())["error"]
            assert (response.status, reply["code"]) == (424, "reconnect_needed"), path
            assert reply["payload"]["connect_url"]
    for path, expected in (("/ex/jira/users", "forbidden"), ("/ex/jira/rest/api/3/search", "reconnect_needed")):
        call = {"name": "call_api", "arguments": {"method": "GET", "path": path}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        async with running.http.post(f"{running.url}/mcp", json=message, headers=headers) as response:
            assert expected in await response.text()


async def test_a_call_to_a_dead_connection_does_not_use_up_the_key_s_budget(
    running: RunningGateway, tracker: Tracker
) -> None:
    await end_connection(running, tracker)
    limits = {"rules": ["GET /**"], "budget": 1}
    headers = await mint_key(running, scopes=PROXY_AND_CONNECT, limits=limits)
    for _ in range(2):
        status, reply = await failed_call(running, "c1", headers)
        assert (status, reply["code"]) == (424, "reconnect_needed")


async def test_error_message_says_to_open_the_link(running: RunningGateway, tracker: Tracker) -> None:
    """SDKs show only the message of an error."""
    missing = (await failed_call(running, "u1"))[1]
    assert missing["message"] == (
        "Integration 'tracker' in environment 'dev' has no connection 'u1'. Check the id, or open "
        f"{missing['payload']['connect_url']} to connect."
    )
    await end_connection(running, tracker)
    dead = (await failed_call(running, "c1"))[1]
    assert f" Open {dead['payload']['connect_url']} to authorize again" in dead["message"]
    for error in (missing, dead):
        assert "POST" not in error["message"]


async def test_keys_of_gateway_yaml_get_links_only_if_their_environment_enables_them(
    running: RunningGateway, tracker: Tracker
) -> None:
    del running.document["environments"]["dev"]["connect_links_in_errors"]
    await running.restart()
    await end_connection(running, tracker)
    for connection_id, status, path in (("u1", 404, "/connect/sessions"), ("c1", 424, "/connect/sessions/reconnect")):
        code, error = await failed_call(running, connection_id)
        assert code == status
        assert "session_token" not in str(error)
        assert f"POST {path} " in error["message"]
        assert f"POST {path} " in error["payload"]["fix"]
        code, polled_error = await poll(running, error["payload"]["poll_url"])
        assert code == status
        assert "session_token" not in str(polled_error)
    agent = await mint_key(running, scopes=PROXY_AND_CONNECT)
    assert "connect_url" in (await failed_call(running, "u1", agent))[1]["payload"], "minted keys get it by their scope"


async def test_following_the_message_without_a_link_keeps_the_connection_id(
    running: RunningGateway, tracker: Tracker
) -> None:
    del running.document["environments"]["dev"]["connect_links_in_errors"]
    await running.restart()
    await end_connection(running, tracker)
    status, error = await failed_call(running, "c1")
    assert (status, "POST /connect/sessions/reconnect" in error["message"]) == (424, True)
    reference = {"connection_id": "c1", "integration_id": "tracker"}
    session = await running.json("POST", "/connect/sessions/reconnect", json=reference, expect=201)
    await connect(running, session["data"]["connect_link"])
    async with running.call_proxy("c1", "/ex/jira/x") as response:
        assert response.status == 200
    assert [
        connection["connection_id"] for connection in (await running.json("GET", "/connections"))["connections"]
    ] == ["c1"]


async def test_error_of_a_key_that_may_not_connect_names_the_missing_scope(
    running: RunningGateway, tracker: Tracker
) -> None:
    await end_connection(running, tracker)
    plain = await mint_key(running, scopes=["environment:proxy"])
    for connection_id in ("u1", "c1"):
        assert "environment:connect_sessions:write" in (await failed_call(running, connection_id, plain))[1]["message"]


async def test_page_of_a_link_names_the_connection_and_its_owner(running: RunningGateway, tracker: Tracker) -> None:
    link = (await failed_call(running, "user-2"))[1]["payload"]["connect_url"]
    async with running.http.get(link) as response:
        assert "for connection “user-2”" in await response.text()
    await end_connection(running, tracker, end_user={"id": "u", "email": "bob@example.com"})
    link = (await failed_call(running, "c1"))[1]["payload"]["connect_url"]
    async with running.http.get(link) as response:
        text = await response.text()
    assert "for connection “c1”" in text
    assert "For b…@example.com" in text
    assert "bob@example.com" not in text, "a key that creates sessions reads no e-mail addresses"
    async with running.http.get(f"{running.url}/connect?session_token={await running.session_token()}") as response:
        assert "for connection" not in await response.text()


async def test_the_page_names_the_end_user_by_the_name_that_the_application_gave(
    running: RunningGateway, tracker: Tracker
) -> None:
    await end_connection(running, tracker, end_user={"id": "u", "email": "bob@example.com", "display_name": "Bob <b>"})
    link = (await failed_call(running, "c1"))[1]["payload"]["connect_url"]
    async with running.http.get(link) as response:
        assert "For Bob &lt;b&gt;" in await response.text()


async def test_each_key_has_its_own_link(running: RunningGateway) -> None:
    keys = [await mint_key(running, scopes=PROXY_AND_CONNECT) for _ in range(2)]
    links = {(await failed_call(running, "u1", key))[1]["payload"]["connect_url"] for key in [*keys, *keys]}
    assert len(links) == 2
    own = (await failed_call(running, "u1"))[1]["payload"]["connect_url"]
    await connect(running, own)
    async with asyncio.timeout(PATIENCE_S):
        for link in (*links, own):
            while await is_open(running, link):
                await asyncio.sleep(0.02)


async def test_the_open_sessions_of_a_key_are_limited(tracker: Tracker, tmp_path: Path) -> None:
    running = gateway_with_links(tracker, tmp_path, sessions_open=2)
    await running.start()
    try:
        agent = await mint_key(running, scopes=PROXY_AND_CONNECT)
        links = [(await failed_call(running, f"u{n}", agent))[1] for n in range(3)]
        assert ["connect_url" in error["payload"] for error in links] == [True, True, False]
        status, error = await request_session(running, agent)
        assert (status, error["code"]) == (429, "too_many_request")
        assert error["message"] == (
            "Too many open connect sessions of this key: the limit is 2 (connect.sessions_open). End one with DELETE "
            f"/connect/session, or try again in {error['retry_after']} s."
        )
        assert 1 <= error["retry_after"] <= 1800
        assert (await failed_call(running, "u0", agent))[1]["payload"]["connect_url"] == links[0]["payload"][
            "connect_url"
        ]
        assert (await request_session(running, running.headers))[0] == 201, "the limit does not apply to another key"
        token = parse_qs(urlsplit(links[0]["payload"]["connect_url"]).query)["session_token"][0]
        bearer = {"Authorization": f"Bearer {token}"}
        async with running.http.delete(f"{running.url}/connect/session", headers=bearer) as response:
            assert response.status == 204
        assert (await request_session(running, agent))[0] == 201
    finally:
        await running.stop()


async def test_a_key_may_open_another_session_once_its_open_sessions_have_expired(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway_with_links(tracker, tmp_path, sessions_open=1)
    await running.start()
    try:
        assert (await request_session(running, running.headers))[0] == 201
        status, error = await request_session(running, running.headers)
        assert status == 429
        later = clock.now() + timedelta(seconds=error["retry_after"])
        monkeypatch.setattr("gateway.clock.now", lambda: later)
        assert (await request_session(running, running.headers))[0] == 201
    finally:
        await running.stop()


async def test_the_new_sessions_of_a_key_are_limited_by_the_minute(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway_with_links(tracker, tmp_path, sessions_per_minute=2)
    await running.start()
    try:
        at = clock.monotonic() + 1000
        monkeypatch.setattr("gateway.clock.monotonic", lambda: at)
        statuses = [(await request_session(running, running.headers))[0] for _ in range(3)]
        assert statuses == [201, 201, 429]
        error = (await request_session(running, running.headers))[1]
        assert (error["code"], error["payload"]["rule"]) == ("too_many_request", "sessions_per_minute")
        assert error["retry_after"] == 60
        other = at + 60
        monkeypatch.setattr("gateway.clock.monotonic", lambda: other)
        assert (await request_session(running, running.headers))[0] == 201
    finally:
        await running.stop()


async def request_session(running: RunningGateway, headers: dict[str, str]) -> tuple[int, Any]:
    request_body = {"end_user": {"id": "u"}}
    async with running.http.post(f"{running.url}/connect/sessions", json=request_body, headers=headers) as response:
        body = (await response.json()).get("error", {})
        return response.status, body | {"retry_after": int(response.headers.get("Retry-After", 0))}


async def test_a_connection_whose_integration_moved_to_another_provider_is_authorized_again(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    write_entry(running.folder, "tracker2", tracker_entry(tracker.url))
    running.document["environments"]["dev"]["integrations"]["tracker"]["provider"] = "tracker2"
    await running.restart()
    status, error = await failed_call(running, "c1")
    assert (status, "now uses 'tracker2'" in error["message"]) == (424, True)
    await connect(running, error["payload"]["connect_url"])
    async with running.call_proxy("c1", "/ex/jira/x") as response:
        assert response.status == 200


async def test_error_has_no_link_if_the_environment_requires_a_code_challenge(
    running: RunningGateway, tracker: Tracker
) -> None:
    running.document["environments"]["dev"]["connect_binding"] = "required"
    await running.restart()
    await end_connection(running, tracker)
    agent = await mint_key(running, scopes=PROXY_AND_CONNECT)
    for connection_id, status, path in (("u1", 404, "/connect/sessions"), ("c1", 424, "/connect/sessions/reconnect")):
        for key in (None, agent):
            code, error = await failed_call(running, connection_id, key)
            assert code == status
            assert "session_token" not in str(error)
            assert "connect_url" not in error["payload"]
            for text in (error["message"], error["payload"]["fix"]):
                assert f"with POST {path} and a code_challenge, let the end user" in text
                assert "complete the session" in text
            assert error["payload"]["changed_by"] == "the application's back end"
            assert (await poll(running, error["payload"]["poll_url"], key))[0] == status
