"""The entries that ship: complete, without a complaint from lint, and true to the requirement's example."""

import json

import pytest

from gateway.catalog.interpolate import render_text
from gateway.catalog.lint import lint
from gateway.catalog.load import Catalog, load_catalog
from gateway.catalog.names import carries_credential
from gateway.catalog.schema import json_schema
from tests.gateway.catalog.folders import SCRIPTS, SHIPPED

SCHEMA_LINE = "# yaml-language-server: $schema=./_schema.json\n"
NAMES = ["github", "google-mail", "hubspot", "jira", "openai", "sandbox", "slack", "twilio"]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def test_the_first_eight_are_there(catalog: Catalog) -> None:
    assert set(NAMES) <= set(catalog.providers)


def test_lint_has_nothing_to_say() -> None:
    assert [str(found) for found in lint([SHIPPED], scripts=SCRIPTS)] == []


def test_every_entry_has_the_fields_of_the_requirement_and_no_null(catalog: Catalog) -> None:
    for name in catalog.providers:
        shown = catalog.shown(name, "https://gw.example.com")
        required = {"name", "display_name", "logo_url", "categories", "auth_mode", "proxy", "docs"}
        assert required <= set(shown)
        assert shown["name"] == name
        assert shown["proxy"]["base_url"].startswith("http")
        assert "null" not in json.dumps(shown)
        if shown["auth_mode"] == "OAUTH2":
            assert {"authorization_url", "token_url"} <= set(shown)
        if "connection_configuration" in shown:
            assert all(isinstance(setting, str) for setting in shown["connection_configuration"])


def test_every_credential_has_a_slot(catalog: Catalog) -> None:
    for provider in catalog.providers.values():
        assert carries_credential(provider.proxy.headers["authorization"]), provider.name


def test_jira_says_what_the_requirement_says(catalog: Catalog) -> None:
    jira = catalog.shown("jira", "")
    assert jira["auth_mode"] == "OAUTH2"
    assert jira["authorization_url"] == "https://auth.atlassian.com/authorize"
    assert jira["token_url"] == "https://auth.atlassian.com/oauth/token"
    assert jira["post_connection_script"] == "jira_post_connection"
    assert jira["webhook_routing_script"] == "jira_webhook_routing"
    assert {"cloudId", "subdomain"} <= set(jira["connection_configuration"])
    assert jira["default_scopes"] == ["offline_access"]
    assert jira["proxy"]["base_url"] == "https://api.atlassian.com"
    assert jira["proxy"]["paginate"] == {
        "type": "cursor",
        "cursor_path_in_response": "nextPageToken",
        "limit_name_in_request": "maxResults",
        "cursor_name_in_request": "nextPageToken",
        "response_path": "issues",
    }
    assert jira["refresh"]["expires_after_days_unused"] == 365
    assert jira["refresh"]["expires_after_days_owner_inactive"] == 90
    scopes = {f"{what}:jira-{which}" for what, which in [("read", "user"), ("read", "work"), ("write", "work")]}
    scopes |= {"delete:jira-work", "manage:jira-project", "manage:jira-configuration", "offline_access"}
    assert scopes <= set(jira["available_scopes"])


def test_twilio_proves_itself_by_http_basic(catalog: Catalog) -> None:
    template = catalog.providers["twilio"].proxy.headers["authorization"]
    assert render_text(template, {"username": "AC1", "password": "p"}) == "Basic QUMxOnA="


def test_the_sandbox_is_at_one_address_that_a_copy_can_replace() -> None:
    text = (SHIPPED / "sandbox.yaml").read_text(encoding="utf-8")
    addresses = [line for line in text.splitlines() if "http://" in line]
    assert len(addresses) == 4
    assert all("http://127.0.0.1:3004" in line for line in addresses)


def test_every_file_names_the_schema_for_editors() -> None:
    for path in SHIPPED.glob("*.yaml"):
        assert path.read_text(encoding="utf-8").startswith(SCHEMA_LINE), path.name


def test_the_schema_describes_every_field() -> None:
    schema = json_schema()
    shapes = [schema, *schema["$defs"].values()]
    for shape in shapes:
        for name, field in shape["properties"].items():
            assert field.get("description"), name
    assert "name" not in schema["then"]["required"]
