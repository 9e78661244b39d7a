"""The fields that each auth mode needs in an entry, and the names that its templates may use."""

from pathlib import Path
from textwrap import dedent

import pytest

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider, json_schema
from tests.gateway.catalog.test_folder import faults

SIGN_IN = dedent("""\
    display_name: Reports
    categories: [analytics]
    auth_mode: TWO_STEP
    token_url: https://api.example.com/login
    token_params: {user: "${credentials.user}", assertion: "${jwt}", kind: "${assertionOption.kind}"}
    token_body: {auth: {password: "${credentials.password}"}}
    jwt: {header: {alg: RS256}, claims: {scope: ["${connectionConfig.scope}"]}, key: "${credentials.key}"}
    additional_steps:
      - url: https://api.example.com/accounts/${step1.account.id}/session
        params: {token: "${step1.token}"}
        headers: {x-token: "${step1.token}"}
      - {url: "https://api.example.com/session", body: {session: "${step2.session}"}}
    token_response: {token_path: data.token, expiry_path: data.until, expiry_kind: timestamp}
    connection_config: {scope: {optional: true}}
    credentials: {user: {}, password: {secret: true}, key: {secret: true}}
    assertion_option: {kind: {}}
    proxy: {base_url: "https://api.example.com", headers: {authorization: "Bearer ${accessToken}"}}
""")
KEY = dedent("""\
    display_name: Signed
    categories: [other]
    auth_mode: BASIC
    proxy:
      base_url: https://api.example.com
      headers: {x-signature: "${hmacSha1Hex(${method}${endpoint}, ${password})}", x-user: "${username}"}
""")
GRANT = dedent("""\
    display_name: Regional
    categories: [other]
    auth_mode: OAUTH2
    authorization_url: https://app.example.com/authorize
    token_url: https://api.example.com/token
    connection_config: {region: {enum: [eu, us], optional: true}}
    alternatives: {token_url: ["https://api.${connectionConfig.region}.example.com/token"]}
    revocation_url: https://api.example.com/apps/${clientId}/token
    revocation: {method: DELETE, auth_method: basic, body_format: json, param_renames: {token: access_token}}
    proxy: {base_url: "https://api.example.com"}
""")


@pytest.mark.parametrize("entry", [SIGN_IN, KEY, GRANT])
def test_entry_with_many_fields_has_no_faults(tmp_path: Path, entry: str) -> None:
    assert faults(tmp_path, entry) == []


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (SIGN_IN.replace("token_url", "refresh_url"), "1: token_url is missing; auth_mode TWO_STEP needs it"),
        (
            SIGN_IN.replace("${step1.account.id}", "${step2.id}"),
            "9: ${step2.id} is not known here; the token request is",
        ),
        (SIGN_IN.replace("${credentials.user}", "${step1.user}", 1), "5: ${step1.user} is not known here"),
        (
            SIGN_IN.replace("{kind: {}}", "{}"),
            "5: ${assertionOption.kind} has no field; add 'kind' to assertion_option",
        ),
        (SIGN_IN.replace("user: {}, ", ""), "5: ${credentials.user} is not available in auth_mode TWO_STEP"),
        (SIGN_IN.replace("x-token", "host"), "11: host cannot be set by an entry"),
        (SIGN_IN.replace("{scope: {optional: true}}", "{}"), "7: ${connectionConfig.scope} has no setting"),
        (SIGN_IN.replace("timestamp", "until"), "13: token_response.expiry_kind must be 'duration' or 'timestamp'"),
        (SIGN_IN.replace("${step2.session}", "${step12.x}"), "12: additional_steps[1].body.session: '${step12.x}'"),
        (KEY.replace("https://api", "https://${host}"), "5: ${host} is only available for proxied requests"),
        (KEY.replace("BASIC", "SIGNATURE"), "1: signature is missing; auth_mode SIGNATURE needs it"),
        (KEY.replace("BASIC", "AWS_SIGV4"), "1: request_signing is missing; auth_mode AWS_SIGV4 needs it"),
        (KEY.replace("BASIC", "OAUTH1"), "1: request_url is missing; auth_mode OAUTH1 needs it"),
        (
            KEY.replace("${username}", "${credentials.organization_id}"),
            "6: ${credentials.organization_id} is not available",
        ),
        (
            GRANT.replace("{token_url: [", "{tokenurl: ["),
            "7: there is no URL field 'tokenurl'; use one of authorization_url, ",
        ),
        (GRANT.replace("{token_url: [", "{refresh_url: ["), "7: refresh_url itself is missing; alternatives need it"),
        (GRANT.replace('.example.com/token"]', '.example.com/to ken"]'), "7: alternatives.token_url[0]: ' ' is not"),
        (
            GRANT + "token_request_auth_method: private_key_jwt\n",
            "11: auth_mode OAUTH2 does not support private_key_jwt; it supports basic, body, custom, none",
        ),
        (
            GRANT.replace("OAUTH2", "MCP_OAUTH2") + "token_request_auth_method: custom\n",
            "11: auth_mode MCP_OAUTH2 does not support custom; it supports basic, body, none",
        ),
        (GRANT.replace("DELETE", "PURGE"), "9: revocation.method must be 'POST', 'DELETE' or 'GET'"),
    ],
)
def test_field_of_another_auth_mode_is_a_fault(tmp_path: Path, entry: str, result: str) -> None:
    found = faults(tmp_path, entry)
    assert any(fault.startswith(result) for fault in found), found


@pytest.mark.parametrize("name", AUTH_MODES)
def test_fields_of_a_mode_are_fields_of_entries(name: str) -> None:
    mode = AUTH_MODES[name]
    assert {*mode.required_fields, *mode.optional_fields} <= set(Provider.model_fields)
    assert mode.summary.endswith(".")


def test_json_schema_requires_the_fields_of_a_mode_unless_the_entry_inherits() -> None:
    schema = json_schema()
    rules = {
        rule["if"]["properties"]["auth_mode"]["const"]: rule["then"]["required"] for rule in schema["then"]["allOf"]
    }
    assert rules["OAUTH1"] == ["authorization_url", "request_url", "token_url"]
    assert schema["if"] == {"not": {"required": ["alias"]}}
    assert "required" not in schema
