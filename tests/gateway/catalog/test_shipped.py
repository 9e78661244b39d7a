"""The shipped entries: complete, without lint findings, and Jira's as published."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.folder import provider_json
from gateway.catalog.lint import lint
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.provider import Provider, json_schema
from gateway.catalog.render import carries_credential, render_text
from gateway.catalog.value import is_web_url
from tests.gateway.catalog.folders import SCRIPTS, SHIPPED

SCHEMA_LINE = "# yaml-language-server: $schema=./_schema.json\n"
NAMES = ["github", "google-mail", "hubspot", "jira", "openai", "sandbox", "slack", "twilio"]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def test_well_known_providers_are_in_the_catalog(catalog: Catalog) -> None:
    assert set(NAMES) <= set(catalog.providers)


EXPECTED = re.compile("has no verification|^sunset|has a default without a source")


def test_a_sunset_names_existing_entries_without_a_sunset(catalog: Catalog) -> None:
    ending = {name for name, provider in catalog.providers.items() if provider.sunset is not None}
    assert {"greenhouse-harvest", "greenhouse-basic", "udemy", "cal-com-v1", "medium"} <= ending
    for name in ending:
        sunset = catalog.providers[name].sunset
        assert sunset is not None
        assert set(sunset.replaced_by) <= set(catalog.providers) - ending
        assert catalog.provider_json(name, "https://gw.example.com")["sunset"]["source"] == sunset.source


def test_lint_reports_only_missing_credential_verification() -> None:
    found = lint([SHIPPED], scripts=SCRIPTS)
    assert [str(item) for item in found if not EXPECTED.search(item.message)] == []
    assert {item.level for item in found} <= {"warning"}


def test_more_than_1150_providers_in_every_auth_mode(catalog: Catalog) -> None:
    assert len(catalog.providers) >= 1150
    modes = Counter(row["auth_mode"] for row in provider_jsons(catalog))
    assert set(modes) == set(AUTH_MODES)
    assert modes["OAUTH2"] > 300


def provider_jsons(catalog: Catalog) -> list[dict[str, Any]]:
    return [catalog.provider_json(name, "https://gw.example.com") for name in catalog.providers]


def test_every_entry_has_the_required_fields_and_no_null(catalog: Catalog) -> None:
    for entry in provider_jsons(catalog):
        required = {"name", "display_name", "logo_url", "categories", "auth_mode", "proxy", "docs"}
        assert required <= set(entry)
        assert entry["proxy"]["base_url"].startswith(("https://", "${connectionConfig.", "http://127.0.0.1:3004"))
        assert entry["logo_url"] == f"https://gw.example.com/images/template-logos/{entry['name']}.svg"
        assert is_web_url(entry["docs"].replace("#/", "/").replace("#", "/")), entry["name"]
        assert ": null" not in json.dumps(entry)
        if entry["auth_mode"] == "OAUTH2":
            assert {"authorization_url", "token_url"} <= set(entry)
        if "connection_configuration" in entry:
            assert all(isinstance(setting, str) for setting in entry["connection_configuration"])


def test_an_entry_without_docs_links_to_the_guide(catalog: Catalog) -> None:
    assert "docs" not in json.loads(catalog.providers.contents["airlabs"])
    assert (
        catalog.provider_json("airlabs", "https://gw.example.com")["docs"]
        == "https://gw.example.com/providers/airlabs/guide"
    )


# These modes sign the whole request, or send no credential: no template names a place.
SIGNED = frozenset({"OAUTH1", "TBA", "AWS_SIGV4", "NONE"})
WITH_A_DEFAULT_PLACE = frozenset({"BASIC", "INSTALL_PLUGIN"})


def test_every_entry_has_a_place_for_the_credential(catalog: Catalog) -> None:
    for entry in provider_jsons(catalog):
        proxy = entry["proxy"]
        templates = [*proxy.get("headers", {}).values(), *proxy.get("query", {}).values(), proxy["base_url"]]
        if entry["auth_mode"] not in SIGNED | WITH_A_DEFAULT_PLACE:
            assert any(map(carries_credential, templates)), entry["name"]


def test_stored_entry_is_read_back_unchanged(catalog: Catalog) -> None:
    for name, content in catalog.providers.contents.items():
        assert provider_json(Provider.model_validate_json(content)) == content, name


def test_every_entry_has_evidence(catalog: Catalog) -> None:
    for entry in provider_jsons(catalog):
        if entry["name"] == "sandbox":
            continue
        assert entry["provenance"] in {"confirmed", "sourced", "unconfirmed"}, entry["name"]
        assert "review" not in entry
        assert entry["provenance"] == "unconfirmed" or entry["sources"], entry["name"]


def test_jira_has_the_published_urls(catalog: Catalog) -> None:
    jira = catalog.provider_json("jira", "")
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


def test_twilio_authenticates_with_http_basic(catalog: Catalog) -> None:
    template = catalog.providers["twilio"].proxy.headers["authorization"]
    assert render_text(template, {"username": "AC1", "password": "p"}) == "Basic QUMxOnA="


def test_the_sandbox_is_at_one_origin_that_a_copy_can_replace() -> None:
    text = (SHIPPED / "sandbox.yaml").read_text(encoding="utf-8")
    with_url = [line for line in text.splitlines() if "http://" in line]
    assert len(with_url) == 7
    assert all("http://127.0.0.1:3004" in line for line in with_url)


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
