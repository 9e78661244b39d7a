"""Additional fields that an entry's `credentials` declare, such as a signing secret."""

import hashlib
import hmac
import json
from typing import Any

import pytest
import yaml
from aiohttp import web

from gateway.authoring.rehearsal.play import rehearse
from gateway.catalog.checks import ExternalNames
from gateway.catalog.folder import parse_provider
from gateway.integrations.declared import SCRIPTS, known_modes
from tests.fakes.commands import command_output
from tests.fakes.gateways import RunningGateway
from tests.fakes.pages import BROWSER, submit
from tests.journeys.modes.conftest import FakeProvider, import_connection, only_id, read
from tests.journeys.modes.test_posted import post

SECRET = "signing-secret-0123456789"
EXTRA = {"apiSecret": {"title": "Secret", "description": "Beside the key.", "secret": True, "pattern": "[a-z0-9-]{8,}"}}


def declared_fields(*names: str) -> dict[str, Any]:
    return {name: {"title": name, "secret": True} for name in names}


LOGIN = {"username": "ada", "password": "pw-1"}
AWS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s"}
# Auth mode ▸ the catalog entry, the typed-in fields, and the endpoint to which published clients post the fields.
MODES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "API_KEY": ({"credentials": declared_fields("apiKey")}, {"apiKey": "k-1"}, "/api-auth/api-key"),
    "BASIC": ({"credentials": declared_fields("username", "password")}, LOGIN, "/api-auth/basic"),
    "SIGNATURE": ({"signature": {"scheme": "wsse"}}, LOGIN, "/auth/signature"),
    "BILL": (
        {"token_url": "{far}/token", "token_params": {"secret": "${apiSecret}"}},
        {**LOGIN, "organization_id": "o", "dev_key": "d"},
        "/auth/bill",
    ),
    "TBA": (
        {"connection_config": {"accountId": {"optional": True}}},
        {"token_id": "i", "token_secret": "s"},
        "/auth/tba",
    ),
    "AWS_SIGV4": (
        {"request_signing": {"scheme": "aws-sigv4", "region": "eu-west-1", "service": "sqs"}},
        AWS,
        "/auth/aws-sigv4",
    ),
    "OAUTH2_CC": (
        {"token_url": "{far}/token", "token_params": {"secret": "${apiSecret}"}},
        {"client_id": "c", "client_secret": "s"},
        "/oauth2/auth",
    ),
    "TWO_STEP": (
        {
            "credentials": declared_fields("user"),
            "token_url": "{far}/token",
            "token_params": {"secret": "${apiSecret}"},
        },
        {"user": "ada"},
        "/auth/two-step",
    ),
    "JWT": (
        {"credentials": declared_fields("key"), "jwt": {"header": {"alg": "HS256"}, "key": "${credentials.key}"}},
        {"key": "0123456789abcdef0123456789abcdef"},
        "/auth/jwt",
    ),
}
SETTINGS = {"TBA": {"accountId": "7"}}
QUERY = {"TBA": "&params[accountId]=7"}
CLIENT = {"TBA": {"client_id": "consumer", "client_secret": "consumer secret"}}


def entry_of(mode: str, fake_provider: FakeProvider) -> dict[str, Any]:
    entry = json.loads(json.dumps(MODES[mode][0]).replace("{far}", fake_provider.url))
    headers = {"x-signature": "${hmacSha256Hex(${method}${path}, ${apiSecret})}", "x-plain": "${credentials.apiSecret}"}
    if mode == "API_KEY":
        headers["x-key"] = "${apiKey}"
    return {
        **entry,
        "auth_mode": mode,
        "credentials": {**entry.get("credentials", {}), **EXTRA},
        "proxy": {"headers": headers},
    }


def record_calls(fake_provider: FakeProvider) -> list[dict[str, str]]:
    """Record the header fields of the calls, the newest last."""
    seen: list[dict[str, str]] = []

    async def api(request: web.Request) -> web.Response:
        seen.append({name.lower(): text for name, text in request.headers.items()})
        return web.json_response({})

    async def token(request: web.Request) -> web.Response:
        assert (await request.post())["secret"] == SECRET
        return web.json_response({"access_token": "t-1", "sessionId": "s-1", "expires_in": 600})

    fake_provider.on("/api", api)
    fake_provider.on("/token", token)
    return seen


def signature(path: str) -> str:
    return hmac.new(SECRET.encode(), f"GET{path}".encode(), hashlib.sha256).hexdigest()


async def assert_signed(gateway: RunningGateway, seen: list[dict[str, str]], connection_id: str = "c1") -> None:
    async with gateway.call_proxy(connection_id, "/orders") as response:
        assert response.status == 200, await response.text()
    assert seen[-1]["x-signature"] == signature("/api/orders")
    assert seen[-1]["x-plain"] == SECRET
    async with gateway.call_proxy(connection_id, "/orders", headers={"Gateway-Dry-Run": "true"}) as response:
        assert response.status == 200
        text = await response.text()
    assert SECRET not in text
    assert signature("/api/orders") not in text


@pytest.mark.parametrize("mode", MODES)
async def test_a_declared_field_is_imported_shown_signed_with_and_masked(
    mode: str, fake_provider: FakeProvider, start: Any
) -> None:
    seen = record_calls(fake_provider)
    gateway = await start(CLIENT.get(mode), **entry_of(mode, fake_provider))
    typed = {"type": mode, **MODES[mode][1]}
    refused = await import_connection(gateway, credentials=typed, expect=400)
    assert "'apiSecret' (Secret) is missing" in refused["error"]["message"]
    refused = await import_connection(gateway, credentials={**typed, "apiSecret": "short"}, expect=400)
    assert "'apiSecret'" in refused["error"]["message"]
    refused = await import_connection(gateway, credentials={**typed, "apiSecret": SECRET, "other": "x"}, expect=400)
    assert "'other' is not a field" in refused["error"]["message"]
    await import_connection(
        gateway, credentials={**typed, "apiSecret": SECRET}, connection_config=SETTINGS.get(mode, {})
    )
    assert (await read(gateway))["credentials"]["apiSecret"] == SECRET
    await assert_signed(gateway, seen)
    await gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    status, response = await post(
        gateway, MODES[mode][2], {**MODES[mode][1], "apiSecret": SECRET}, query=QUERY.get(mode, "")
    )
    assert status == 200, response
    await assert_signed(gateway, seen, await only_id(gateway))


async def test_the_connect_page_asks_for_a_declared_field(fake_provider: FakeProvider, start: Any) -> None:
    seen = record_calls(fake_provider)
    gateway = await start(**entry_of("API_KEY", fake_provider))
    token = await gateway.session_token()
    async with gateway.http.get(f"{gateway.url}/connect?session_token={token}", headers=BROWSER) as response:
        url, html = f"{response.url}/i/tracker", await response.text()
        assert response.status == 200, html
    assert 'name="credentials[apiSecret]"' in html
    assert html.count('type="password"') == 2
    form = {"credentials[apiKey]": "k-1", "credentials[apiSecret]": "short"}
    await submit(gateway.http, url, form)
    assert (await gateway.json("GET", "/connections"))["connections"] == []
    response = await submit(gateway.http, url, form | {"credentials[apiSecret]": SECRET})
    assert response.status == 200, await response.text()
    await assert_signed(gateway, seen, await only_id(gateway))


async def test_a_declared_field_survives_an_export_and_an_import(fake_provider: FakeProvider, start: Any) -> None:
    seen = record_calls(fake_provider)
    gateway = await start(**entry_of("API_KEY", fake_provider))
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "k-1", "apiSecret": SECRET})
    file, lines = gateway.folder / "gateway.yaml", gateway.folder / "connections.jsonl"
    file.write_text(yaml.safe_dump(gateway.document))
    exported = await command_output("connections", "export", "-c", str(file), "--plain", "-o", str(lines))
    assert exported.code == 0, exported.err
    assert SECRET in lines.read_text()
    await gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    moved = await command_output("connections", "import", "-c", str(file), str(lines))
    assert moved.code == 0, moved.err + moved.out
    await assert_signed(gateway, seen)


@pytest.mark.parametrize("mode", MODES)
async def test_a_rehearsal_fills_a_declared_field(mode: str, fake_provider: FakeProvider) -> None:
    entry = entry_of(mode, fake_provider)
    whole = {"display_name": "Far", "categories": ["other"], **entry}
    whole["proxy"] = {"base_url": "https://api.far.test", **entry["proxy"]}
    text = json.dumps(whole).replace(fake_provider.url, "https://auth.far.test")
    provider, faults = parse_provider("far", json.loads(text), ExternalNames(known_modes(), SCRIPTS))
    assert provider is not None, faults
    found = await rehearse(provider, {})
    wrong = [(step.name, check.what, check.detail) for step in found.steps for check in step.checks if not check.ok]
    assert wrong == []
