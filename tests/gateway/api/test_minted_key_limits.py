"""A minted key cannot divert hosts, settings, scopes, events or help pages of connections that it reaches."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway, document, write_entry
from tests.fakes.recording_server import RecordingServer, listening
from tests.gateway.connections.test_secret_hosts import SELF_HOSTED, allowed_server

__all__ = ["allowed_server"]
CONNECT = "environment:connect_sessions:write"
CONFIGURE = "environment:connections:configure"
ELSEWHERE = "https://attacker.example/hook"


@pytest.fixture
async def attacker() -> AsyncIterator[RecordingServer]:
    async with listening() as recorder:
        yield recorder


@pytest.fixture
async def gateway(
    allowed_server: RecordingServer, attacker: RecordingServer, tmp_path: Path
) -> AsyncIterator[RunningGateway]:
    """A gateway with connection `c` of integration `forge` at `allowed_server`, with an end user's e-mail, tags and metadata."""
    write_entry(tmp_path, "forge", SELF_HOSTED)
    configuration = document(["127.0.0.1/32"], forge={"client_id": "client-1", "scopes": ["read", "write"]})
    configuration["environments"]["dev"]["connect_origins"] = ["https://app.example.com"]
    del configuration["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(tmp_path, configuration)
    await running.start()
    body = {
        "provider_config_key": "forge",
        "connection_id": "c",
        "connection_config": {"server": allowed_server.url},
        "credentials": {"type": "OAUTH2", "access_token": "t", "refresh_token": "r"},
        "end_user": {"id": "u1", "email": "ada@example.com"},
        "tags": {"team": "red"},
        "metadata": {"plan": "gold"},
    }
    await running.json("POST", "/connections", json=body, expect=201)
    yield running
    await running.stop()


async def mint_key(gateway: RunningGateway, *scopes: str, **limits: Any) -> dict[str, str]:
    body = {"display_name": secrets.token_hex(4), "scopes": list(scopes), "limits": limits}
    minted = await gateway.json("POST", "/environment/api-keys", json=body, expect=200)
    return {"Authorization": f"Bearer {minted['data']['secret']}"}


async def request_json(gateway: RunningGateway, method: str, path: str, headers: Any, **body: Any) -> tuple[int, Any]:
    async with gateway.http.request(method, gateway.url + path, headers=headers, json=body or None) as response:
        return response.status, await response.json()


DIVERTING: dict[str, dict[str, Any]] = {
    "webhook_url_override": {"webhook_url_override": ELSEWHERE},
    "connection_config.webhook_url": {
        "integrations_config_defaults": {"forge": {"connection_config": {"webhook_url": ELSEWHERE}}}
    },
    "connection_config.server": {
        "integrations_config_defaults": {"forge": {"connection_config": {"server": "https://attacker.example"}}}
    },
    "authorization_params": {"integrations_config_defaults": {"forge": {"authorization_params": {"login_hint": "x"}}}},
    "user_scopes": {"integrations_config_defaults": {"forge": {"user_scopes": "admin"}}},
    "oauth_scopes_override": {
        "integrations_config_defaults": {"forge": {"connection_config": {"oauth_scopes_override": "read,admin"}}}
    },
    "overrides": {"overrides": {"forge": {"docs_connect": "https://docs.example.com/help"}}},
}


@pytest.mark.parametrize("again", [False, True], ids=["new", "reconnect"])
async def test_minted_key_without_the_scope_cannot_fix_values_of_a_session(
    gateway: RunningGateway, again: bool
) -> None:
    path = "/connect/sessions" + ("/reconnect" if again else "")
    of = {"connection_id": "c", "integration_id": "forge"} if again else {"end_user": {"id": "u2"}}
    narrow = await mint_key(gateway, CONNECT)
    wide = await mint_key(gateway, CONNECT, CONFIGURE)
    for what, diverting in DIVERTING.items():
        status, response = await request_json(gateway, "POST", path, narrow, **of, **diverting)
        assert (status, response["error"]["code"]) == (403, "forbidden"), what
        assert response["error"]["payload"]["required"] == [CONFIGURE], what
        assert (await request_json(gateway, "POST", path, wide, **of, **diverting))[0] == 201, what
        assert (await request_json(gateway, "POST", path, gateway.headers, **of, **diverting))[0] == 201, what
    assert (await request_json(gateway, "POST", path, narrow, **of))[0] == 201


async def test_scopes_that_the_integration_requests_anyway_can_be_named(gateway: RunningGateway) -> None:
    fewer = {"forge": {"connection_config": {"oauth_scopes_override": "read"}, "user_scopes": "write"}}
    narrow = await mint_key(gateway, CONNECT)
    body = {"end_user": {"id": "u2"}, "integrations_config_defaults": fewer}
    assert (await request_json(gateway, "POST", "/connect/sessions", narrow, **body))[0] == 201


async def test_minted_key_without_the_scope_cannot_set_the_url_for_events(
    gateway: RunningGateway, allowed_server: RecordingServer
) -> None:
    narrow = await mint_key(gateway, "environment:connections:create", "environment:connections:update")
    at = "/connections/c?provider_config_key=forge"
    assert (await request_json(gateway, "PATCH", at, narrow, webhook_url_override=ELSEWHERE))[0] == 403
    assert (await request_json(gateway, "PATCH", at, narrow, tags={"team": "blue"}))[0] == 200
    body = {"provider_config_key": "forge", "connection_id": "c", "connection_config": {"server": allowed_server.url}}
    body["credentials"] = {"type": "OAUTH2", "access_token": "mine"}
    assert (await request_json(gateway, "POST", "/connections", narrow, **body, webhook_url_override=ELSEWHERE))[
        0
    ] == 403
    assert (await request_json(gateway, "POST", "/connections", narrow, **body))[0] == 201
    shown = await gateway.json("GET", at, expect=200)
    assert shown["webhook_url_override"] in (None, "")


@pytest.mark.parametrize(
    ("scopes", "limits"),
    [
        ((CONNECT,), {}),
        ((CONNECT,), {"connections": ["forge/c"]}),
        ((CONNECT, CONFIGURE), {"connections": ["forge/c"]}),
        ((CONNECT, CONFIGURE), {"tags": {"team": "red"}}),
    ],
    ids=["unbound", "bound", "bound-configure", "tags-configure"],
)
async def test_session_of_a_limited_key_cannot_change_the_settings_of_a_connection(
    gateway: RunningGateway, attacker: RecordingServer, scopes: tuple[str, ...], limits: dict[str, Any]
) -> None:
    narrow = await mint_key(gateway, *scopes, **limits)
    reconnect = {"connection_id": "c", "integration_id": "forge"}
    status, response = await request_json(gateway, "POST", "/connect/sessions/reconnect", narrow, **reconnect)
    assert status == 201
    typed = f"/oauth/connect/forge?connect_session_token={response['data']['token']}&params[server]={attacker.url}"
    status, response = await request_json(gateway, "GET", typed, {"Accept": "application/json"})
    assert (status, response["error"]["code"]) == (400, "connection_validation_failed")
    if limits:
        fixed = {"forge": {"connection_config": {"server": attacker.url}}}
        body = {**reconnect, "integrations_config_defaults": fixed}
        assert (await request_json(gateway, "POST", "/connect/sessions/reconnect", narrow, **body))[0] == 403
    assert attacker.received == []


async def test_reconnect_link_of_a_limited_key_keeps_the_host_of_the_connection(
    gateway: RunningGateway, allowed_server: RecordingServer
) -> None:
    narrow = await mint_key(gateway, CONNECT, connections=["forge/c"])
    body = {"connection_id": "c", "integration_id": "forge"}
    _, response = await request_json(gateway, "POST", "/connect/sessions/reconnect", narrow, **body)
    async with gateway.http.get(
        f"{gateway.url}/oauth/connect/forge?connect_session_token={response['data']['token']}"
    ) as page:
        assert page.status == 200
    connection = await gateway.json("GET", "/connections/c?provider_config_key=forge", expect=200)
    assert (connection["connection_config"]["server"], connection["end_user"]["id"]) == (allowed_server.url, "u1")
    assert connection["credentials"]["access_token"] == "access-1"


@pytest.mark.parametrize("limits", [{}, {"connections": ["forge/c"]}, {"tags": {"team": "red"}}])
async def test_import_by_a_limited_key_cannot_change_the_settings_of_a_connection(
    gateway: RunningGateway, allowed_server: RecordingServer, attacker: RecordingServer, limits: dict[str, Any]
) -> None:
    narrow = await mint_key(gateway, "environment:connections:create", **limits)
    body: dict[str, Any] = {
        "provider_config_key": "forge",
        "connection_id": "c",
        "connection_config": {"server": attacker.url},
    }
    body["credentials"] = {"type": "OAUTH2", "access_token": "mine"}
    status, response = await request_json(gateway, "POST", "/connections", narrow, **body)
    assert (status, response["error"]["errors"][0]["path"]) == (400, ["connection_config", "server"])
    body["connection_config"] = {"server": allowed_server.url}
    assert (await request_json(gateway, "POST", "/connections", narrow, **body))[0] == 201
    new = {**body, "connection_id": "d", "connection_config": {"server": attacker.url}}
    assert (await request_json(gateway, "POST", "/connections", narrow, **new))[0] == (
        404 if "connections" in limits else 403 if limits else 201
    )


async def test_key_that_may_only_create_sessions_reads_only_the_state(gateway: RunningGateway) -> None:
    narrow = await mint_key(gateway, CONNECT)
    status, connection = await request_json(gateway, "GET", "/connections/c?provider_config_key=forge", narrow)
    assert status == 200
    assert connection == {
        "connection_id": "c", "provider_config_key": "forge", "provider": "forge", "state": "active", "errors": []
    }  # fmt: skip
    reconnect = {"connection_id": "c", "integration_id": "forge"}
    _, response = await request_json(gateway, "POST", "/connect/sessions/reconnect", narrow, **reconnect)
    token = {"Authorization": f"Bearer {response['data']['token']}"}
    _, session = await request_json(gateway, "GET", "/connect/session", token)
    assert "ada@example.com" not in str(session)


@pytest.mark.parametrize(
    "page",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://docs.example.com",
        "//docs.example.com",
        "https://u:p@x.example",
        "docs",
    ],
)
async def test_help_page_must_be_an_https_url_for_every_key(gateway: RunningGateway, page: str) -> None:
    body = {"end_user": {"id": "u2"}, "overrides": {"forge": {"docs_connect": page}}}
    for headers in (gateway.headers, await mint_key(gateway, CONNECT, CONFIGURE)):
        status, response = await request_json(gateway, "POST", "/connect/sessions", headers, **body)
        assert (status, response["error"]["errors"][0]["path"]) == (400, ["overrides", "forge", "docs_connect"])


async def test_a_minted_key_names_help_pages_of_the_provider_or_the_application(gateway: RunningGateway) -> None:
    wide = await mint_key(gateway, CONNECT, CONFIGURE)

    async def status(page: str, headers: dict[str, str]) -> int:
        body = {"end_user": {"id": "u2"}, "overrides": {"forge": {"docs_connect": page}}}
        return (await request_json(gateway, "POST", "/connect/sessions", headers, **body))[0]

    assert await status("https://docs.example.com/a", wide) == 201
    assert await status("https://app.example.com/help", wide) == 201
    assert await status("https://attacker.example/help", wide) == 400
    assert await status("https://docs.example.com.attacker.example/", wide) == 400
    assert await status("https://help.customer.example/", gateway.headers) == 201


async def test_key_cannot_mint_a_key_with_a_scope_it_lacks(gateway: RunningGateway) -> None:
    parent = await mint_key(gateway, CONNECT, "environment:api_keys:create")
    body = {"display_name": "child", "scopes": [CONNECT, CONFIGURE]}
    status, response = await request_json(gateway, "POST", "/environment/api-keys", parent, **body)
    assert (status, response["error"]["payload"]["missing"]) == (403, [CONFIGURE])
    parent = await mint_key(gateway, CONNECT, CONFIGURE, "environment:api_keys:create")
    assert (await request_json(gateway, "POST", "/environment/api-keys", parent, **body))[0] == 200
