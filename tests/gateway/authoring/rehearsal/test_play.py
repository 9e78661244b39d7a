"""A rehearsal of an entry passes if the gateway sends what the entry says.

If it sends anything else, the rehearsal fails and names the field of the entry.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.auth import basic, client_credentials, custom
from gateway.authoring.rehearsal.play import RehearsalReport, rehearse
from gateway.authoring.rehearsal.samples import NoSample
from gateway.catalog.checks import ExternalNames
from gateway.catalog.folder import parse_provider
from gateway.catalog.provider import Provider
from gateway.connections.verify import Verifier
from gateway.integrations.declared import SCRIPTS, known_modes
from gateway.oauth import token_requests as oauth_requests
from gateway.oauth.token_requests import authenticate

BASE = {"display_name": "Far", "categories": ["other"], "proxy": {"base_url": "https://api.far.test/v1"}}
OAUTH = {
    **BASE,
    "auth_mode": "OAUTH2",
    "authorization_url": "https://auth.far.test/authorize",
    "token_url": "https://auth.far.test/token",
}
INSTALLED = {
    "authorization_url": "${connectionConfig.appPublicLink}/installations/new",
    "token_headers": {"x-api-version": "1"},
    "connection_config": {
        "appPublicLink": {"automated": True, "optional": True, "format": "uri"},
        "installation_id": {"automated": True, "optional": True},
    },
}
INSTALLATION_URL = "https://api.far.test/app/installations/${connectionConfig.installation_id}/access_tokens"
ACCESS_URL = "https://api.far.test/user/installations/${connectionConfig.installation_id}/repositories?per_page=1"

ENTRIES: Mapping[str, dict[str, Any]] = {
    "API_KEY, 200 to a wrong key": {
        **BASE,
        "auth_mode": "API_KEY",
        "credentials": {"apiKey": {"description": "A key", "secret": True}},
        "proxy": {
            **BASE["proxy"],  # type: ignore[dict-item]
            "headers": {"x-key": "${apiKey}"},
            "verification": {"endpoints": ["/me"], "expect": {"success": True, "user.id": "*", "errors": "-"}},
        },
    },
    "OAUTH2, plain": OAUTH,
    "OAUTH2, bent": {
        **OAUTH,
        "authorization_url": "https://${connectionConfig.site}.far.test/oauth/authorize",
        "connection_config": {"site": {"description": "Your site.", "pattern": "[a-z]{4}", "example": "acme"}},
        "authorization_params": {"audience": "api", "owner": "${connectionConfig.site}"},
        "authorization_param_renames": {"client_id": "client_key", "scope": ""},
        "token_param_renames": {"client_id": "client_key", "code": "auth_code"},
        "token_params": {"kind": "offline"},
        "token_headers": {"x-client": "${clientId}"},
        "body_format": "json",
        "disable_pkce": True,
        "authorization_code_param_in_callback": "auth_code",
        "token_response": {"token_path": "data.token", "refresh_token_path": "data.refresh", "expiry_path": "data.ends",
                           "expiry_kind": "timestamp"},
        "token_response_metadata": ["shop.id"],
        "refresh_url": "https://auth.far.test/renew",
        "refresh_params": {"scope": "all"},
        "revocation_url": "https://auth.far.test/revoke",
        "revocation": {"param_renames": {"token": "bearer"}, "tokens": "refresh_token"},
        "proxy": {
            "base_url": "https://${connectionConfig.site}.far.test/api/${connectionConfig.shop.id}",
            "headers": {"x-token": "${accessToken}", "x-api": "2"},
            "paginate": {"type": "cursor", "cursor_path_in_response": "meta.next", "cursor_name_in_request": "after",
                         "response_path": "data.items", "limit_name_in_request": "size"},
            "verification": {"endpoints": ["/me"]},
        },
    },
    "OAUTH2, Basic": {**OAUTH, "token_request_auth_method": "basic", "scope_separator": ",", "issuer": "https://far.test"},
    "OAUTH2, a further step immediately": {
        **OAUTH,
        "state_in_redirect_uri": True,
        "token_params": {"state": "${callback.state}"},
        "additional_steps": [{"url": "https://auth.far.test/long", "method": "GET",
                              "params": {"secret": "${clientSecret}", "short": "${step1.access_token}"}}],
        "account": {"endpoint": "https://login.far.test/me", "id": "accountId", "settings": {"accountId": "accountId"}},
        "connection_config": {"accountId": {"automated": True}},
    },
    "OAUTH2, nested": {**OAUTH, "alternate_access_token_response_path": "authed_user", "body_format": "query"},
    "OAUTH2, client in the URL": {**OAUTH, "authorization_url": "https://auth.far.test/apps/${clientId}/authorize"},
    "OAUTH2, renewed by the access token": {
        **OAUTH,
        "refresh_url": "https://auth.far.test/renew",
        "refresh_params": {"grant_type": "own_refresh"},
        "refresh_param_renames": {"refresh_token": "access_token", "client_id": "", "client_secret": ""},
        "refresh": {"by_access_token": True, "method": "GET"},
        "redirect_uri_metadata": ["realm"],
        "connection_config": {"realm": {"pattern": "[0-9]+", "example": "1234567890", "automated": True}},
    },
    "OAUTH2, fragment": {**OAUTH, "authorization_url_fragment": "/consent"},
    "OAUTH2, Jira": {
        **OAUTH,
        "post_connection_script": "jira_post_connection",
        "connection_configuration": ["cloudId", "subdomain"],
        "proxy": {"base_url": "https://api.far.test", "headers": {"x-site": "${connectionConfig.cloudId}"}},
    },
    "OAUTH2_CC": {**BASE, "auth_mode": "OAUTH2_CC", "token_url": "https://far.test/token", "token_request_auth_method": "basic"},
    "OAUTH2_CC, by key": {
        **BASE, "auth_mode": "OAUTH2_CC", "token_url": "https://far.test/t", "token_request_auth_method": "private_key_jwt",
    },
    "OAUTH1": {
        **BASE,
        "auth_mode": "OAUTH1",
        "request_url": "https://far.test/oauth/request",
        "authorization_url": "https://far.test/oauth/authorize",
        "token_url": "https://far.test/oauth/token",
    },
    "API_KEY": {
        **BASE,
        "auth_mode": "API_KEY",
        "proxy": {
            "base_url": "https://api.far.test/v1",
            "headers": {"x-api-key": "${apiKey}", "x-request": "${random}"},
            "query": {"version": "3"},
            "paginate": {"type": "offset", "offset_name_in_request": "page", "offset_start_value": 1,
                         "offset_calculation_method": "per-page", "response_path": "rows", "limit_name_in_request": "n"},
            "verification": {"method": "POST", "endpoints": ["/whoami"], "data": {"a": "b"}, "headers": {"x-check": "1"}},
        },
    },
    "API_KEY, in the path": {
        **BASE, "auth_mode": "API_KEY", "proxy": {"base_url": "https://api.far.test/bot${apiKey}"},
    },
    "BASIC": {
        **BASE,
        "auth_mode": "BASIC",
        "proxy": {
            "base_url": "https://${connectionConfig.domain}/api",
            "verification": {"endpoints": ["/me"]},
            "paginate": {"type": "link", "link_path_in_response_body": "links.next", "response_path": "items"},
        },
        "connection_config": {"domain": {"format": "hostname", "description": "Yours."}},
    },
    "JWT": {
        **BASE,
        "auth_mode": "JWT",
        "credentials": {"issuer": {"description": "Who."}, "privateKey": {"secret": True}},
        "jwt": {"header": {"alg": "ES256"}, "claims": {"iss": "${credentials.issuer}"}, "key": "${credentials.privateKey}"},
    },
    "JWT, by secret": {
        **BASE,
        "auth_mode": "JWT",
        "credentials": {"secret": {"secret": True}},
        "jwt": {"header": {"alg": "HS256"}, "key": "${credentials.secret}", "key_encoding": "hex"},
    },
    "TWO_STEP": {
        **BASE,
        "auth_mode": "TWO_STEP",
        "credentials": {"email": {"format": "email", "description": "Yours."}, "password": {"secret": True}},
        "token_url": "https://far.test/login",
        "token_body": {"user": {"email": "${credentials.email}"}, "password": "${credentials.password}"},
        "additional_steps": [
            {"url": "https://far.test/session/${step1.session.id}", "params": {"ticket": "${step1.ticket}"},
             "headers": {"x-step": "2"}, "body_format": "json"},
        ],
    },
    "SIGNATURE": {
        **BASE,
        "auth_mode": "SIGNATURE",
        "signature": {"scheme": "wsse"},
        "proxy": {"base_url": "https://api.far.test", "headers": {"x-wsse": "${accessToken}"}},
    },
    "TBA": {
        **BASE,
        "auth_mode": "TBA",
        "connection_config": {"accountId": {"description": "The account.", "example": "123_SB1"}},
    },
    "BILL": {
        **BASE,
        "auth_mode": "BILL",
        "token_url": "https://far.test/login",
        "proxy": {
            "base_url": "https://api.far.test",
            "headers": {"sessionid": "${accessToken}", "devkey": "${credentials.dev_key}"},
        },
    },
    "AWS_SIGV4": {
        **BASE,
        "auth_mode": "AWS_SIGV4",
        "connection_config": {"region": {"description": "Where.", "example": "eu-central-1"}},
        "request_signing": {"scheme": "aws-sigv4", "region": "${connectionConfig.region}", "service": "sqs"},
    },
    "APP": {**BASE, "auth_mode": "APP", "token_url": INSTALLATION_URL, **INSTALLED},
    "CUSTOM": {
        **BASE,
        "auth_mode": "CUSTOM",
        "token_url": "https://far.test/login/token",
        "installation_token_url": INSTALLATION_URL,
        **INSTALLED,
    },
    "CUSTOM, access checked": {
        **BASE,
        "auth_mode": "CUSTOM",
        "token_url": "https://far.test/login/token",
        "installation_token_url": INSTALLATION_URL,
        "installation_access_url": ACCESS_URL,
        **INSTALLED,
    },
    "INSTALL_PLUGIN": {
        **BASE,
        "auth_mode": "INSTALL_PLUGIN",
        "redirect_uri_metadata": ["website_id"],
        "proxy": {"base_url": "https://api.far.test/website/${connectionConfig.website_id}"},
    },
    "MCP_OAUTH2": {**OAUTH, "auth_mode": "MCP_OAUTH2", "registration_url": "https://auth.far.test/register",
                   "client_registration": "dynamic"},
    "MCP_OAUTH2_GENERIC": {
        **BASE,
        "auth_mode": "MCP_OAUTH2_GENERIC",
        "connection_config": {"url": {"format": "uri", "description": "The server."}},
        "proxy": {"base_url": "${connectionConfig.url}"},
    },
    "NONE": {**BASE, "auth_mode": "NONE"},
}  # fmt: skip


def provider(entry: Mapping[str, Any]) -> Provider:
    found, faults = parse_provider("far", entry, ExternalNames(known_modes(), SCRIPTS))
    assert found is not None, faults
    return found


def failures(report: RehearsalReport) -> list[tuple[str, str, tuple[str | int, ...], str]]:
    return [
        (step.name, check.what, check.place, check.detail)
        for step in report.steps
        for check in step.checks
        if not check.ok
    ]


def step(report: RehearsalReport, name: str) -> Any:
    return next(item for item in report.steps if item.name == name)


def test_every_mode_has_a_test_entry() -> None:
    assert {entry["auth_mode"] for entry in ENTRIES.values()} >= known_modes() - {"extra"}


@pytest.mark.parametrize("name", ENTRIES)
async def test_correctly_applied_entry_passes(name: str) -> None:
    entry = provider(ENTRIES[name])
    found = await rehearse(entry, {})
    assert failures(found) == []
    assert [item.name for item in found.steps] == ["connect", "verification", "call", "refresh", "page", "revocation"]
    assert step(found, "call").checks or entry.auth_mode == "NONE"
    assert (step(found, "page").skipped is None) == (entry.proxy.paginate is not None)
    assert (step(found, "verification").skipped is None) == (entry.proxy.verification is not None)
    assert (step(found, "revocation").skipped is None) == (entry.revocation_url is not None)
    assert "real provider was not called" in found.unproved[0]


async def test_paths_placements_and_formats_are_those_of_the_entry() -> None:
    found = await rehearse(provider(ENTRIES["OAUTH2, bent"]), {})
    assert set(found.origins) >= {"https://acme.far.test", "https://auth.far.test"}
    authorization, exchange = step(found, "connect").sent[:2]
    assert authorization[0].startswith("GET /oauth/authorize?audience=api&owner=acme&")
    assert "client_key=" in authorization[0]
    assert exchange[0] == "POST /token"
    assert "Content-Type: application/json" in exchange
    assert step(found, "call").sent[0][0] == "GET /api/captured1/rehearsal/call"
    assert step(found, "refresh").sent[0][0] == "POST /renew"
    assert [request[0] for request in step(found, "page").sent] == [
        "GET /api/captured1/rehearsal/list?size=2",
        "GET /api/captured1/rehearsal/list?size=2&after=c2",
        "GET /api/captured1/rehearsal/list?size=2&after=c4",
    ]
    assert step(found, "revocation").sent[0][0] == "POST /revoke"


@pytest.mark.parametrize("name", ["OAUTH2, bent", "API_KEY", "API_KEY, in the path", "BASIC", "TWO_STEP", "BILL"])
async def test_a_rehearsal_shows_no_credential(name: str) -> None:
    entry = provider(ENTRIES[name])
    given = {
        "apiKey": "kkkk-1234567890",
        "password": "pppp-1234567890",
        "username": "ada",
        "dev_key": "dddd-1234567890",
    }
    found = await rehearse(entry, given)
    shown = "\n".join(line for item in found.steps for request in item.sent for line in request)
    shown += "\n".join(f"{check.what} {check.detail}" for item in found.steps for check in item.checks)
    assert "try-" not in shown
    assert not any(secret in shown for secret in given.values() if secret != "ada")


def _wrong_bearer_header(*_: Any, **__: Any) -> dict[str, str]:
    return {"authorization": "Bearer nothing"}


def _put_other_secret_in_body(client: Any, method: str | None, headers: dict[str, str], params: dict[str, str]) -> None:
    params |= {"client_id": client.client_id, "client_secret": "another"}


def _put_client_in_header(client: Any, method: str | None, headers: dict[str, str], params: dict[str, str]) -> None:
    authenticate(client, "basic", headers, params)


async def _accept_credential(*_: Any, **__: Any) -> None:
    """Accept every credential."""


MUTANTS: Mapping[str, tuple[str, Any, str, Any, tuple[str, tuple[str | int, ...]]]] = {
    "another Authorization": (
        "BASIC", basic.Basic, "default_headers", _wrong_bearer_header, ("call", ("auth_mode",)),
    ),
    "the client in the wrong place": (
        "OAUTH2_CC", oauth_requests, "authenticate", _put_other_secret_in_body, ("connect", ("token_request_auth_method",)),
    ),
    "credentials that nobody proves": (
        "API_KEY", Verifier, "verify", _accept_credential, ("verification", ("proxy", "verification")),
    ),
    "names of its own": (
        "OAUTH2, bent", oauth_requests, "rename_params", lambda params, _: dict(params),
        ("connect", ("token_params", "code")),
    ),
    "a client ID in the header only": (
        "MCP_OAUTH2_GENERIC", oauth_requests, "authenticate", _put_client_in_header, ("connect", ("token_request_auth_method",)),
    ),
    "an installation that nobody checks": (
        "CUSTOM, access checked", custom, "_check_access", lambda *_: iter(()), ("connect", ("installation_access_url",)),
    ),
    "another encoding": (
        "OAUTH2_CC", client_credentials, "client_credentials_request",
        lambda *given, **more: _as_json(oauth_requests.client_credentials_request(*given, **more)),
        ("connect", ("body_format",)),
    ),
}  # fmt: skip


def _as_json(call: Any) -> Any:
    from dataclasses import replace

    return replace(call, headers={**call.headers, "Content-Type": "application/json"}, body=b"{}")


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_gateway_that_deviates_from_the_entry_fails_the_rehearsal(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, where, attribute, instead, (failing, place) = MUTANTS[mutant]
    monkeypatch.setattr(where, attribute, instead)
    found = await rehearse(provider(ENTRIES[name]), {})
    assert not found.ok
    assert (failing, place) in [(step_name, at) for step_name, _, at, _ in failures(found)]


async def test_a_header_field_without_a_value_fails_the_rehearsal() -> None:
    entry = {
        **OAUTH,
        "connection_configuration": ["team"],
        "proxy": {"base_url": "https://api.far.test", "headers": {"x-team": "${connectionConfig.team}"}},
    }
    found = await rehearse(provider(entry), {})
    assert ("call", ("proxy", "headers", "x-team")) in [(name, at) for name, _, at, _ in failures(found)]


async def test_paging_that_cannot_continue_is_a_failure() -> None:
    # The entry names no parameter in which to send the cursor.
    broken = {"type": "cursor", "cursor_path_in_response": "next", "response_path": "items"}
    entry = {**ENTRIES["API_KEY"], "proxy": {**ENTRIES["API_KEY"]["proxy"], "paginate": broken}}
    found = await rehearse(provider(entry), {})
    assert ("page", ("proxy", "paginate")) in [(name, at) for name, _, at, _ in failures(found)]


async def test_setting_without_a_known_valid_value_is_requested() -> None:
    setting = {"description": "Odd.", "pattern": "zq[0-9]{3}-[a-f]{2}"}
    entry = {
        **ENTRIES["API_KEY"],
        "connection_config": {"odd": setting},
        "proxy": {"base_url": "https://api.far.test/${connectionConfig.odd}", "headers": {"x-key": "${apiKey}"}},
    }
    with pytest.raises(NoSample) as missing:
        await rehearse(provider(entry), {})
    assert missing.value.place == ("connection_config", "odd")
    assert "--set odd=VALUE" in str(missing.value)
    found = await rehearse(provider(entry), {"odd": "zq123-ab"})
    assert failures(found) == []
    assert step(found, "call").sent[0][0] == "GET /zq123-ab/rehearsal/call"
