"""A host application gets one kind of exception with all faults, no matter which file has them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import gateway
from gateway.cli import main
from gateway.config import Faults

KEY = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="


@pytest.fixture
def faulty_catalog(tmp_path: Path) -> str:
    (tmp_path / "tracker.yaml").write_text("display_name: Tracker\ncategoris: [x]\n")
    return str(tmp_path)


def configuration(**extra: Any) -> dict[str, Any]:
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"jria": {}}}}
    return {"store": {"encryption_keys": [KEY]}, "environments": environments, **extra}


def test_faulty_catalog_raises_the_same_exception_as_a_faulty_configuration(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as raised:
        gateway.create_app(configuration(catalog=[faulty_catalog]))
    assert "unknown key 'categoris'" in str(raised.value)
    assert "no provider 'jria'" in str(raised.value)


def test_all_three_kinds_of_faults_are_reported_together(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as raised:
        gateway.create_app(configuration(catalog=[faulty_catalog], live={"ttl_s": "never"}))
    assert "live.ttl_s: must be a number" in str(raised.value)
    assert "unknown key 'categoris'" in str(raised.value)
    assert "no provider 'jria'" in str(raised.value)


APP = """
display_name: Forge
categories: [developer-tools]
docs: https://docs.example.com
auth_mode: {mode}
authorization_url: https://forge.example.com/install
token_url: https://forge.example.com/token
{more}
proxy: {{base_url: https://forge.example.com}}
"""


@pytest.mark.parametrize(
    ("mode", "extra", "missing"),
    [
        ("APP", "", "set app_id, app_link and private_key"),
        ("CUSTOM", "installation_token_url: https://forge.example.com/i", "set client_id and client_secret"),
        ("OAUTH1", "request_url: https://forge.example.com/r", "set client_id and client_secret"),
        ("INSTALL_PLUGIN", "", "set client_id and client_secret"),
    ],
)
def test_an_integration_without_a_required_key_is_a_fault(tmp_path: Path, mode: str, extra: str, missing: str) -> None:
    (tmp_path / "forge.yaml").write_text(APP.format(mode=mode, more=extra))
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"forge": {}}}}
    with pytest.raises(Faults, match=missing):
        gateway.create_app(configuration(catalog=[str(tmp_path)], environments=environments))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("private_key", "-----BEGIN PUBLIC KEY-----", "a private key in PEM"),
        ("app_link", "x", "must be a URL"),
    ],
)
def test_invalid_app_key_is_reported_without_being_shown(key: str, value: str, problem: str) -> None:
    integrations = {"jira": {"client_id": "c", "client_secret": "s", key: value}}
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": integrations}}
    with pytest.raises(Faults, match=problem) as raised:
        gateway.create_app(configuration(environments=environments))
    assert "PUBLIC" not in str(raised.value)


def test_entry_that_does_not_check_the_installation_causes_a_warning(tmp_path: Path) -> None:
    (tmp_path / "forge.yaml").write_text(
        APP.format(mode="CUSTOM", more="installation_token_url: https://forge.example.com/i")
    )
    file = tmp_path / "gateway.yaml"
    keys = {"client_id": "c", "client_secret": "s", "app_id": "7", "private_key": PEM.replace("\\n", "\n")}
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"forge": keys}}}
    file.write_text(yaml.safe_dump(configuration(catalog=[str(tmp_path)], environments=environments), sort_keys=False))
    result = CliRunner().invoke(main, ["check", "-c", str(file), "--json"])
    assert any(
        "'forge' has no installation_access_url" in warning["message"]
        for warning in json.loads(result.stdout)["warnings"]
    )


PEM = "-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIA==\\n-----END PRIVATE KEY-----"
LINK = "https://github.com/apps/acme"
WRONG_KEYS: dict[str, tuple[str, dict[str, str], str, str]] = {
    "an OAuth client in place of an app": (
        "github-app", {"client_id": "Iv1.1234", "client_secret": "0123456789abcdef"}, "fault",
        "is APP: set app_id, app_link and private_key",
    ),
    "an OAuth client in place of an app and a client": (
        "github-app-user", {"client_id": "Iv1.1234", "client_secret": "0123456789abcdef"}, "fault",
        "is CUSTOM: set app_id, app_link and private_key",
    ),
    "an app without its page": (
        "github-app", {"app_id": "7", "private_key": PEM}, "warning", "no app_link: no end user can install the app",
    ),
    "an app without its number": (
        "github-app", {"app_link": LINK, "private_key": PEM}, "warning", "no app_id: no token can be requested",
    ),
    "an app's key at an OAuth client": (
        "github", {"client_id": "c", "client_secret": "s", "private_key": PEM}, "warning",
        "private_key has no effect: 'github' is OAUTH2, which uses client_id, client_secret",
    ),
    "a client at an API key": (
        "openai", {"client_id": "c"}, "warning", "client_id has no effect: 'openai' is API_KEY, which uses none of these keys",
    ),
    "an MCP server that registers no clients": (
        "asana-mcp", {}, "warning", "no client_id: Asana (MCP) does not support dynamic client registration",
    ),
    "signed requests without the consumer's keys": (
        "netsuite-tba", {}, "warning", "no client_id and client_secret: only imports with a config_override work",
    ),
}  # fmt: skip
RIGHT_KEYS: dict[str, dict[str, Any]] = {
    "github-app": {"app_id": "7", "app_link": LINK, "private_key": PEM},
    "github": {"client_id": "c", "client_secret": "s"},
    "openai": {},
    "mcp-generic": {"client_id": "c", "client_secret": "s", "allowed_hosts": ["mcp.example.com"]},
}


def faults_and_warnings(tmp_path: Path, provider: str, keys: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the faults and warnings of an integration with these keys."""
    file = tmp_path / "gateway.yaml"
    integrations = {"one": {"provider": provider, **keys}}
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": integrations}}
    file.write_text(yaml.safe_dump(configuration(environments=environments), sort_keys=False))
    result = CliRunner().invoke(main, ["check", "-c", str(file), "--json"])
    found = json.loads(result.stdout)
    for fault in (*found["faults"], *found["warnings"]):
        assert fault["line"] >= 6
    return [item["message"] for item in found["faults"]], [warning["message"] for warning in found["warnings"]]


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_wrong_keys_are_reported_with_their_line(tmp_path: Path, case: str) -> None:
    provider, keys, level, message = WRONG_KEYS[case]
    faults, warnings = faults_and_warnings(tmp_path, provider, keys)
    assert any(message in item for item in (faults if level == "fault" else warnings)), (faults, warnings)
    assert bool(faults) is (level == "fault")


@pytest.mark.parametrize("provider", RIGHT_KEYS)
def test_complete_keys_cause_no_fault(tmp_path: Path, provider: str) -> None:
    assert faults_and_warnings(tmp_path, provider, RIGHT_KEYS[provider]) == ([], [])
