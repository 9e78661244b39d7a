"""Hosts that an entry fixes itself, and hosts that a setting chooses."""

from pathlib import Path

import pytest

from gateway.catalog.hosts import HostPattern, fixes_host, open_secret_urls, open_urls, parse_pattern
from gateway.catalog.load_catalog import load_catalog
from tests.fakes.providers import provider


def entry_with(token_url: str, **setting: object) -> object:
    return provider(token_url=token_url, connection_config={"x": {"title": "X", **setting}})


OPEN = [
    ("https://${connectionConfig.x}/token", {"format": "hostname", "any_host": True}),
    ("https://${connectionConfig.x}/token", {"format": "hostname"}),
    (
        "https://${connectionConfig.x}/token",
        {"format": "hostname", "any_host": True, "pattern": r"[a-z]+\.example\.com"},
    ),
    ("https://login.example.${connectionConfig.x}/token", {}),
    ("https://${connectionConfig.x}.com/token", {}),
    ("https://${connectionConfig.x}example.com/token", {}),
    ("https://${connectionConfig.x}.co.uk/token", {}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"seller\.amazon\.[a-z.]+"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z]+\.example\.com|.+"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"([a-z]+\.example\.com)?[a-z.]*"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z]+\.example\.com(\.[a-z]+)?"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z.]+example.com"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"evil.test|[a-z]+\.example\.com"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z.]+(\.example){0}\.com"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z.]+\wexample\.com"}),
    ("https://${connectionConfig.x}/token", {"format": "hostname", "pattern": r"[a-z.]+\.(?=c)com"}),
    ("${connectionConfig.x}/token", {"format": "uri"}),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https://[a-z.]+/example\.com"}),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https://.+\.example\.com"}),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https://[^ ]+\.example\.com/?"}),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https://[a-z.]+/[a-z]+\.example\.com"}),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https://[a-z.]+(/|\.)*[a-z]+\.example\.com"}),
]
NAMED = [
    ("https://login.example.com/token", {}, "login.example.com"),
    ("https://${connectionConfig.x}.example.com/token", {}, "acme.example.com"),
    ("https://${connectionConfig.x}-api.example.com/token", {}, "acme-api.example.com"),
    ("https://login.example.${connectionConfig.x}/token", {"enum": ["com", "co.uk"]}, "login.example.co.uk"),
    (
        "https://${connectionConfig.x}/token",
        {"format": "hostname", "pattern": r"[A-Za-z0-9.-]+\.(salesforce|force)\.(com|mil)"},
        "acme.my.force.mil",
    ),
    (
        "https://${connectionConfig.x}/token",
        {"format": "hostname", "pattern": r"(eu|us)\.example\.(com|org)"},
        "eu.example.org",
    ),
    (
        "${connectionConfig.x}/token",
        {"format": "uri", "pattern": r"https://api[0-9]+\.iq\.example\.com/?"},
        "api1.iq.example.com",
    ),
    ("${connectionConfig.x}/token", {"format": "uri", "pattern": r"https?:\/\/[^/]+\.example\.com/?"}, "a.example.com"),
    (
        "${connectionConfig.x}/token",
        {"format": "uri", "pattern": r"(https|http)://[^/]+\.example\.com"},
        "a.example.com",
    ),
]


@pytest.mark.parametrize(("token_url", "setting"), OPEN)
def test_setting_that_can_choose_the_domain_leaves_the_host_to_the_end_user(
    token_url: str, setting: dict[str, object]
) -> None:
    entry = entry_with(token_url, **setting)
    assert ("token_url", "x") in list(open_urls(entry))  # type: ignore[arg-type]
    assert not fixes_host(entry, "https", "attacker.test", 443)  # type: ignore[arg-type]
    assert not fixes_host(entry, "https", "example.com.attacker.test", 443)  # type: ignore[arg-type]


@pytest.mark.parametrize(("token_url", "setting", "host"), NAMED)
def test_setting_within_the_providers_domain_fixes_the_host(
    token_url: str, setting: dict[str, object], host: str
) -> None:
    entry = entry_with(token_url, **setting)
    assert list(open_urls(entry)) == []  # type: ignore[arg-type]
    assert fixes_host(entry, "https", host, 443)  # type: ignore[arg-type]
    assert not fixes_host(entry, "https", host, 8443)  # type: ignore[arg-type]
    assert not fixes_host(entry, "https", f"{host}.attacker.test", 443)  # type: ignore[arg-type]
    assert not fixes_host(entry, "https", "attacker.test", 443)  # type: ignore[arg-type]


def test_default_of_a_host_setting_counts_as_a_host_of_the_entry() -> None:
    entry = entry_with(
        "https://${connectionConfig.x}/token", format="hostname", any_host=True, default_value="login.example.com"
    )
    assert fixes_host(entry, "https", "login.example.com", 443)  # type: ignore[arg-type]
    assert ("token_url", "x") in list(open_urls(entry))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "fits", "does_not"),
    [
        ("git.example.com", ("git.example.com", 443), ("x.git.example.com", 443)),
        ("git.example.com", ("git.example.com", 443), ("git.example.com", 8443)),
        ("git.example.com:8443", ("git.example.com", 8443), ("git.example.com", 443)),
        ("*.example.com", ("a.b.example.com", 443), ("example.com", 443)),
        ("*.example.com", ("a.example.com", 443), ("aexample.com", 443)),
        ("*.example.com:99", ("a.example.com", 99), ("a.example.com", 443)),
        ("[::1]:99", ("[::1]", 99), ("[::1]", 443)),
    ],
)
def test_a_pattern_of_allowed_hosts_fits_exactly_its_hosts(
    text: str, fits: tuple[str, int], does_not: tuple[str, int]
) -> None:
    pattern = parse_pattern(text)
    assert pattern.matches(*fits, "https")
    assert not pattern.matches(*does_not, "https")


def test_a_public_suffix_is_not_a_host() -> None:
    assert not HostPattern(".example.com", suffix=True).matches(".example.com", 443, "https")


def test_shipped_entries_that_may_send_the_client_secret_to_an_open_host_are_known() -> None:
    """To add a new entry here, first check whether a pattern can name its hosts."""
    catalog = load_catalog([Path("catalog")])
    found = {name for name, item in catalog.providers.items() if next(open_secret_urls(item), None)}
    oauth = {name for name in found if catalog.providers[name].auth_mode in {"OAUTH2", "MCP_OAUTH2_GENERIC"}}
    assert oauth == {
        "absorb-lms", "gitea", "gitlab-self-managed", "keycloak", "looker-oauth", "mcp-generic", "servicenow", "socrata"
    }  # fmt: skip
    assert found - oauth == {
        "looker",
        "okta-cc",
        "servicenow-oauth2-cc",
        "sugarcrm",
        "tableau",
    }  # the end user's own credential
