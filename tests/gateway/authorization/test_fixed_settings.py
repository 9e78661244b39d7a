"""Invalid fixed settings are refused when a connect session is created, not when its end user connects."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway, document, write_entry

FORGE = {
    "display_name": "Forge",
    "categories": ["dev-tools"],
    "docs": "https://docs.example.com",
    "auth_mode": "OAUTH2",
    "authorization_url": "${connectionConfig.server}/authorize",
    "token_url": "${connectionConfig.server}/token",
    "connection_config": {
        "server": {"title": "Server", "format": "uri", "any_host": True},
        "tenant": {"title": "Tenant", "optional": True},
    },
    "proxy": {"base_url": "${connectionConfig.server}/api"},
}
SITE = {
    "display_name": "Site",
    "categories": ["crm"],
    "docs": "https://docs.example.com",
    "auth_mode": "API_KEY",
    "connection_config": {"subdomain": {"title": "Subdomain"}, "region": {"title": "Region"}},
    "proxy": {"base_url": "https://${connectionConfig.subdomain}.${connectionConfig.region}.example.com"},
}


@pytest.fixture
async def gateway(tmp_path: Path) -> Any:
    for name, entry in (("forge", FORGE), ("site", SITE)):
        write_entry(tmp_path, name, entry)
    client = {"client_id": "c", "client_secret": "of-the-client"}
    forge = {**client, "provider": "forge", "allowed_hosts": ["git.example.com", "127.0.0.1:9"]}
    configuration = document([], forge=forge, open={**client, "provider": "forge"}, site={"provider": "site"})
    del configuration["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(tmp_path, configuration)
    await running.start()
    yield running
    await running.stop()


@pytest.mark.parametrize(
    ("integration", "config", "setting", "says"),
    [
        ("forge", {"server": "https://evil.example"}, "server", ("evil.example", "git.example.com", "allowed_hosts")),
        ("forge", {"SERVER": "https://evil.example"}, "server", ("evil.example", "git.example.com")),
        ("forge", {"server": "no address"}, "server", ("server",)),
        ("forge", {"server": 5}, "server", ("server", "text")),
        ("forge", {"server": "https://127.0.0.1:9"}, "server", ("127.0.0.1", "egress.allow")),
        ("open", {"server": "https://169.254.169.254"}, "server", ("169.254.169.254", "egress.allow")),
        ("open", {"server": "http://git.example.com"}, "server", ("git.example.com", "https")),
        ("open", {"server": "https://a@git.example.com"}, "server", ("server",)),
        ("site", {"subdomain": "evil.example/", "region": "eu"}, "subdomain", ("subdomain",)),
        ("site", {"subdomian": "acme"}, "subdomian", ("subdomain",)),
    ],
)
async def test_fixed_setting_that_allows_no_connection_is_refused(
    gateway: RunningGateway, integration: str, config: Any, setting: str, says: tuple[str, ...]
) -> None:
    defaults = {integration: {"connection_config": config}}
    body = {"end_user": {"id": "u1"}, "integrations_config_defaults": defaults}
    response = await gateway.json("POST", "/connect/sessions", json=body, expect=400)
    (issue,) = response["error"]["errors"]
    assert issue["path"] == ["integrations_config_defaults", integration, "connection_config", setting]
    assert all(word in response["error"]["message"] for word in says), response["error"]["message"]


@pytest.mark.parametrize(
    ("integration", "config"),
    [
        ("forge", {"server": "https://git.example.com"}),
        ("forge", {"tenant": "t", "of_the_application": "x", "oauth_scopes_override": "a,b"}),
        ("open", {"server": "https://git.example.net:8443"}),
        ("site", {"subdomain": "acme"}),
        ("site", {"region": "eu"}),
    ],
)
async def test_fixed_settings_may_leave_others_to_the_end_user(
    gateway: RunningGateway, integration: str, config: Any
) -> None:
    defaults = {integration: {"connection_config": config}}
    body = {"end_user": {"id": "u1"}, "integrations_config_defaults": defaults}
    await gateway.json("POST", "/connect/sessions", json=body, expect=201)


async def test_reconnect_session_is_checked_too(gateway: RunningGateway) -> None:
    body = {
        "provider_config_key": "site",
        "connection_id": "c1",
        "credentials": {"type": "API_KEY", "apiKey": "k"},
        "connection_config": {"subdomain": "acme", "region": "eu"},
    }
    await gateway.json("POST", "/connections", json=body, expect=201)
    request_body: dict[str, Any] = {"connection_id": "c1", "integration_id": "site"}
    for config, status in (({"subdomain": "evil.example/"}, 400), ({"subdomain": "acme"}, 201)):
        fixed = {"integrations_config_defaults": {"site": {"connection_config": config}}}
        await gateway.json("POST", "/connect/sessions/reconnect", json={**request_body, **fixed}, expect=status)
