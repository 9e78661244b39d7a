"""Pending connections: unusable until the application completes them with the verifier of the code challenge."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from gateway import clock
from gateway.client import AsyncClient, code_challenge, new_code_verifier
from gateway.records.connection import Account
from gateway.store import pending_connections
from gateway.store.database_faults import DatabaseUnavailable
from tests.fakes.gateways import SECRET_KEY, RunningGateway, tracker_entry, write_entry
from tests.fakes.held_calls import hold_after
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_connect_endpoints import connect, create_reconnect, create_session
from tests.gateway.api.test_connect_socket import open_socket
from tests.gateway.api.test_credential_forms import start_flow, walk_flow

VERIFIER = new_code_verifier()
WITH_CHALLENGE = {"code_challenge": code_challenge(VERIFIER)}
WRONG_VERIFIER = new_code_verifier()


def path_in(session: dict[str, Any], url: str) -> str:
    return str(session["poll_url"].removeprefix(url))


async def complete(
    running: RunningGateway, session: dict[str, Any], *, verifier: str = VERIFIER, expect: int = 200
) -> Any:
    path = f"{path_in(session, running.url)}/complete"
    return await running.json("POST", path, json={"code_verifier": verifier}, expect=expect)


async def poll(running: RunningGateway, session: dict[str, Any]) -> Any:
    return (await running.json("GET", path_in(session, running.url), expect=200))["data"]


async def listed_connections(running: RunningGateway) -> list[Any]:
    found: list[Any] = (await running.json("GET", "/connections"))["connections"]
    return found


async def pending_id(running: RunningGateway, session: dict[str, Any]) -> str:
    (connection,) = (await poll(running, session))["connections"]
    assert connection["is_pending"], connection
    return str(connection["connection_id"])


async def declare_key_integration(running: RunningGateway, tracker: Tracker) -> None:
    """Declare an integration whose API key the end user types in."""
    entry = {"display_name": "Keyed", "categories": ["crm"], "docs": "https://docs.example.com", "auth_mode": "API_KEY"}
    proxy = {"base_url": tracker.url, "headers": {"x-api-key": "${apiKey}"}}
    write_entry(running.folder, "keyed", {**entry, "proxy": proxy})
    running.document["environments"]["dev"]["integrations"]["keyed"] = {"provider": "keyed"}
    await running.restart()


async def test_pending_connection_is_usable_only_after_its_completion(
    running: RunningGateway, tracker: Tracker
) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    reply = await poll(running, session)
    (connection,) = reply["connections"]
    assert (reply["status"], connection["is_pending"], connection["provider_config_key"]) == (
        "pending",
        True,
        "tracker",
    )
    assert await listed_connections(running) == []
    calls = tracker.calls["api"]
    async with running.call_proxy(connection["connection_id"]) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_connection")
    await running.json("GET", f"/connections/{connection['connection_id']}?provider_config_key=tracker", expect=404)
    assert tracker.calls["api"] == calls
    done = (await complete(running, session))["data"]
    assert done == {"status": "connected", "connections": [{**connection, "is_pending": False}]}
    assert [row["connection_id"] for row in await listed_connections(running)] == [connection["connection_id"]]
    async with running.call_proxy(connection["connection_id"], "/ex/jira/x") as response:
        assert response.status == 200
    reply = await poll(running, session)
    assert (reply["status"], reply["connections"]) == ("connected", done["connections"])
    (row,) = await listed_connections(running)
    assert (row["end_user"]["id"], row["tags"]["end_user_id"]) == ("u1", "u1")


async def test_completing_again_returns_the_same_response_and_changes_nothing(
    running: RunningGateway, tracker: Tracker
) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    first, *others = await asyncio.gather(*(complete(running, session) for _ in range(5)))
    assert all(other == first for other in others)
    (row,) = await listed_connections(running)
    assert await complete(running, session) == first
    assert await listed_connections(running) == [row]
    response = await complete(running, session, verifier=WRONG_VERIFIER, expect=403)
    assert response["error"]["code"] == "invalid_code_verifier"


async def test_client_library_completes_a_connection(running: RunningGateway, tracker: Tracker) -> None:
    async with AsyncClient(running.url, SECRET_KEY) as client:
        session = await client.create_connect_session(
            end_user={"id": "u1"}, code_challenge=code_challenge(VERIFIER), expires_in=300, max_connections=1
        )
        await walk_flow(running, session["token"])
        done = await client.complete_connect_session(session["session_id"], VERIFIER)
    assert done["status"] == "connected"
    assert [connection["connection_id"] for connection in await listed_connections(running)] == [
        done["connections"][0]["connection_id"]
    ]


async def test_one_of_several_pending_connections_must_be_named(running: RunningGateway, tracker: Tracker) -> None:
    session = await create_session(running, **WITH_CHALLENGE, max_connections=2)
    for _ in range(2):
        await walk_flow(running, session["token"])
    both = (await poll(running, session))["connections"]
    response = await complete(running, session, expect=409)
    assert response["error"]["code"] == "connection_id_required"
    named = [(item["provider_config_key"], item["connection_id"]) for item in response["error"]["payload"]["pending"]]
    assert sorted(named) == sorted((item["provider_config_key"], item["connection_id"]) for item in both)
    assert await listed_connections(running) == []
    async with AsyncClient(running.url, SECRET_KEY) as client:
        own = both[1]["connection_id"]
        await client.complete_connect_session(session["session_id"], VERIFIER, connection_id=own)
    assert [connection["connection_id"] for connection in await listed_connections(running)] == [own]
    await complete(running, session)
    assert len(await listed_connections(running)) == 2, "the only remaining pending connection needs no id"


async def test_wrong_verifier_gets_no_connection_ids(running: RunningGateway, tracker: Tracker) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    for _ in range(2):
        await walk_flow(running, session["token"])
    response = await complete(running, session, verifier=WRONG_VERIFIER, expect=403)
    assert "payload" not in response["error"]


async def test_five_wrong_verifiers_delete_the_connection_and_revoke_its_grant(
    running: RunningGateway, tracker: Tracker
) -> None:
    await declare_revocation(running, tracker)
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    for count in range(5):
        assert len((await poll(running, session))["connections"]) == 1, count
        response = await complete(running, session, verifier=WRONG_VERIFIER, expect=403)
        assert response["error"]["code"] == "invalid_code_verifier"
    response = await complete(running, session, expect=409)
    assert response["error"]["code"] == "conflict"
    response = await poll(running, session)
    assert (response["status"], response["connections"], response["error"]["code"]) == ("pending", [], "invalid_state")
    assert await listed_connections(running) == []
    assert was_revoked(tracker)
    await walk_flow(running, session["token"])
    await complete(running, session)
    assert len(await listed_connections(running)) == 1, "the end user can connect again"


@pytest.mark.parametrize("verifier", ["x" * 42, "x" * 129, "x" * 42 + "!", "x" * 42 + "é", "x" * 43 + "\n"])
async def test_malformed_verifier_is_refused_and_not_counted(
    running: RunningGateway, tracker: Tracker, verifier: str
) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    for _ in range(5):
        response = await complete(running, session, verifier=verifier, expect=400)
        assert response["error"]["errors"][0]["path"] == ["code_verifier"]
        assert verifier not in str(response)
    await complete(running, session)


async def test_completion_before_the_end_user_connects_is_refused(running: RunningGateway) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    assert (await complete(running, session, expect=409))["error"]["code"] == "conflict"
    response = await complete(running, session, verifier=WRONG_VERIFIER, expect=403)
    assert response["error"]["code"] == "invalid_code_verifier"


async def test_a_session_without_a_code_challenge_needs_no_completion(
    running: RunningGateway, tracker: Tracker
) -> None:
    session = await create_session(running)
    assert "code_challenge" in (await complete(running, session, expect=400))["error"]["message"]
    await walk_flow(running, session["token"])
    assert (await poll(running, session))["connections"][0]["is_pending"] is False


async def test_an_unknown_session_and_another_environments_key_get_404(
    running: RunningGateway, tracker: Tracker
) -> None:
    other = "nango_sk_another-environments-key-0123456789"
    running.document["environments"]["prod"] = {"secret_keys": [other]}
    await running.restart()
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    body = {"code_verifier": VERIFIER}
    headers = {"Authorization": f"Bearer {other}"}
    async with running.http.post(f"{session['poll_url']}/complete", json=body, headers=headers) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")
    unknown = f"/connect/sessions/{'0' * 64}/complete"
    assert (await running.json("POST", unknown, json=body, expect=404))["error"]["code"] == "not_found"
    await complete(running, session)


async def test_the_session_token_of_the_browser_cannot_complete(running: RunningGateway, tracker: Tracker) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    headers = {"Authorization": f"Bearer {session['token']}"}
    body = {"code_verifier": VERIFIER}
    async with running.http.post(f"{session['poll_url']}/complete", json=body, headers=headers) as response:
        assert response.status == 401
    assert await listed_connections(running) == []


async def test_limited_key_completes_only_connections_within_its_limits(
    running: RunningGateway, tracker: Tracker
) -> None:
    connection_id = await connect(running, tracker)
    session = await create_reconnect(running, connection_id, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    body = {"code_verifier": VERIFIER}
    for limit, status in (("tracker/another", 409), (f"tracker/{connection_id}", 200)):
        request_body = {
            "display_name": limit,
            "scopes": ["environment:connect_sessions:write"],
            "limits": {"connections": [limit]},
        }
        key = (await running.json("POST", "/environment/api-keys", json=request_body, expect=200))["data"]["secret"]
        headers = {"Authorization": f"Bearer {key}"}
        async with running.http.post(f"{session['poll_url']}/complete", json=body, headers=headers) as response:
            assert response.status == status, await response.text()


async def test_connection_can_be_completed_after_its_session_has_ended(
    running: RunningGateway, tracker: Tracker
) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    headers = {"Authorization": f"Bearer {session['token']}"}
    async with running.http.delete(f"{running.url}/connect/session", headers=headers) as response:
        assert response.status == 204
    reply = await poll(running, session)
    assert (reply["status"], reply["connections"][0]["is_pending"]) == ("pending", True)
    first = await complete(running, session)
    assert await complete(running, session) == first
    assert (await poll(running, session))["status"] == "connected"


async def declare_revocation(running: RunningGateway, tracker: Tracker) -> None:
    write_entry(running.folder, "tracker", tracker_entry(tracker.url, revocation_url=f"{tracker.url}/revoke"))
    await running.restart()


def was_revoked(tracker: Tracker) -> bool:
    return any(item.path == "/revoke" for item in tracker.seen)


async def test_connection_not_completed_in_time_is_deleted_and_its_grant_revoked(
    running: RunningGateway, tracker: Tracker, advance_clock: Callable[[float], None]
) -> None:
    await declare_revocation(running, tracker)
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    advance_clock(599)
    await running.runtime.session_connections.expire()
    assert len((await poll(running, session))["connections"]) == 1
    advance_clock(2)
    assert (await complete(running, session, expect=409))["error"]["code"] == "conflict"
    await running.runtime.session_connections.expire()
    response = await poll(running, session)
    assert (response["status"], response["connections"], response["error"]["type"]) == ("pending", [], "state_err")
    assert "10 minutes" in response["error"]["message"]
    assert await listed_connections(running) == []
    assert was_revoked(tracker)


async def test_grant_is_revoked_although_the_next_expired_connection_cannot_be_removed(
    running: RunningGateway, tracker: Tracker, advance_clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare_revocation(running, tracker)
    sessions = [await create_session(running, **WITH_CHALLENGE) for _ in range(2)]
    for session in sessions:
        await walk_flow(running, session["token"])
    advance_clock(601)
    remove, removed = pending_connections._remove, list[Any]()

    async def remove_one(*args: Any, **options: Any) -> bool:
        if removed:
            raise DatabaseUnavailable("it does not respond")
        removed.append(args)
        return await remove(*args, **options)

    monkeypatch.setattr(pending_connections, "_remove", remove_one)
    with pytest.raises(DatabaseUnavailable):
        await running.runtime.session_connections.expire()
    assert was_revoked(tracker)
    errors = [(await poll(running, session)).get("error") for session in sessions]
    assert sorted(error["type"] for error in errors if error) == ["state_err"]


async def test_grant_is_revoked_although_the_gateway_stops_after_the_connection_was_removed(
    running: RunningGateway, tracker: Tracker, advance_clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare_revocation(running, tracker)
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    advance_clock(601)
    has_removed, go_on = hold_after(monkeypatch, pending_connections, "_remove")
    expiring = asyncio.create_task(running.runtime.session_connections.expire())
    await has_removed.wait()
    expiring.cancel()
    await asyncio.wait({expiring})
    closing = asyncio.create_task(running.runtime.session_connections.close())
    go_on.set()
    await closing
    assert was_revoked(tracker)
    assert (await poll(running, session))["error"]["type"] == "state_err"


async def test_completion_is_reported_although_the_application_disconnects(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    has_stored, go_on = hold_after(monkeypatch, running.runtime.store.pending, "complete")
    call = asyncio.create_task(complete(running, session))
    await has_stored.wait()
    await running.disconnect(call)
    go_on.set()
    await wait_until_connected(running, session)
    assert len((await running.json("GET", "/connections"))["connections"]) == 1


async def test_typed_credential_is_reported_although_the_client_disconnects(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare_key_integration(running, tracker)
    session = await create_session(running)
    has_stored, go_on = hold_after(monkeypatch, running.runtime.store.connections, "put")
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    call = asyncio.ensure_future(running.http.post(url, json={"apiKey": "k1"}))
    await has_stored.wait()
    await running.disconnect(call)
    go_on.set()
    await wait_until_connected(running, session)
    assert len((await running.json("GET", "/connections"))["connections"]) == 1


async def wait_until_connected(running: RunningGateway, session: dict[str, Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await poll(running, session))["status"] != "connected":
            await asyncio.sleep(0.01)


async def test_grant_that_another_connection_may_use_is_not_revoked(
    running: RunningGateway, tracker: Tracker, advance_clock: Callable[[float], None]
) -> None:
    entry = tracker_entry(tracker.url, account={"id": "user"}, revocation_url=f"{tracker.url}/revoke")
    del entry["post_connection_script"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.token_extra = {"user": 1}
    await walk_flow(running, (await create_session(running))["token"])  # account 1, in use
    for user, ended in ((1, False), (2, True)):
        tracker.token_extra = {"user": user}
        await walk_flow(running, (await create_session(running, **WITH_CHALLENGE))["token"])
        advance_clock(601)
        await running.runtime.session_connections.expire()
        assert was_revoked(tracker) is ended, user


async def test_connection_uses_its_old_credential_until_the_reconnect_is_completed(
    running: RunningGateway, tracker: Tracker, advance_clock: Callable[[float], None]
) -> None:
    await declare_revocation(running, tracker)
    connection_id = await connect(running, tracker)
    path = f"/connections/{connection_id}?provider_config_key=tracker"
    before = await running.json("GET", path)
    session = await create_reconnect(running, connection_id, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    assert await pending_id(running, session) == connection_id
    assert (await running.json("GET", path))["credentials"] == before["credentials"]
    async with running.call_proxy(connection_id, "/ex/jira/x") as response:
        assert (await response.json())["token"] == f"Bearer {before['credentials']['access_token']}"
    await complete(running, session)
    after = await running.json("GET", path)
    assert after["credentials"]["access_token"] != before["credentials"]["access_token"]
    assert (after["id"], after["tags"], after["connection_config"]) == (
        before["id"],
        before["tags"],
        before["connection_config"],
    )
    session = await create_reconnect(running, connection_id, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    advance_clock(601)
    await running.runtime.session_connections.expire()
    assert (await running.json("GET", path))["credentials"] == after["credentials"]
    assert not was_revoked(tracker), "the existing connection may use the same grant"


async def test_completing_a_reconnect_does_not_restore_a_deleted_connection(
    running: RunningGateway, tracker: Tracker
) -> None:
    connection_id = await connect(running, tracker)
    session = await create_reconnect(running, connection_id, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    await running.json("DELETE", f"/connections/{connection_id}?provider_config_key=tracker", expect=200)
    assert (await complete(running, session, expect=400))["error"]["code"] == "invalid_connection"
    assert await listed_connections(running) == []
    await complete(running, session, expect=404)


async def test_a_reconnect_of_another_account_is_refused_at_its_completion_too(
    running: RunningGateway, tracker: Tracker
) -> None:
    connection_id = await connect(running, tracker)
    session = await create_reconnect(running, connection_id, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    store = running.runtime.store
    digest = session["poll_url"].rpartition("/")[2]
    (pending,) = await store.pending.find_by_session(digest, now=clock.now())
    assert pending.new is not None
    await store.connections.put(replace(pending.new, account=Account("a1", "ada")), now=clock.now())
    other = replace(pending.new, account=Account("a2", "eve"))
    stored_session = await running.runtime.sessions.find(session["token"])
    terms = stored_session.terms(stored_session.browser_digest)
    await store.pending.add(other, terms, expires_at=pending.expires_at, reconnects=True)
    response = await complete(running, session, expect=400)
    assert response["error"]["payload"]["reason"] == "another_account"
    (row,) = await listed_connections(running)
    assert row["account"]["id"] == "a1"


async def test_connection_by_typed_credential_is_pending_too(running: RunningGateway, tracker: Tracker) -> None:
    await declare_key_integration(running, tracker)
    session = await create_session(running, **WITH_CHALLENGE)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    async with running.http.post(url, json={"apiKey": "k3y"}) as response:
        body = await response.json()
        assert (response.status, body["isPending"]) == (200, True)
    assert await pending_id(running, session) == body["connectionId"]
    async with running.call_proxy(body["connectionId"], integration="keyed") as response:
        assert response.status == 404
    assert tracker.calls["api"] == 0
    await complete(running, session)
    async with running.call_proxy(body["connectionId"], integration="keyed"):
        assert tracker.seen[-1].headers["x-api-key"] == "k3y"


async def test_window_gets_the_message_that_the_connection_is_pending(
    running: RunningGateway, tracker: Tracker
) -> None:
    socket, client = await open_socket(running)
    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"], f"&ws_client_id={client}")
    message = await socket.receive_json(timeout=PATIENCE_S)
    await socket.close()
    assert (message["message_type"], message["is_pending"]) == ("success", True)
    assert message["connection_id"] == await pending_id(running, session)


async def test_the_events_of_a_connection_begin_with_its_completion(running: RunningGateway, tracker: Tracker) -> None:
    running.document["environments"]["dev"]["webhook_url"] = f"{tracker.url}/events"
    await running.restart()

    async def history() -> int:
        async with running.runtime.store.transactions.read() as db:
            return int((await db.execute(text("SELECT count(*) FROM outbox"))).scalar_one())

    session = await create_session(running, **WITH_CHALLENGE)
    await walk_flow(running, session["token"])
    assert await history() == 0
    await complete(running, session)
    assert await history() >= 1 or any(item.path == "/events" for item in tracker.seen)


async def test_two_tabs_create_only_the_one_allowed_connection(running: RunningGateway, tracker: Tracker) -> None:
    for options in ({}, WITH_CHALLENGE):
        before = len(await listed_connections(running))
        session = await create_session(running, max_connections=1, **options)
        consents = []
        for _ in range(2):
            response = await start_flow(running, session["token"])
            consents.append(response.headers["Location"])

        async def finish(consent: str) -> int:
            async with running.http.get(consent) as response:
                return int(response.status)

        statuses = sorted(await asyncio.gather(*map(finish, consents)))
        assert statuses in ([200, 400], [200, 403]), statuses
        if options:
            await complete(running, session)
        assert len(await listed_connections(running)) == before + 1
        response = await start_flow(running, session["token"])
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_used")
        assert "1 connection" in (await response.json())["error"]["message"]


async def test_typed_credential_beyond_the_limit_is_refused_before_it_is_tested(
    running: RunningGateway, tracker: Tracker
) -> None:
    await declare_key_integration(running, tracker)
    session = await create_session(running, single_use=True)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    statuses = []
    for _ in range(2):
        async with running.http.post(url, json={"apiKey": "k3y"}) as response:
            statuses.append(response.status)
    assert statuses == [200, 403]
    assert len(await listed_connections(running)) == 1
    assert (await poll(running, session))["error"]["code"] == "connect_session_used"


async def test_session_of_one_browser_accepts_no_typed_credential_from_another(
    running: RunningGateway, tracker: Tracker
) -> None:
    await declare_key_integration(running, tracker)
    session = await create_session(running, single_use=True)
    assert await running.runtime.store.sessions.keep_for_browser(session["poll_url"].rpartition("/")[2], "b" * 64)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    async with running.http.post(url, json={"apiKey": "k3y"}) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "connect_session_in_use")
    assert await listed_connections(running) == []


async def test_failed_attempt_does_not_use_up_a_session(running: RunningGateway, tracker: Tracker) -> None:
    session = await create_session(running, max_connections=1)
    await walk_flow(running, session["token"], "&params[subdomain]=nowhere")
    assert (await walk_flow(running, session["token"]))[0] == 200
    assert len(await listed_connections(running)) == 1
