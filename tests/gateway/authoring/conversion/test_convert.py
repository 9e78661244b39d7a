"""Conversion of single fields: kept, expressed differently, or reported as lost."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.authoring.conversion.catalog_file import expand_entry
from gateway.authoring.conversion.convert import EntryConversion
from gateway.catalog.checks import ExternalNames
from gateway.catalog.folder import parse_provider
from gateway.integrations.declared import SCRIPTS, known_modes

BASE: Mapping[str, Any] = {
    "display_name": "Far",
    "categories": ["other"],
    "auth_mode": "OAUTH2",
    "authorization_url": "https://far.test/authorize",
    "token_url": "https://far.test/token",
    "proxy": {"base_url": "https://api.far.test"},
}


def convert(**fields: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the values of the converted entry, and (kind, field) of every note."""
    converting = EntryConversion(SCRIPTS)
    values = converting.values({**BASE, **fields})
    return values, [(note.kind, ".".join(map(str, note.place))) for note in converting.notes.all]


def loads(values: Mapping[str, Any]) -> bool:
    return parse_provider("far", values, ExternalNames(known_modes(), SCRIPTS))[0] is not None


@pytest.mark.parametrize(
    ("fields", "converted"),
    [
        ({"token_params": {"a": 1, "b": True}}, {"token_params": {"a": "1", "b": "true"}}),
        ({"authorization_method": "header"}, {"token_request_auth_method": "basic"}),
        ({"post_connection_script": "jiraPostConnection"}, {"post_connection_script": "jira_post_connection"}),
        ({"token_expires_in_ms": 90_000}, {"token_ttl": 90}),
        ({"token_expiration_buffer": "60"}, {"token_expiration_buffer": 60}),
        ({"disable_pkce": "true"}, {"disable_pkce": True}),
        (
            {"token_response": {"token": "a.b", "token_expiration": "c", "token_expiration_strategy": "expireAt"}},
            {"token_response": {"token_path": "a.b", "expiry_path": "c", "expiry_kind": "timestamp"}},
        ),
        ({"default_scopes": "one"}, {"default_scopes": ["one"]}),
        (
            {"token_url": "https://${connectionConfig.a}.far.test/t || https://far.test/t"},
            {
                "token_url": "https://far.test/t",
                "alternatives": {"token_url": ["https://${connectionConfig.a}.far.test/t"]},
            },
        ),
    ],
)
def test_supported_field_is_converted(fields: dict[str, Any], converted: dict[str, Any]) -> None:
    values, notes = convert(**fields)
    assert converted.items() <= values.items()
    assert "lost" not in {kind for kind, _ in notes}
    assert loads(values)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"webhook_routing_script": "farWebhookRouting"}, "webhook_routing_script"),
        ({"authorization_url_skip_encode": ["scopes"]}, "authorization_url_skip_encode"),
        ({"installation": "outbound"}, "installation"),
        ({"token_expires_in_ms": "1h"}, "token_expires_in_ms"),
        ({"docs": "see the wiki"}, "docs"),
        ({"token": {"header": {"alg": "RS256"}}}, "token"),
    ],
)
def test_unsupported_field_is_reported_and_the_rest_is_kept(fields: dict[str, Any], field: str) -> None:
    values, notes = convert(**fields)
    assert ("lost", field) in notes
    assert loads(values)


def test_a_signed_token_becomes_our_jwt() -> None:
    token = {"signing_key": "${credentials.secret}", "expires_in_ms": 300_000, "header": {"alg": "HS256"},
             "payload": {"iss": "${credentials.id}", "iat": 1}}  # fmt: skip
    forms = {"id": {"type": "string"}, "secret": {"secret": "true"}}
    values, _ = convert(auth_mode="JWT", token=token, credentials=forms, authorization_url=None, token_url=None)
    assert values["jwt"] == {
        "key": "${credentials.secret}",
        "lifetime_s": 300,
        "header": {"alg": "HS256"},
        "claims": {"iss": "${credentials.id}"},
        "key_encoding": "hex",
    }
    assert loads(values)


def test_further_steps_keep_their_order_and_their_nested_bodies() -> None:
    steps = [
        {"token_url": "https://far.test/2", "token_params": {"a": {"b": "${step1.x}"}}},
        {"token_url": "https://far.test/3", "token_params": {"c": "${step2.y}"}, "token_request_method": "PUT"},
    ]
    values, _ = convert(auth_mode="TWO_STEP", additional_steps=steps, authorization_url=None)
    assert values["additional_steps"] == [
        {"url": "https://far.test/2", "body": {"a": {"b": "${step1.x}"}}},
        {"body_format": "json", "url": "https://far.test/3", "params": {"c": "${step2.y}"}, "method": "PUT"},
    ]
    assert values["body_format"] == "json"  # the other format's default
    assert loads(values)


def test_two_grants_have_two_token_urls() -> None:
    urls = {"OAUTH2": "https://far.test/user", "APP": "https://far.test/app/${connectionConfig.installation_id}"}
    values, _ = convert(auth_mode="CUSTOM", token_url=urls)
    assert (values["token_url"], values["installation_token_url"]) == (urls["OAUTH2"], urls["APP"])
    assert loads(values)


@pytest.mark.parametrize(
    ("base_url", "setting", "expected"),
    [
        ("https://${connectionConfig.x}", {}, "hostname"),
        ("https://${connectionConfig.x}.far.test", {}, None),
        ("https://${connectionConfig.x}.far.test", {"example": "a.b"}, "hostname"),
        ("${connectionConfig.x}/api", {"example": "https://a.test"}, "uri"),
    ],
)
def test_a_setting_that_becomes_a_host_gets_the_format_for_it(
    base_url: str, setting: dict[str, Any], expected: str | None
) -> None:
    values, _ = convert(proxy={"base_url": base_url}, connection_config={"x": setting})
    assert values["connection_config"]["x"].get("format") == expected
    assert loads(values)


def test_placeholder_with_a_fallback_gets_a_default() -> None:
    values, notes = convert(proxy={"base_url": "https://${connectionConfig.region || 'us'}.far.test"})
    assert values["proxy"]["base_url"] == "https://${connectionConfig.region}.far.test"
    assert values["connection_config"]["region"]["default_value"] == "us"
    assert "lost" not in {kind for kind, _ in notes}


def test_two_values_for_one_field_are_reported_as_lost() -> None:
    header = {"x-team": "${connectionConfig.team} || ${connectionConfig.group}"}
    values, notes = convert(proxy={"base_url": "https://api.far.test", "headers": header})
    assert values["proxy"]["headers"] == {"x-team": "${connectionConfig.team}"}
    assert ("lost", "proxy.headers.x-team") in notes


def test_missing_base_url_becomes_the_origin_of_the_token_url() -> None:
    values, notes = convert(proxy=None)
    assert values["proxy"] == {"base_url": "https://far.test"}
    assert ("changed", "proxy") in notes


def test_an_alias_replaces_whole_fields_and_follows_a_chain() -> None:
    entries = {
        "a": {"x": {"one": 1, "two": 2}, "y": 1},
        "b": {"alias": "a", "x": {"one": 3}},
        "c": {"alias": "b", "z": 5},
    }
    whole = expand_entry("c", entries)
    assert whole.values == {"x": {"one": 3}, "y": 1, "z": 5}
    assert whole.owner == {"x": "b", "y": "a", "z": "c"}
    assert expand_entry("m", {"m": {"<<": {"p": 1, "q": 1}, "q": 2}}).values == {"p": 1, "q": 2}
