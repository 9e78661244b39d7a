"""Connect sessions, reconnects, polling (docs/compatibility.md#connect-sessions)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway import clock
from gateway.authorization import open_authorizations
from gateway.authorization.connect_sessions import SESSION_PREFIX
from gateway.store import pending_authorizations
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def call(running: RunningGateway, method: str, path: str, token: str, **options: Any) -> tuple[int, Any]:
    async with running.http.request(method, running.url + path, headers=bearer(token), **options) as response:
        return (
            response.status,
            await response.json() if response.content_type == "application/json" else await response.text(),
        )


async def create_session(running: RunningGateway, **body: Any) -> dict[str, Any]:
    response = await running.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}, **body}, expect=201)
    data: dict[str, Any] = response["data"]
    return data


async def test_session_is_readable_with_its_own_token(running: RunningGateway) -> None:
    defaults = {
        "tracker": {"connection_config": {"subdomain": "acme"}, "authorization_params": {"a": "b"}, "user_scopes": "x"}
    }
    response = await create_session(
        running,
        end_user={"id": "u1", "email": "ada@example.com", "tags": {"plan": "pro"}},
        organization={"id": "o1", "display_name": "Org"},
        allowed_integrations=["tracker"],
        integrations_config_defaults=defaults,
        overrides={"tracker": {"docs_connect": "https://docs.example.com"}},
    )
    status, body = await call(running, "GET", "/connect/session", response["token"])
    assert status == 200
    data = body["data"]
    assert data["endUser"] == {
        "id": "u1",
        "display_name": None,
        "email": "ada@example.com",
        "tags": {"plan": "pro"},
        "organization": {"id": "o1", "display_name": "Org"},
    }
    assert data["allowed_integrations"] == ["tracker"]
    assert data["integrations_config_defaults"]["tracker"] == {
        "connection_config": {"subdomain": "acme"},
        "authorization_params": {"a": "b"},
    }
    assert data["overrides"] == {"tracker": {"docs_connect": "https://docs.example.com"}}
    assert data["websocketsPath"] == "/"
    assert data["connectUISettings"]["theme"]["light"]["primary"].startswith("#")
    assert "isReconnecting" not in data


async def test_misspelt_integration_is_refused_with_the_closest_name(running: RunningGateway) -> None:
    request_body = {"end_user": {"id": "u1"}, "allowed_integrations": ["traker", "nothing-like-it"]}
    body = (await running.json("POST", "/connect/sessions", json=request_body, expect=400))["error"]
    assert body["message"].endswith("has no integration 'traker'. Did you mean 'tracker'?")
    assert [error["path"] for error in body["errors"]] == [["allowed_integrations", "0"], ["allowed_integrations", "1"]]
    request_body["allowed_integrations"] = ["nope"]
    body = (await running.json("POST", "/connect/sessions", json=request_body, expect=400))["error"]
    assert body["message"].endswith("has no integration 'nope'. GET /integrations lists the integrations.")
    request_body["allowed_integrations"] = ["traker"]
    limited = {
        "display_name": "n",
        "scopes": ["environment:connect_sessions:write"],
        "limits": {"integrations": ["other"]},
    }
    key = (await running.json("POST", "/environment/api-keys", json=limited, expect=200))["data"]["secret"]
    status, refused = await call(running, "POST", "/connect/sessions", key, json=request_body)
    assert (status, "Did you mean" in str(refused)) == (400, False), "the integration is outside the key's limits"


async def test_token_of_a_deleted_session_is_invalid(running: RunningGateway) -> None:
    token = (await create_session(running))["token"]
    assert await call(running, "DELETE", "/connect/session", token) == (204, "")
    status, response = await call(running, "GET", "/connect/session", token)
    assert (status, response["error"]["code"]) == (401, "unknown_connect_session_token")


async def test_session_lists_only_the_catalog_and_its_own_integrations(running: RunningGateway) -> None:
    token = (await create_session(running, allowed_integrations=["tracker"]))["token"]
    assert (await call(running, "GET", "/providers?search=tracker", token))[0] == 200
    assert (await call(running, "GET", "/providers/tracker", token))[1]["data"]["name"] == "tracker"
    status, listed = await call(running, "GET", "/integrations", token)
    assert (status, [item["unique_key"] for item in listed["data"]]) == (200, ["tracker"])


async def test_integrations_that_a_session_does_not_offer_are_not_listed(running: RunningGateway) -> None:
    running.document["environments"]["dev"]["integrations"]["other"] = {"provider": "tracker", "client_id": "x"}
    await running.restart()
    token = (await create_session(running, allowed_integrations=["other"]))["token"]
    _, listed = await call(running, "GET", "/integrations", token)
    assert [item["unique_key"] for item in listed["data"]] == ["other"]
    _, listed = await call(running, "GET", "/integrations", (await create_session(running))["token"])
    assert [item["unique_key"] for item in listed["data"]] == ["tracker", "other"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/connections"),
        ("GET", "/integrations/tracker"),
        ("POST", "/connect/sessions"),
        ("POST", "/connect/sessions/reconnect"),
        ("GET", "/connect/sessions/" + "0" * 64),
        ("GET", "/connections/c1?provider_config_key=tracker"),
        ("DELETE", "/connections/c1?provider_config_key=tracker"),
        ("GET", "/proxy/x"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_session_token_is_valid_only_for_session_endpoints(
    shared_gateway: RunningGateway, method: str, path: str
) -> None:
    status, response = await call(shared_gateway, method, path, (await create_session(shared_gateway))["token"])
    assert (status, response["error"]["code"]) == (401, "unknown_account")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (SESSION_PREFIX + "0" * 64, "unknown_connect_session_token"),
        (SESSION_PREFIX + "x", "invalid_connect_session_token_format"),
    ],
)
@pytest.mark.parametrize("path", ["/connect/session", "/providers", "/integrations", "/connect/session/result"])
@pytest.mark.asyncio(loop_scope="module")
async def test_string_in_token_format_is_never_tried_as_a_key(
    shared_gateway: RunningGateway, path: str, sent: str, code: str
) -> None:
    status, response = await call(shared_gateway, "GET", path, sent)
    assert (status, response["error"]["code"]) == (401, code)


async def test_secret_key_is_not_accepted_as_a_session_token(running: RunningGateway) -> None:
    body = await running.json("GET", "/connect/session", expect=401)
    assert body["error"]["code"] == "invalid_connect_session_token_format"


async def test_telemetry_is_accepted_and_discarded(running: RunningGateway) -> None:
    token = (await create_session(running))["token"]
    body = {"token": token, "event": "open", "timestamp": "2026-01-01T00:00:00Z", "dimensions": {"integration": "x"}}
    async with running.http.post(f"{running.url}/connect/telemetry", json=body) as response:
        assert (response.status, await response.read()) == (204, b"")
    async with running.http.post(f"{running.url}/connect/telemetry", json={**body, "token": "x"}) as response:
        assert response.status == 401


async def test_the_back_end_polls_for_the_outcome_without_the_token(running: RunningGateway, tracker: Tracker) -> None:
    response = await create_session(running)
    path = response["poll_url"].removeprefix(running.url)
    assert response["token"] not in path
    assert (await running.json("GET", path, expect=200))["data"]["status"] == "pending"
    await walk_flow(running, response["token"], "&params[subdomain]=nowhere")
    failed = (await running.json("GET", path))["data"]
    assert (failed["status"], failed["connections"]) == ("pending", [])
    assert (failed["error"]["type"], failed["error"]["provider_config_key"]) == (
        "connection_validation_failed",
        "tracker",
    )
    await walk_flow(running, response["token"])
    done = (await running.json("GET", path))["data"]
    listed = (await running.json("GET", "/connections"))["connections"]
    assert done["status"] == "connected"
    assert done["connections"] == [
        {"provider_config_key": "tracker", "connection_id": listed[0]["connection_id"], "is_pending": False}
    ]
    assert "error" not in done
    await running.json("GET", "/connect/sessions/" + "0" * 64, expect=404)


async def test_limited_key_polls_no_outcome_of_hidden_connections(running: RunningGateway, tracker: Tracker) -> None:
    reply = await create_session(running)
    path = reply["poll_url"].removeprefix(running.url)
    await walk_flow(running, reply["token"])
    assert len((await running.json("GET", path))["data"]["connections"]) == 1
    for limit, seen in (({"connections": ["tracker/another"]}, 0), ({"integrations": ["tracker"]}, 1)):
        body = {"display_name": str(seen), "scopes": ["environment:connect_sessions:write"], "limits": limit}
        key = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]["secret"]
        async with running.http.get(reply["poll_url"], headers={"Authorization": f"Bearer {key}"}) as response:
            data = (await response.json())["data"]
        assert (response.status, len(data["connections"])) == (200, seen), data


async def test_polling_reports_that_a_typed_credential_is_wrong(running: RunningGateway, tracker: Tracker) -> None:
    proxy = {
        "base_url": tracker.url,
        "headers": {"x-api-key": "${apiKey}"},
        "verification": {"method": "GET", "endpoints": ["/x"]},
    }
    entry = {"display_name": "Keyed", "categories": ["crm"], "docs": "https://docs.example.com", "auth_mode": "API_KEY"}
    write_entry(running.folder, "keyed", {**entry, "proxy": proxy})
    running.document["environments"]["dev"]["integrations"]["keyed"] = {"provider": "keyed"}
    await running.restart()
    session = await create_session(running)
    path = session["poll_url"].removeprefix(running.url)
    waiting = asyncio.create_task(running.json("GET", f"{path}?wait_s=30"))
    async with asyncio.timeout(PATIENCE_S):
        while not running.runtime.outcomes.is_full(1):
            await asyncio.sleep(0)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    async with running.http.post(url, json={"apiKey": "a-wrong-key"}) as response:
        refused = (await response.json())["error"]
    async with asyncio.timeout(PATIENCE_S):
        result = (await waiting)["data"]
    assert (result["status"], result["connections"]) == ("pending", [])
    assert result["error"] == {
        "type": "connection_test_failed",
        "code": "connection_test_failed",
        "message": refused["message"],
        "provider_config_key": "keyed",
    }
    assert "a-wrong-key" not in str(result)
    assert (await call(running, "DELETE", "/connect/session", session["token"]))[0] == 204
    ended = (await running.json("GET", path, expect=200))["data"]
    assert (ended["status"], ended["error"]) == ("expired", result["error"])


async def test_failed_attempts_of_a_session_are_limited_and_hide_no_connection(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 1,000 failures the application read `pending` and no connection, though its end user had connected."""
    entry = {"display_name": "Keyed", "categories": ["crm"], "docs": "https://docs.example.com", "auth_mode": "API_KEY"}
    proxy = {"base_url": "https://api.example.com", "headers": {"x-api-key": "${apiKey}"}}
    write_entry(running.folder, "keyed", {**entry, "proxy": proxy})
    running.document["environments"]["dev"]["integrations"]["keyed"] = {"provider": "keyed"}
    await running.restart()
    monkeypatch.setattr(open_authorizations, "MAX_OPEN", 3)
    monkeypatch.setattr(pending_authorizations, "MAX_RESULTS", 2)
    monkeypatch.setattr(pending_authorizations, "MAX_KEPT_FAILURES", 2)
    session = await create_session(running, max_connections=1)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    seen = []
    for _ in range(5):
        async with running.http.post(url, json={"apiKey": "a-key"}) as response:
            seen.append((response.status, response.headers.get("Gateway-Error"), "Retry-After" in response.headers))
    used = (403, "connect_session_used", False)
    assert seen == [(200, None, False), used, used, used, (429, "too_many_request", True)]
    result = (await running.json("GET", session["poll_url"].removeprefix(running.url)))["data"]
    assert (result["status"], len(result["connections"])) == ("connected", 1)
    assert result["error"]["code"] == "connect_session_used"


async def test_outcome_of_an_ended_session_stays_readable_for_a_while(
    running: RunningGateway, advance_clock: Callable[[float], None]
) -> None:
    deleted, forgotten, expired = [await create_session(running) for _ in range(3)]
    paths = [item["poll_url"].removeprefix(running.url) for item in (deleted, forgotten, expired)]
    assert (await call(running, "DELETE", "/connect/session", deleted["token"]))[0] == 204
    assert (await running.json("GET", paths[0], expect=200))["data"] == {"status": "expired", "connections": []}
    advance_clock(1801)
    await running.runtime.store.sessions.delete(forgotten["poll_url"].rpartition("/")[2])
    for path in paths:
        assert (await running.json("GET", path, expect=200))["data"] == {"status": "expired", "connections": []}
    await running.runtime.store.prune(clock.now())
    assert (await running.json("GET", paths[2], expect=200))["data"]["status"] == "expired"
    advance_clock(1801 + 3601)
    await running.runtime.store.prune(clock.now())
    for path in paths:
        await running.json("GET", path, expect=404)


async def test_a_waiting_client_gets_a_response_as_soon_as_there_is_an_outcome(
    running: RunningGateway, tracker: Tracker
) -> None:
    response = await create_session(running)
    path = response["poll_url"].removeprefix(running.url)
    waiting = asyncio.create_task(running.json("GET", f"{path}?wait_s=30"))
    async with asyncio.timeout(PATIENCE_S):
        while not running.runtime.outcomes.is_full(1):
            await asyncio.sleep(0)
    await walk_flow(running, response["token"])
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting)["data"]["status"] == "connected"


async def test_window_gets_only_its_own_outcomes_of_the_session(running: RunningGateway, tracker: Tracker) -> None:
    token = (await create_session(running))["token"]
    await walk_flow(running, token, "&ws_client_id=one")
    for client, count in (("one", 1), ("two", 0)):
        _, response = await call(running, "GET", f"/connect/session/result?client={client}", token)
        assert len(response["data"]["connections"]) == count


async def connect(running: RunningGateway, tracker: Tracker) -> str:
    await walk_flow(running, (await create_session(running, tags={"team": "x"}))["token"], "&params[subdomain]=globex")
    connection_id: str = (await running.json("GET", "/connections"))["connections"][0]["connection_id"]
    return connection_id


async def create_reconnect(running: RunningGateway, connection_id: str, **extra: Any) -> dict[str, Any]:
    body = {"connection_id": connection_id, "integration_id": "tracker", **extra}
    response = await running.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    data: dict[str, Any] = response["data"]
    return data


async def test_a_reconnect_keeps_id_site_and_end_user(running: RunningGateway, tracker: Tracker) -> None:
    connection_id = await connect(running, tracker)
    path = f"/connections/{connection_id}?provider_config_key=tracker"
    before = await running.json("GET", path)
    response = await create_reconnect(running, connection_id)
    _, shown = await call(running, "GET", "/connect/session", response["token"])
    assert shown["data"]["isReconnecting"] is True
    assert (await walk_flow(running, response["token"]))[0] == 200
    after = await running.json("GET", path)
    assert after["credentials"]["access_token"] != before["credentials"]["access_token"]
    same = ("id", "connection_id", "connection_config", "tags", "end_user")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after["connection_config"]["subdomain"] == "globex"
    assert len((await running.json("GET", "/connections"))["connections"]) == 1


async def test_reconnect_session_cannot_connect_another_integration(running: RunningGateway, tracker: Tracker) -> None:
    running.document["environments"]["dev"]["integrations"]["other"] = {"provider": "tracker", "client_id": "x"}
    await running.restart()
    reply = await create_reconnect(running, await connect(running, tracker))
    url = f"{running.url}/oauth/connect/other?connect_session_token={reply['token']}"
    async with running.http.get(url, allow_redirects=False) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (403, "integration_not_allowed")


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ({"connection_id": "nobody", "integration_id": "tracker"}, ["connection_id"]),
        ({"connection_id": "nobody", "integration_id": "nothing"}, ["integration_id"]),
        ({"integration_id": "tracker"}, ["connection_id"]),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_connection_cannot_be_reconnected(
    shared_gateway: RunningGateway, named: dict[str, str], path: list[str]
) -> None:
    body = await shared_gateway.json("POST", "/connect/sessions/reconnect", json=named, expect=400)
    assert (body["error"]["code"], body["error"]["errors"][0]["path"]) == ("invalid_body", path)


async def test_connection_deleted_during_a_reconnect_is_not_created_again(
    running: RunningGateway, tracker: Tracker
) -> None:
    connection_id = await connect(running, tracker)
    reply = await create_reconnect(running, connection_id)
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={reply['token']}"
    async with running.http.get(begin, allow_redirects=False) as response:
        consent = response.headers["Location"]
    await running.json("DELETE", f"/connections/{connection_id}?provider_config_key=tracker", expect=200)
    async with running.http.get(consent) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_connection")
    assert (await running.json("GET", "/connections"))["connections"] == []
    async with running.http.get(begin, allow_redirects=False) as response:
        assert response.status == 401  # the session was deleted with the connection


async def test_reconnect_with_another_account_is_refused(running: RunningGateway, tracker: Tracker) -> None:
    from gateway.records.connection import Account

    entry = tracker_entry(tracker.url, account={"id": "user", "label": ["mail"]})
    del entry["post_connection_script"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.token_extra = {"user": 1, "mail": "ada@example.com"}
    await walk_flow(running, (await create_session(running))["token"])
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    assert listed["account"] == {"id": "1", "label": "ada@example.com"}
    path = f"/connections/{listed['connection_id']}?provider_config_key=tracker"
    before = (await running.json("GET", path))["credentials"]
    response = await create_reconnect(running, listed["connection_id"])

    tracker.token_extra = {"user": 2, "mail": "eve@example.com"}
    status, html = await walk_flow(running, response["token"])
    assert (status, "another Tracker account, &#39;eve@example.com&#39;," in html) == (400, True)
    assert "Sign in as &#39;ada@example.com&#39;" in html
    assert (await running.json("GET", path))["credentials"] == before
    tracker.token_extra = {"user": 1, "mail": "ada@new.example.com"}
    assert (await walk_flow(running, response["token"]))[0] == 200
    assert (await running.json("GET", path))["account"] == {"id": "1", "label": "ada@new.example.com"}
    assert Account("1") != Account("2")


async def test_the_path_of_the_account_endpoint_is_filled_in(running: RunningGateway, tracker: Tracker) -> None:
    account = {
        "endpoint": "/company/${connectionConfig.realm}/info?of=${connectionConfig.realm}",
        "id": "path",
        "settings": {"realm": "path", "shown": "path"},
    }
    forms = {name: {"title": name, "automated": True} for name in ("realm", "shown")}
    entry = tracker_entry(tracker.url, token_response_metadata=["realm"], account=account, connection_config=forms)
    del entry["post_connection_script"], entry["connection_configuration"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.token_extra = {"realm": "42"}
    assert (await walk_flow(running, (await create_session(running))["token"]))[0] == 200
    assert {request.path_qs for request in tracker.seen} == {"/company/42/info?of=42"}
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    assert listed["account"]["id"] == "/company/42/info?of=42"
    path = f"/connections/{listed['connection_id']}?provider_config_key=tracker"
    settings = (await running.json("GET", path))["connection_config"]
    assert settings == {"realm": "42", "shown": "/company/42/info?of=42"}, "a setting that has a value keeps it"


async def test_an_account_endpoint_without_its_setting_leaves_the_account_unknown(
    running: RunningGateway, tracker: Tracker
) -> None:
    account = {"endpoint": "/company/${connectionConfig.realm}/info", "id": "path"}
    entry = tracker_entry(tracker.url, token_response_metadata=["realm"], account=account)
    del entry["post_connection_script"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    assert (await walk_flow(running, (await create_session(running))["token"]))[0] == 200
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    assert (tracker.seen, listed["account"]) == ([], None)


async def test_a_base_url_without_its_setting_is_not_the_providers_fault(
    running: RunningGateway, tracker: Tracker
) -> None:
    account = {"endpoint": "/info", "id": "path", "settings": {"shown": "path"}}
    proxy = {"base_url": f"{tracker.url}/${{connectionConfig.realm}}"}
    forms = {name: {"title": name, "automated": True} for name in ("realm", "shown")}
    entry = tracker_entry(tracker.url, connection_config=forms, account=account, proxy=proxy)
    del entry["post_connection_script"], entry["connection_configuration"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    status, html = await walk_flow(running, (await create_session(running))["token"])
    assert (status, "setting connectionConfig.realm" in html, "Could not read" in html) == (400, True, False), html
    assert (await running.json("GET", "/connections"))["connections"] == []


async def test_outbound_authorization_of_another_auth_mode_is_refused(running: RunningGateway) -> None:
    token = (await create_session(running))["token"]
    url = f"{running.url}/auth/oauth-outbound/tracker?connect_session_token={token}"
    async with running.http.post(url, json={}) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_auth_mode")


async def test_an_end_user_cannot_choose_a_setting_that_the_provider_returns(
    running: RunningGateway, tracker: Tracker
) -> None:
    account = {"id": "user", "settings": {"company": "user"}}
    forms = {"company": {"title": "Company", "automated": True}, "region": {"title": "Region", "optional": True}}
    entry = tracker_entry(
        tracker.url,
        token_response_metadata=["shard", "region"],
        redirect_uri_metadata=["realm"],
        account=account,
        connection_config=forms,
    )
    del entry["post_connection_script"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.token_extra = {"shard": "own", "user": 1}
    tracker.callback_extra = {"realm": "own"}
    chosen = "".join(f"&params[{name}]=other" for name in ("shard", "realm", "company", "region"))
    assert (await walk_flow(running, (await create_session(running))["token"], chosen))[0] == 200
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    path = f"/connections/{listed['connection_id']}?provider_config_key=tracker"
    settings = (await running.json("GET", path))["connection_config"]
    assert settings == {"shard": "own", "realm": "own", "company": "1", "region": "other"}


async def test_new_settings_of_a_reconnect_replace_earlier_ones(running: RunningGateway, tracker: Tracker) -> None:
    entry = tracker_entry(tracker.url, token_response_metadata=["shard"])
    del entry["post_connection_script"]
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.token_extra = {"shard": "old"}
    await walk_flow(running, (await create_session(running))["token"])
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    tracker.token_extra = {"shard": "new"}
    assert (await walk_flow(running, (await create_reconnect(running, listed["connection_id"]))["token"]))[0] == 200
    path = f"/connections/{listed['connection_id']}?provider_config_key=tracker"
    assert (await running.json("GET", path))["connection_config"] == {"shard": "new"}


async def test_reconnect_by_typed_credential_keeps_settings_that_are_not_sent_again(
    running: RunningGateway, tracker: Tracker
) -> None:
    forms = {"region": {"title": "Region"}, "team": {"title": "Team"}, "pin": {"title": "Pin", "secret": True}}
    proxy = {"base_url": tracker.url, "headers": {"x-api-key": "${apiKey}"}}
    entry = {"display_name": "Keyed", "categories": ["crm"], "docs": "https://docs.example.com", "auth_mode": "API_KEY"}
    write_entry(running.folder, "keyed", {**entry, "connection_config": forms, "proxy": proxy})
    running.document["environments"]["dev"]["integrations"]["keyed"] = {"provider": "keyed"}
    await running.restart()
    body = {
        "provider_config_key": "keyed",
        "connection_id": "k1",
        "credentials": {"type": "API_KEY", "apiKey": "first"},
        "connection_config": {"region": "eu", "team": "blue", "pin": "0000"},
    }
    await running.json("POST", "/connections", json=body, expect=201)
    request_body = {"connection_id": "k1", "integration_id": "keyed"}
    fixed = {"integrations_config_defaults": {"keyed": {"connection_config": {"team": "red"}}}}
    reply = await running.json("POST", "/connect/sessions/reconnect", json={**request_body, **fixed}, expect=201)
    url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={reply['data']['token']}"
    async with running.http.post(url, json={"apiKey": "second"}) as response:
        assert response.status == 200, await response.text()
    after = await running.json("GET", "/connections/k1?provider_config_key=keyed")
    assert after["credentials"]["apiKey"] == "second"
    assert after["connection_config"] == {"region": "eu", "team": "red", "pin": "0000"}


async def test_webhook_url_among_the_settings_is_checked_like_any_other(running: RunningGateway) -> None:
    settings = {"tracker": {"connection_config": {"webhook_url": "not a URL"}}}
    body = {"end_user": {"id": "u1"}, "integrations_config_defaults": settings}
    response = await running.json("POST", "/connect/sessions", json=body, expect=400)
    (issue,) = response["error"]["errors"]
    assert issue["path"] == ["integrations_config_defaults", "tracker", "connection_config", "webhook_url"]


async def test_a_secret_that_the_back_end_fixed_is_not_shown_to_the_browser(
    running: RunningGateway, tracker: Tracker
) -> None:
    forms = {"partner": {"title": "Partner key", "secret": True}, "region": {"title": "Region"}}
    write_entry(running.folder, "tracker", tracker_entry(tracker.url, connection_config=forms))
    await running.restart()
    fixed = {"Partner": "pk-0123456789", "region": "eu"}
    reply = await create_session(running, integrations_config_defaults={"tracker": {"connection_config": fixed}})
    status, body = await call(running, "GET", "/connect/session", reply["token"])
    assert status == 200
    assert body["data"]["integrations_config_defaults"] == {
        "tracker": {"connection_config": {"Partner": "********", "region": "eu"}}
    }
    async with running.http.get(reply["connect_link"]) as response:
        assert "pk-0123456789" not in await response.text()


async def test_integration_named_twice_is_offered_once(running: RunningGateway) -> None:
    reply = await create_session(running, allowed_integrations=["tracker", "tracker"])
    async with running.http.get(reply["connect_link"]) as response:
        assert "What the application will be able to do" in await response.text()
