"""The client secret is sent only to hosts that the entry or the integration names, not to hosts that end users
choose."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, write_entry
from tests.fakes.recording_server import RecordingServer, listening

SECRET = "sh+h/very=secret"
SELF_HOSTED = {
    "display_name": "Forge",
    "categories": ["dev-tools"],
    "docs": "https://docs.example.com",
    "auth_mode": "OAUTH2",
    "authorization_url": "${connectionConfig.server}/authorize",
    "token_url": "${connectionConfig.server}/token",
    "revocation_url": "${connectionConfig.server}/revoke",
    "connection_config": {"server": {"title": "Server", "format": "uri", "any_host": True}},
    "proxy": {"base_url": "${connectionConfig.server}/api"},
}
MCP = {
    "display_name": "Any MCP server",
    "categories": ["dev-tools"],
    "docs": "https://docs.example.com",
    "auth_mode": "MCP_OAUTH2_GENERIC",
    "connection_config": {"server": {"title": "Server", "format": "uri", "any_host": True}},
    "proxy": {"base_url": "${connectionConfig.server}/mcp"},
}


@pytest.fixture
async def allowed_server() -> AsyncIterator[RecordingServer]:
    async with listening() as recorder:
        yield recorder


@pytest.fixture
async def other_server() -> AsyncIterator[RecordingServer]:
    async with listening() as recorder:
        yield recorder


@pytest.fixture
async def gateway(
    allowed_server: RecordingServer, other_server: RecordingServer, tmp_path: Path
) -> AsyncIterator[RunningGateway]:
    """A gateway with the integrations `forge` and `mcp`, which have no `allowed_hosts` yet."""
    write_entry(tmp_path, "forge", SELF_HOSTED)
    write_entry(tmp_path, "mcp", MCP)
    client = {"client_id": "client-1", "client_secret": SECRET}
    config = document(["127.0.0.1/32"], forge=client, mcp=client)
    del config["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(tmp_path, config)
    await running.start()
    yield running
    await running.stop()


async def allow_hosts(gateway: RunningGateway, *hosts: str) -> None:
    for integration in gateway.document["environments"]["dev"]["integrations"].values():
        integration["allowed_hosts"] = list(hosts)
    await gateway.restart()


def has_secret(recorder: RecordingServer) -> bool:
    basic = base64.b64encode(f"client-1:{quote(SECRET, safe='')}".encode()).decode()
    return any(text in recorder.everything for text in (SECRET, quote(SECRET, safe=""), basic))


def host_of(recorder: RecordingServer) -> str:
    return recorder.url.removeprefix("http://")


async def connect(gateway: RunningGateway, server: str, integration: str = "forge", **session: Any) -> tuple[int, str]:
    token = await gateway.session_token(**session)
    path = f"/oauth/connect/{integration}?connect_session_token={token}&params[server]={server}"
    async with gateway.http.get(gateway.url + path) as response:
        return response.status, await response.text()


async def import_connection(gateway: RunningGateway, server: str, **extra: Any) -> tuple[int, Any]:
    credentials = {
        "type": "OAUTH2",
        "access_token": "old",
        "refresh_token": "refresh-0",
        "expires_at": "2020-01-01T00:00:00Z",
    }
    body = {"provider_config_key": "forge", "connection_id": "c1", "connection_config": {"server": server}, **extra}
    body.setdefault("credentials", credentials)
    async with gateway.http.post(f"{gateway.url}/connections", json=body, headers=gateway.headers) as response:
        return response.status, await response.json()


async def test_typed_host_gets_a_request_without_the_client_secret(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    status, page = await connect(gateway, other_server.url)
    assert (status, "POST /token" in other_server.everything) == (200, True), page
    assert "code_verifier=" in other_server.everything
    assert not has_secret(other_server)
    listed = await gateway.json("GET", "/connections", expect=200)
    assert [connection["state"] for connection in listed["connections"]] == ["active"]


async def test_refresh_and_revocation_at_a_typed_host_use_no_client_secret(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    await connect(gateway, other_server.url)
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    at = f"/connections/{one['connection_id']}?provider_config_key=forge"
    body = await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert body["credentials"]["access_token"] == "access-2"
    await gateway.json("DELETE", at, expect=200)
    assert "POST /revoke" in other_server.everything
    assert not has_secret(other_server)


async def test_a_host_that_the_session_fixes_gets_no_secret(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    fixed = {"forge": {"connection_config": {"server": other_server.url}}}
    status, page = await connect(gateway, "http://127.0.0.1:1", integrations_config_defaults=fixed)
    assert (status, "POST /token" in other_server.everything) == (200, True), page
    assert not has_secret(other_server)


async def test_imported_token_is_refreshed_only_at_an_allowed_host(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    assert (await import_connection(gateway, other_server.url))[0] == 201
    async with gateway.call_proxy("c1", integration="forge") as response:
        body = (await response.json())["error"]
        assert (response.status, body["code"]) == (400, "unresolved_setting")
    assert host_of(other_server) in body["message"]
    assert "allowed_hosts" in body["message"]
    assert other_server.received == []
    at = "/connections/c1?provider_config_key=forge"
    listed = await gateway.json("GET", "/connections", expect=200)
    assert listed["connections"][0]["state"] == "incomplete"
    await allow_hosts(gateway, host_of(other_server))
    body = await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert (body["state"], body["credentials"]["access_token"]) == ("active", "access-1")
    assert "refresh_token=refresh-0" in other_server.everything
    assert has_secret(other_server)


async def test_imported_client_secret_is_sent_to_the_imported_host(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    mine = {"client_id": "mine", "client_secret": "my-own"}
    credentials = {"type": "OAUTH2", "access_token": "old", "refresh_token": "r", "expires_at": "2020-01-01T00:00:00Z"}
    assert (await import_connection(gateway, other_server.url, credentials={**credentials, "config_override": mine}))[
        0
    ] == 201
    async with gateway.call_proxy("c1", integration="forge") as response:
        assert response.status == 200
    assert "client_secret=my-own" in other_server.everything
    assert not has_secret(other_server)


async def test_only_allowed_hosts_are_accepted_and_get_the_secret(
    gateway: RunningGateway, allowed_server: RecordingServer, other_server: RecordingServer
) -> None:
    await allow_hosts(gateway, host_of(allowed_server))
    status, page = await connect(gateway, allowed_server.url)
    assert (status, has_secret(allowed_server)) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]

    status, page = await connect(gateway, other_server.url)
    assert (status, host_of(other_server) in page, "allowed_hosts" in page) == (400, True, True)
    status, reply = await import_connection(gateway, other_server.url)
    assert (status, reply["error"]["code"]) == (400, "connection_validation_failed")
    assert reply["error"]["errors"][0]["path"] == ["connection_config", "server"]
    assert host_of(other_server) in reply["error"]["message"]

    again = {"connection_id": one["connection_id"], "integration_id": "forge"}
    session = await gateway.json("POST", "/connect/sessions/reconnect", json=again, expect=201)
    path = f"/oauth/connect/forge?connect_session_token={session['data']['token']}&params[server]={other_server.url}"
    async with gateway.http.get(gateway.url + path, headers={"Accept": "application/json"}) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "connection_validation_failed")
    assert other_server.received == []


async def test_host_removed_from_allowed_hosts_gets_no_secret(
    gateway: RunningGateway, allowed_server: RecordingServer
) -> None:
    """Neither a refresh nor a revocation uses the secret. Everything else continues to work."""
    await allow_hosts(gateway, host_of(allowed_server))
    await connect(gateway, allowed_server.url)
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    await allow_hosts(gateway)
    allowed_server.received.clear()
    at = f"/connections/{one['connection_id']}?provider_config_key=forge"
    async with gateway.http.get(f"{gateway.url}{at}&force_refresh=true", headers=gateway.headers) as response:
        assert response.status == 200  # the token is still valid
        assert response.headers["Gateway-Refresh-Failed"] == "unresolved_setting"
        assert (await response.json())["state"] == "incomplete"
    body = await gateway.json("DELETE", at, expect=200)
    assert body["revocation"][0]["outcome"] == "failed"
    assert "was not sent to" in body["revocation"][0]["detail"]
    assert allowed_server.received == []


async def test_an_mcp_server_that_names_its_own_token_endpoint_gets_no_secret(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    status, page = await connect(gateway, other_server.url, "mcp")
    assert (status, "POST /token" in other_server.everything) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    at = f"/connections/{one['connection_id']}?provider_config_key=mcp"
    await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    await gateway.json("DELETE", at, expect=200)
    assert not has_secret(other_server)


async def test_mcp_server_in_allowed_hosts_gets_the_secret(
    gateway: RunningGateway, allowed_server: RecordingServer, other_server: RecordingServer
) -> None:
    await allow_hosts(gateway, host_of(allowed_server))
    status, page = await connect(gateway, allowed_server.url, "mcp")
    assert (status, has_secret(allowed_server)) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    allowed_server.received.clear()
    at = f"/connections/{one['connection_id']}?provider_config_key=mcp"
    await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert has_secret(allowed_server)
    assert (await connect(gateway, other_server.url, "mcp"))[0] == 400
    assert other_server.received == []


async def test_a_key_that_may_not_read_the_secret_cannot_send_it_elsewhere(
    gateway: RunningGateway, other_server: RecordingServer
) -> None:
    credentials = {"type": "OAUTH2", "client_id": "client-1", "client_secret": SECRET}
    new = {"provider": "forge", "unique_key": "made", "credentials": credentials, "allowed_hosts": ["git.example.com"]}
    created = await gateway.json("POST", "/integrations", json=new, expect=200)
    assert created["data"]["allowed_hosts"] == ["git.example.com"]
    scopes = ["environment:integrations:update", "environment:integrations:read"]
    key = await gateway.json("POST", "/environment/api-keys", json={"display_name": "k", "scopes": scopes}, expect=200)
    headers = {"Authorization": f"Bearer {key['data']['secret']}"}

    async def patch_integration(**changes: Any) -> int:
        async with gateway.http.patch(f"{gateway.url}/integrations/made", json=changes, headers=headers) as response:
            return response.status

    assert await patch_integration(allowed_hosts=["git.example.com", host_of(other_server)]) == 403
    assert (
        await patch_integration(
            allowed_hosts=[host_of(other_server)], credentials={**credentials, "client_secret": "another"}
        )
        == 200
    )
    assert await patch_integration(allowed_hosts=[]) == 200
    await gateway.restart()
    shown = await gateway.json("GET", "/integrations/made", expect=200)
    assert "allowed_hosts" not in shown["data"]
    wider = await gateway.json("PATCH", "/integrations/made", json={"allowed_hosts": ["*.example.com"]}, expect=200)
    assert wider["data"]["allowed_hosts"] == ["*.example.com"]
    assert SECRET_KEY not in other_server.everything


LOOK_ALIKE = ["\u2044", "\u2215", "\uff0f", "\u29f8", "\u3002", "\uff0e", "\u212a", "\u0456", "\u200b"]


@pytest.mark.parametrize("char", LOOK_ALIKE)
async def test_typed_host_with_a_look_alike_character_is_refused_with_its_code_point(
    tmp_path: Path, allowed_server: RecordingServer, char: str
) -> None:
    """In every field for hosts: with the format `hostname` or `uri`, without a format, and in allowed_hosts."""
    host = {"title": "Host", "any_host": True}
    urls = {
        "revocation_url": "https://${connectionConfig.host}/revoke",
        "authorization_url": "https://${connectionConfig.host}/authorize",
        "token_url": "https://${connectionConfig.host}/token",
        "proxy": {"base_url": "https://${connectionConfig.host}/api"},
    }
    write_entry(
        tmp_path, "hosts", {**SELF_HOSTED, **urls, "connection_config": {"host": {**host, "format": "hostname"}}}
    )
    labels = {name: text.replace("}", "}.example.com") for name, text in urls.items() if isinstance(text, str)}
    labels["proxy"] = {"base_url": "https://${connectionConfig.host}.example.com/api"}  # type: ignore[assignment]
    write_entry(tmp_path, "labels", {**SELF_HOSTED, **labels, "connection_config": {"host": {"title": "Host"}}})
    write_entry(tmp_path, "forge", SELF_HOSTED)
    client = {"client_id": "client-1", "client_secret": SECRET}
    config = document(["127.0.0.1/32"], forge=client, hosts=client, labels=client)
    del config["environments"]["dev"]["integrations"]["tracker"]
    gateway = RunningGateway(tmp_path, config)
    await gateway.start()
    typed = f"git{char}example"
    code_point = f"U+{ord(char):04X}"
    try:
        for integration, config in (
            ("hosts", {"host": f"{typed}.com"}),
            ("labels", {"host": typed}),
            ("forge", {"server": f"https://{typed}.com"}),
        ):
            status, response = await import_connection(
                gateway, "", provider_config_key=integration, connection_config=config
            )
            assert (status, code_point in response["error"]["message"]) == (400, True), response
            token = await gateway.session_token()
            query = f"connect_session_token={token}&params[{next(iter(config))}]={quote(next(iter(config.values())))}"
            async with gateway.http.get(f"{gateway.url}/oauth/connect/{integration}?{query}") as page:
                assert (page.status, code_point in await page.text()) == (400, True)
        body = {"unique_key": "n", "provider": "forge", "allowed_hosts": [f"{typed}.com"]}
        response = await gateway.json("POST", "/integrations", json=body, expect=400)
        assert code_point in response["error"]["message"]
    finally:
        await gateway.stop()
