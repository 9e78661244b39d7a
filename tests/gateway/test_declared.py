"""A host sees one kind of exception, whichever file is at fault, and all faults in it."""

from pathlib import Path
from typing import Any

import pytest

import gateway
from gateway.config import Faults

KEY = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="


@pytest.fixture
def faulty_catalog(tmp_path: Path) -> str:
    (tmp_path / "tracker.yaml").write_text("display_name: Tracker\ncategoris: [x]\n")
    return str(tmp_path)


def configuration(**more: Any) -> dict[str, Any]:
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"jria": {}}}}
    return {"store": {"encryption_keys": [KEY]}, "environments": environments, **more}


def test_a_catalog_at_fault_raises_what_a_configuration_at_fault_does(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as told:
        gateway.create_app(configuration(catalog=[faulty_catalog]))
    assert "unknown key 'categoris'" in str(told.value)
    assert "no provider 'jria'" in str(told.value)


def test_all_three_kinds_of_faults_come_at_once(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as told:
        gateway.create_app(configuration(catalog=[faulty_catalog], live={"ttl_s": "never"}))
    assert "live.ttl_s: must be a number" in str(told.value)
    assert "unknown key 'categoris'" in str(told.value)
    assert "no provider 'jria'" in str(told.value)


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
    ("mode", "more", "missing"),
    [
        ("APP", "", "set app_id, app_link and private_key"),
        ("CUSTOM", "installation_token_url: https://forge.example.com/i", "set client_id and client_secret"),
        ("OAUTH1", "request_url: https://forge.example.com/r", "set client_id and client_secret"),
        ("INSTALL_PLUGIN", "", "set client_id and client_secret"),
    ],
)
def test_an_integration_without_what_its_mode_needs_is_a_fault(
    tmp_path: Path, mode: str, more: str, missing: str
) -> None:
    (tmp_path / "forge.yaml").write_text(APP.format(mode=mode, more=more))
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"forge": {}}}}
    with pytest.raises(Faults, match=missing):
        gateway.create_app(configuration(catalog=[str(tmp_path)], environments=environments))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("private_key", "-----BEGIN PUBLIC KEY-----", "not a private key in PEM"),
        ("app_link", "x", "must be an address"),
    ],
)
def test_an_app_key_that_is_none_is_told_without_being_shown(key: str, value: str, problem: str) -> None:
    integrations = {"jira": {"client_id": "c", "client_secret": "s", key: value}}
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": integrations}}
    with pytest.raises(Faults, match=problem) as told:
        gateway.create_app(configuration(environments=environments))
    assert "PUBLIC" not in str(told.value)
