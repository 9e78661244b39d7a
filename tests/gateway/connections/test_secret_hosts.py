"""The client secret is sent only to hosts that the entry or the integration names, not to hosts that end users choose."""

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
async def ours() -> AsyncIterator[RecordingServer]:
    async with listening() as recorder:
        yield recorder


@pytest.fixture
async def evil() -> AsyncIterator[RecordingServer]:
    async with listening() as recorder:
        yield recorder


@pytest.fixture
async def gateway(ours: RecordingServer, evil: RecordingServer, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """Integrations `forge` and `mcp`, which name no hosts yet."""
    write_entry(tmp_path, "forge", SELF_HOSTED)
    write_entry(tmp_path, "mcp", MCP)
    client = {"client_id": "client-1", "client_secret": SECRET}
    made = document(["127.0.0.1/32"], forge=client, mcp=client)
    del made["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(tmp_path, made)
    await running.start()
    yield running
    await running.stop()


async def naming(gateway: RunningGateway, *hosts: str) -> None:
    for one in gateway.document["environments"]["dev"]["integrations"].values():
        one["allowed_hosts"] = list(hosts)
    await gateway.restart()


def has_secret(recorder: RecordingServer) -> bool:
    basic = base64.b64encode(f"client-1:{quote(SECRET, safe='')}".encode()).decode()
    return any(text in recorder.everything for text in (SECRET, quote(SECRET, safe=""), basic))


def host_of(recorder: RecordingServer) -> str:
    return recorder.url.removeprefix("http://")


async def connected(
    gateway: RunningGateway, server: str, integration: str = "forge", **session: Any
) -> tuple[int, str]:
    token = await gateway.session_token(**session)
    asked = f"/oauth/connect/{integration}?connect_session_token={token}&params[server]={server}"
    async with gateway.http.get(gateway.url + asked) as response:
        return response.status, await response.text()


async def imported(gateway: RunningGateway, server: str, **more: Any) -> tuple[int, Any]:
    credentials = {
        "type": "OAUTH2",
        "access_token": "old",
        "refresh_token": "refresh-0",
        "expires_at": "2020-01-01T00:00:00Z",
    }
    body = {"provider_config_key": "forge", "connection_id": "c1", "connection_config": {"server": server}, **more}
    body.setdefault("credentials", credentials)
    async with gateway.http.post(f"{gateway.url}/connections", json=body, headers=gateway.headers) as response:
        return response.status, await response.json()


async def test_an_end_user_who_types_a_host_gets_a_public_client_there(
    gateway: RunningGateway, evil: RecordingServer
) -> None:
    status, page = await connected(gateway, evil.url)
    assert (status, "POST /token" in evil.everything) == (200, True), page
    assert "code_verifier=" in evil.everything
    assert not has_secret(evil)
    listed = await gateway.json("GET", "/connections", expect=200)
    assert [one["state"] for one in listed["connections"]] == ["active"]


async def test_a_public_client_is_renewed_and_ended_as_one(gateway: RunningGateway, evil: RecordingServer) -> None:
    await connected(gateway, evil.url)
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    at = f"/connections/{one['connection_id']}?provider_config_key=forge"
    body = await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert body["credentials"]["access_token"] == "access-2"
    await gateway.json("DELETE", at, expect=200)
    assert "POST /revoke" in evil.everything
    assert not has_secret(evil)


async def test_a_host_that_the_session_fixes_gets_no_secret(gateway: RunningGateway, evil: RecordingServer) -> None:
    fixed = {"forge": {"connection_config": {"server": evil.url}}}
    status, page = await connected(gateway, "http://127.0.0.1:1", integrations_config_defaults=fixed)
    assert (status, "POST /token" in evil.everything) == (200, True), page
    assert not has_secret(evil)


async def test_an_imported_token_is_not_renewed_at_a_host_that_nobody_named(
    gateway: RunningGateway, evil: RecordingServer
) -> None:
    assert (await imported(gateway, evil.url))[0] == 201
    async with gateway.proxied("c1", integration="forge") as response:
        body = (await response.json())["error"]
        assert (response.status, body["code"]) == (400, "unresolved_setting")
    assert host_of(evil) in body["message"]
    assert "allowed_hosts" in body["message"]
    assert evil.received == []
    at = "/connections/c1?provider_config_key=forge"
    listed = await gateway.json("GET", "/connections", expect=200)
    assert listed["connections"][0]["state"] == "incomplete"
    await naming(gateway, host_of(evil))
    body = await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert (body["state"], body["credentials"]["access_token"]) == ("active", "access-1")
    assert "refresh_token=refresh-0" in evil.everything
    assert has_secret(evil)


async def test_an_end_users_own_client_goes_where_it_was_made(gateway: RunningGateway, evil: RecordingServer) -> None:
    mine = {"client_id": "mine", "client_secret": "my-own"}
    credentials = {"type": "OAUTH2", "access_token": "old", "refresh_token": "r", "expires_at": "2020-01-01T00:00:00Z"}
    assert (await imported(gateway, evil.url, credentials={**credentials, "config_override": mine}))[0] == 201
    async with gateway.proxied("c1", integration="forge") as response:
        assert response.status == 200
    assert "client_secret=my-own" in evil.everything
    assert not has_secret(evil)


async def test_what_the_operator_names_gets_the_secret_and_nothing_else_is_accepted(
    gateway: RunningGateway, ours: RecordingServer, evil: RecordingServer
) -> None:
    await naming(gateway, host_of(ours))
    status, page = await connected(gateway, ours.url)
    assert (status, has_secret(ours)) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]

    status, page = await connected(gateway, evil.url)
    assert (status, host_of(evil) in page, "allowed_hosts" in page) == (400, True, True)
    status, reply = await imported(gateway, evil.url)
    assert (status, reply["error"]["code"]) == (400, "connection_validation_failed")
    assert reply["error"]["errors"][0]["path"] == ["connection_config", "server"]
    assert host_of(evil) in reply["error"]["message"]

    again = {"connection_id": one["connection_id"], "integration_id": "forge"}
    made = await gateway.json("POST", "/connect/sessions/reconnect", json=again, expect=201)
    asked = f"/oauth/connect/forge?connect_session_token={made['data']['token']}&params[server]={evil.url}"
    async with gateway.http.get(gateway.url + asked, headers={"Accept": "application/json"}) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "connection_validation_failed")
    assert evil.received == []


async def test_a_host_taken_off_the_list_gets_no_further_secret(gateway: RunningGateway, ours: RecordingServer) -> None:
    """No refresh and no revocation uses the secret. Everything that works without the provider continues."""
    await naming(gateway, host_of(ours))
    await connected(gateway, ours.url)
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    await naming(gateway)
    ours.received.clear()
    at = f"/connections/{one['connection_id']}?provider_config_key=forge"
    async with gateway.http.get(f"{gateway.url}{at}&force_refresh=true", headers=gateway.headers) as response:
        assert response.status == 200  # the token is still valid
        assert response.headers["Gateway-Refresh-Failed"] == "unresolved_setting"
        assert (await response.json())["state"] == "incomplete"
    body = await gateway.json("DELETE", at, expect=200)
    assert body["revocation"][0]["outcome"] == "failed"
    assert "was not sent to" in body["revocation"][0]["detail"]
    assert ours.received == []


async def test_an_mcp_server_that_names_its_own_token_endpoint_gets_no_secret(
    gateway: RunningGateway, evil: RecordingServer
) -> None:
    status, page = await connected(gateway, evil.url, "mcp")
    assert (status, "POST /token" in evil.everything) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    at = f"/connections/{one['connection_id']}?provider_config_key=mcp"
    await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    await gateway.json("DELETE", at, expect=200)
    assert not has_secret(evil)


async def test_an_mcp_server_that_the_operator_names_gets_it(
    gateway: RunningGateway, ours: RecordingServer, evil: RecordingServer
) -> None:
    await naming(gateway, host_of(ours))
    status, page = await connected(gateway, ours.url, "mcp")
    assert (status, has_secret(ours)) == (200, True), page
    [one] = (await gateway.json("GET", "/connections", expect=200))["connections"]
    ours.received.clear()
    at = f"/connections/{one['connection_id']}?provider_config_key=mcp"
    await gateway.json("GET", f"{at}&force_refresh=true", expect=200)
    assert has_secret(ours)
    assert (await connected(gateway, evil.url, "mcp"))[0] == 400
    assert evil.received == []


async def test_a_key_that_may_not_read_the_secret_cannot_send_it_elsewhere(
    gateway: RunningGateway, evil: RecordingServer
) -> None:
    credentials = {"type": "OAUTH2", "client_id": "client-1", "client_secret": SECRET}
    new = {"provider": "forge", "unique_key": "made", "credentials": credentials, "allowed_hosts": ["git.example.com"]}
    made = await gateway.json("POST", "/integrations", json=new, expect=200)
    assert made["data"]["allowed_hosts"] == ["git.example.com"]
    scopes = ["environment:integrations:update", "environment:integrations:read"]
    key = await gateway.json("POST", "/environment/api-keys", json={"display_name": "k", "scopes": scopes}, expect=200)
    headers = {"Authorization": f"Bearer {key['data']['secret']}"}

    async def patched(**changes: Any) -> int:
        async with gateway.http.patch(f"{gateway.url}/integrations/made", json=changes, headers=headers) as response:
            return response.status

    assert await patched(allowed_hosts=["git.example.com", host_of(evil)]) == 403
    assert await patched(allowed_hosts=[host_of(evil)], credentials={**credentials, "client_secret": "another"}) == 200
    assert await patched(allowed_hosts=[]) == 200
    await gateway.restart()
    shown = await gateway.json("GET", "/integrations/made", expect=200)
    assert "allowed_hosts" not in shown["data"]
    wider = await gateway.json("PATCH", "/integrations/made", json={"allowed_hosts": ["*.example.com"]}, expect=200)
    assert wider["data"]["allowed_hosts"] == ["*.example.com"]
    assert SECRET_KEY not in evil.everything


LOOK_ALIKE = ["\u2044", "\u2215", "\uff0f", "\u29f8", "\u3002", "\uff0e", "\u212a", "\u0456", "\u200b"]


@pytest.mark.parametrize("char", LOOK_ALIKE)
async def test_a_typed_host_that_looks_like_another_is_refused_in_plain_words(
    tmp_path: Path, ours: RecordingServer, char: str
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
    made = document(["127.0.0.1/32"], forge=client, hosts=client, labels=client)
    del made["environments"]["dev"]["integrations"]["tracker"]
    gateway = RunningGateway(tmp_path, made)
    await gateway.start()
    typed = f"git{char}example"
    named = f"U+{ord(char):04X}"
    try:
        for integration, config in (
            ("hosts", {"host": f"{typed}.com"}),
            ("labels", {"host": typed}),
            ("forge", {"server": f"https://{typed}.com"}),
        ):
            status, response = await imported(gateway, "", provider_config_key=integration, connection_config=config)
            assert (status, named in response["error"]["message"]) == (400, True), response
            token = await gateway.session_token()
            query = f"connect_session_token={token}&params[{next(iter(config))}]={quote(next(iter(config.values())))}"
            async with gateway.http.get(f"{gateway.url}/oauth/connect/{integration}?{query}") as page:
                assert (page.status, named in await page.text()) == (400, True)
        body = {"unique_key": "n", "provider": "forge", "allowed_hosts": [f"{typed}.com"]}
        response = await gateway.json("POST", "/integrations", json=body, expect=400)
        assert named in response["error"]["message"]
    finally:
        await gateway.stop()
