"""Every error code is provoked, and the advice of its message is followed: then the next call succeeds.

A code that occurs only elsewhere is listed in ELSEWHERE, with its test.
"""

import base64
import hmac
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pytest
import pytest_asyncio
from aiohttp import web
from sqlalchemy import text

from gateway.client import code_challenge, new_code_verifier
from gateway.errors import Code
from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import write_entry
from tests.fakes.pages import BROWSER, submit
from tests.gateway.errors.stage import ENTRY, HOOK_SECRET, Play, Stage, staged

ROOT = Path(__file__).parents[3]
PLAYS: dict[str, Play] = {}
# Code ▸ its test: codes in a trailer after status 200, with a provider of the test's own, or of agent sessions.
ELSEWHERE = {
    "ambiguous_connections": "tests/gateway/api/test_agent_sessions.py",
    "busy": "tests/gateway/proxy/test_attempts.py",
    "invalid_webhook_signature": "tests/gateway/events/test_receive.py",
    "next_page_refused": "tests/gateway/proxy/test_paged_breaks.py",
    "not_offered": "tests/gateway/api/test_agent_sessions.py",
    "page_failed": "tests/gateway/proxy/test_paged_breaks.py",
    "page_too_large": "tests/gateway/proxy/test_paged_breaks.py",
    "pinned_connection_not_matched": "tests/gateway/api/test_agent_sessions.py",
    "session_not_found": "tests/gateway/api/test_agent_sessions.py",
    "tool_not_in_toolset": "tests/gateway/api/test_agent_sessions.py",
    "unknown_integration": "tests/gateway/api/test_agent_sessions.py",
    "unknown_meta_tool": "tests/gateway/api/test_agent_sessions.py",
    "unknown_pinned_connection": "tests/gateway/api/test_agent_sessions.py",
    "unknown_tool": "tests/gateway/api/test_agent_sessions.py",
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with staged(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(autouse=True)
def reset_stage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reset the stage, since a test that fails before it has reset the stage must not affect the next one."""
    yield
    if "stage" in request.fixturenames:
        stage: Stage = request.getfixturevalue("stage")
        stage.tracker.response, stage.tracker.callback_extra = None, {}
        stage.gateway.runtime.serving = True


def produces(code: Code) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        assert code not in PLAYS
        PLAYS[code] = play
        return play

    return register


ONE = "/connections/c1?provider_config_key=keyed"
MODIFIED = {"Content-Type": "application/json"}


@produces("missing_auth_header")
async def produce_missing_auth_header(stage: Stage) -> None:
    await stage.refused("missing_auth_header", 401, "GET", "/integrations", headers={})
    await stage.call_successfully("GET", "/integrations")


@produces("malformed_auth_header")
async def produce_malformed_auth_header(stage: Stage) -> None:
    key = stage.gateway.headers["Authorization"].removeprefix("Bearer ")
    await stage.refused("malformed_auth_header", 401, "GET", "/integrations", headers={"Authorization": key})
    await stage.call_successfully("GET", "/integrations", headers={"Authorization": f"Bearer {key}"})


@produces("unknown_account")
async def produce_unknown_account(stage: Stage) -> None:
    wrong = {"Authorization": f"Bearer {secrets.token_hex(16)}"}
    result = await stage.refused("unknown_account", 401, "GET", "/integrations", headers=wrong)
    assert "environments.<name>.secret_keys" in result["message"]
    (key, *_) = stage.gateway.document["environments"]["dev"]["secret_keys"]
    await stage.call_successfully("GET", "/integrations", headers={"Authorization": f"Bearer {key}"})


@produces("invalid_connect_session_token_format")
async def produce_invalid_connect_session_token_format(stage: Stage) -> None:
    typed = "/api-auth/api-key/keyed?connect_session_token="
    await stage.refused(
        "invalid_connect_session_token_format", 401, "POST", f"{typed}x", headers={}, json={"apiKey": "k"}
    )
    token = await stage.gateway.session_token()
    await stage.call_successfully("POST", typed + token, headers={}, json={"apiKey": "k"})


@produces("unknown_connect_session_token")
async def produce_unknown_connect_session_token(stage: Stage) -> None:
    typed = "/api-auth/api-key/keyed?connect_session_token="
    unknown = "nango_connect_session_" + "0" * 64
    await stage.refused("unknown_connect_session_token", 401, "POST", typed + unknown, headers={}, json={"apiKey": "k"})
    await stage.call_successfully("POST", typed + await stage.gateway.session_token(), headers={}, json={"apiKey": "k"})


@produces("integration_not_allowed")
async def produce_integration_not_allowed(stage: Stage) -> None:
    typed = "/api-auth/api-key/keyed?connect_session_token="
    other = await stage.gateway.session_token(allowed_integrations=["tracker"])
    await stage.refused("integration_not_allowed", 400, "POST", typed + other, headers={}, json={"apiKey": "k"})
    right = await stage.gateway.session_token(allowed_integrations=["keyed"])
    await stage.call_successfully("POST", typed + right, headers={}, json={"apiKey": "k"})


@produces("connect_session_used")
async def produce_connect_session_used(stage: Stage) -> None:
    typed = "/api-auth/api-key/keyed?connect_session_token="
    once = await stage.gateway.session_token(max_connections=1)
    await stage.call_successfully("POST", typed + once, headers={}, json={"apiKey": "k"})
    body = await stage.refused("connect_session_used", 403, "POST", typed + once, headers={}, json={"apiKey": "k"})
    assert "new link" in body["message"]
    await stage.call_successfully("POST", typed + await stage.gateway.session_token(), headers={}, json={"apiKey": "k"})


@produces("connect_session_in_use")
async def produce_connect_session_in_use(stage: Stage) -> None:
    path = "/oauth/connect/tracker?connect_session_token="
    once = await stage.gateway.session_token(single_use=True)
    async with stage.gateway.http.get(stage.gateway.url + path + once, allow_redirects=False) as response:
        assert response.status == 302
    stage.gateway.http.cookie_jar.clear()  # as in another browser
    result = await stage.refused("connect_session_in_use", 403, "GET", path + once, headers={})
    assert "new link" in result["message"]


@produces("not_confirmed")
async def produce_not_confirmed(stage: Stage) -> None:
    gateway = stage.gateway
    async with gateway.http.get(
        f"{gateway.url}/connect?session_token={await gateway.session_token()}", headers=BROWSER
    ) as page:
        address = f"{str(page.url).partition('/i/')[0]}/i/tracker"
    async with gateway.http.post(address, data={}) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "not_confirmed")
    stage.seen.add("not_confirmed")
    assert (await submit(gateway.http, address)).status == 200


@produces("invalid_code_verifier")
async def produce_invalid_code_verifier(stage: Stage) -> None:
    verifier = new_code_verifier()
    body = {"end_user": {"id": "u1"}, "code_challenge": code_challenge(verifier)}
    session = (await stage.call_successfully("POST", "/connect/sessions", json=body))["data"]
    typed = f"/api-auth/api-key/keyed?connect_session_token={session['token']}"
    await stage.call_successfully("POST", typed, headers={}, json={"apiKey": "k"})
    path = session["poll_url"].removeprefix(stage.gateway.url) + "/complete"
    wrong = {"code_verifier": new_code_verifier()}
    await stage.refused("invalid_code_verifier", 403, "POST", path, json=wrong)
    await stage.call_successfully("POST", path, json={"code_verifier": verifier})


@produces("connection_id_required")
async def produce_connection_id_required(stage: Stage) -> None:
    verifier = new_code_verifier()
    request_body = {"end_user": {"id": "u1"}, "code_challenge": code_challenge(verifier)}
    session = (await stage.call_successfully("POST", "/connect/sessions", json=request_body))["data"]
    typed = f"/api-auth/api-key/keyed?connect_session_token={session['token']}"
    for _ in range(2):
        await stage.call_successfully("POST", typed, headers={}, json={"apiKey": "k"})
    path = session["poll_url"].removeprefix(stage.gateway.url) + "/complete"
    response = await stage.refused("connection_id_required", 409, "POST", path, json={"code_verifier": verifier})
    for item in response["payload"]["pending"]:
        body = {"code_verifier": verifier, "connection_id": item["connection_id"]}
        await stage.call_successfully("POST", path, json=body)


@produces("invalid_auth_mode")
async def produce_invalid_auth_mode(stage: Stage) -> None:
    token = await stage.gateway.session_token()
    wrong = f"/api-auth/basic/keyed?connect_session_token={token}"
    body = await stage.refused("invalid_auth_mode", 400, "POST", wrong, headers={}, json={"username": "u"})
    assert "API_KEY" in body["message"]
    await stage.call_successfully("POST", wrong.replace("basic", "api-key"), headers={}, json={"apiKey": "k"})


@produces("invalid_connection")
async def produce_invalid_connection(stage: Stage) -> None:
    bound = {"integration_id": "keyed", "connection_id": "gone"}
    defaults: dict[str, Any] = {"tags": {}, "defaults": {}, "overrides": {}}
    token, _ = await stage.gateway.runtime.sessions.open("dev", "", **bound, **defaults)
    typed = "/api-auth/api-key/keyed?connect_session_token="
    body = await stage.refused("invalid_connection", 400, "POST", typed + token, headers={}, json={"apiKey": "k"})
    assert "Connect again" in body["message"]
    await stage.call_successfully("POST", typed + await stage.gateway.session_token(), headers={}, json={"apiKey": "k"})


async def machine(stage: Stage, body: dict[str, str]) -> dict[str, Any]:
    token = await stage.gateway.session_token()
    return {"path": f"/oauth2/auth/machine?connect_session_token={token}", "headers": {}, "json": body}


GOOD = {"client_id": "i", "client_secret": "s"}


def token_response() -> web.Response:
    return web.json_response({"access_token": "a", "expires_in": 3600, "token_type": "Bearer"})


@produces("missing_client_id")
async def produce_missing_client_id(stage: Stage) -> None:
    stage.tracker.response = token_response()
    await stage.refused("missing_client_id", 400, "POST", **await machine(stage, {"client_secret": "s"}))
    await stage.call_successfully("POST", **await machine(stage, GOOD))
    stage.tracker.response = None


@produces("missing_client_secret")
async def produce_missing_client_secret(stage: Stage) -> None:
    stage.tracker.response = token_response()
    await stage.refused("missing_client_secret", 400, "POST", **await machine(stage, {"client_id": "i"}))
    await stage.call_successfully("POST", **await machine(stage, GOOD))
    stage.tracker.response = None


@produces("client_credentials_fetch_error")
async def produce_client_credentials_fetch_error(stage: Stage) -> None:
    stage.tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    await stage.refused("client_credentials_fetch_error", 400, "POST", **await machine(stage, GOOD))
    stage.tracker.response = token_response()  # with the client that the provider knows
    await stage.call_successfully("POST", **await machine(stage, GOOD))
    stage.tracker.response = None


@produces("bad_framing")
async def produce_bad_framing(stage: Stage) -> None:
    await stage.raw("POST /health HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 1", "bad_framing", 400)
    await stage.raw("GET /health HTTP/1.1\r\nContent-Length: 0")


@produces("bad_path")
async def produce_bad_path(stage: Stage) -> None:
    key = stage.gateway.headers["Authorization"]
    headers = f"Authorization: {key}\r\nProvider-Config-Key: keyed\r\nConnection-Id: c1"
    await stage.raw(f"GET /proxy/a/../b HTTP/1.1\r\n{headers}", "bad_path", 400)
    await stage.raw(f"GET /proxy/b HTTP/1.1\r\n{headers}")


@produces("headers_too_large")
async def produce_headers_too_large(stage: Stage) -> None:
    await stage.raw(f"GET /health HTTP/1.1\r\nX-Long: {'x' * 20_000}", "headers_too_large", 431)
    await stage.raw(f"GET /health HTTP/1.1\r\nX-Long: {'x' * 10_000}")


@produces("not_supported")
async def produce_not_supported(stage: Stage) -> None:
    await stage.raw("get /health HTTP/1.1", "not_supported", 501)
    await stage.raw("GET /health HTTP/1.1")  # in upper case, as the message says


@produces("method_not_allowed")
async def produce_method_not_allowed(stage: Stage) -> None:
    result = await stage.refused("method_not_allowed", 405, "PUT", "/integrations/tracker")
    allowed = result["message"].removesuffix(".").rpartition("only ")[2].split(", ")
    assert "GET" in allowed
    await stage.call_successfully("GET", "/integrations/tracker")


@produces("invalid_headers")
async def produce_invalid_headers(stage: Stage) -> None:
    half = {**stage.gateway.headers, "Provider-Config-Key": "keyed"}
    result = await stage.refused("invalid_headers", 400, "GET", "/proxy/x", headers=half)
    assert result["errors"][0]["path"] == ["connection-id"]
    await stage.call_successfully("GET", "/proxy/x", headers={**half, "Connection-Id": "c1"})


@produces("invalid_body")
async def produce_invalid_body(stage: Stage) -> None:
    response = await stage.refused("invalid_body", 400, "PATCH", ONE, json={"tgas": {}, "tags": {"a": "b"}})
    wrong = response["errors"][0]["path"][0]
    body = {name: value for name, value in {"tgas": {}, "tags": {"a": "b"}}.items() if name != wrong}
    await stage.call_successfully("PATCH", ONE, json=body)


@produces("invalid_json")
async def produce_invalid_json(stage: Stage) -> None:
    headers = {**stage.gateway.headers, **MODIFIED}
    await stage.refused("invalid_json", 400, "PATCH", ONE, data='{"tags": {}', headers=headers)
    await stage.call_successfully("PATCH", ONE, data='{"tags": {}}', headers=headers)


@produces("invalid_content_type")
async def produce_invalid_content_type(stage: Stage) -> None:
    plain = {**stage.gateway.headers, "Content-Type": "text/plain"}
    result = await stage.refused("invalid_content_type", 415, "PATCH", ONE, data="{}", headers=plain)
    kind = re.search(r"Content-Type: (\S+)'", result["message"])
    assert kind is not None
    await stage.call_successfully("PATCH", ONE, data="{}", headers={**plain, "Content-Type": kind[1]})


@produces("body_too_large")
async def produce_body_too_large(stage: Stage) -> None:
    def body(size: int) -> dict[str, Any]:
        metadata = {"connection_id": "c1", "provider_config_key": "keyed", "metadata": {"a": "x" * size}}
        return {"data": BytesIO(json.dumps(metadata).encode()), "headers": {**stage.gateway.headers, **MODIFIED}}

    await stage.refused("body_too_large", 413, "PATCH", "/connections/metadata", **body(1 << 20))
    await stage.call_successfully("PATCH", "/connections/metadata", **body(60_000))


@produces("invalid_query_params")
async def produce_invalid_query_params(stage: Stage) -> None:
    result = await stage.refused("invalid_query_params", 400, "GET", "/connections?limit=0")
    assert "from 1 to 2000" in result["message"]
    await stage.call_successfully("GET", "/connections?limit=1")


@produces("invalid_uri_params")
async def produce_invalid_uri_params(stage: Stage) -> None:
    await stage.refused("invalid_uri_params", 400, "GET", f"/integrations/{'x' * 256}")
    await stage.call_successfully("GET", "/integrations/tracker")


@produces("not_found")
async def produce_not_found(stage: Stage) -> None:
    result = await stage.refused("not_found", 404, "GET", "/providers/trakcer")
    assert "GET /providers?search=" in result["message"]
    found = await stage.call_successfully("GET", "/providers?search=tracker&limit=50")
    await stage.call_successfully(
        "GET", f"/providers/{next(item['name'] for item in found['data'] if item['name'] == 'tracker')}"
    )


@produces("unknown_provider_config")
async def produce_unknown_provider_config(stage: Stage) -> None:
    result = await stage.refused("unknown_provider_config", 404, "GET", "/proxy/x", **stage.on_behalf("keyd"))
    meant = re.search(r"Did you mean '(\w+)'", result["message"])
    assert meant is not None
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf(meant[1]))


@produces("unknown_connection")
async def produce_unknown_connection(stage: Stage) -> None:
    result = await stage.refused("unknown_connection", 404, "GET", "/proxy/x", **stage.on_behalf("keyed", "new"))
    assert "POST /connect/sessions" in result["message"]
    token = await stage.gateway.session_token()
    typed = f"/api-auth/api-key/keyed?connect_session_token={token}"
    made = await stage.call_successfully("POST", typed, headers={}, json={"apiKey": "k"})
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("keyed", made["connectionId"]))


@produces("unknown_provider_template")
async def produce_unknown_provider_template(stage: Stage) -> None:
    folder = stage.gateway.folder
    write_entry(folder, "passing", {**ENTRY, "proxy": {"base_url": "https://api.example.com"}})
    await stage.reload()
    await stage.call_successfully("POST", "/integrations", json={"provider": "passing", "unique_key": "passing"})
    entry = (folder / "catalog" / "passing.yaml").read_text()
    (folder / "catalog" / "passing.yaml").unlink()
    await stage.reload()
    credential = {"type": "API_KEY", "apiKey": "k"}
    body = {"provider_config_key": "passing", "credentials": credential}
    response = await stage.refused("unknown_provider_template", 404, "POST", "/connections", json=body)
    assert "Put its entry back" in response["message"]
    await stage.call_successfully("GET", "/integrations/passing")
    (folder / "catalog" / "passing.yaml").write_text(entry)
    await stage.reload()
    await stage.call_successfully("POST", "/connections", json=body)


@produces("conflict")
async def produce_conflict(stage: Stage) -> None:
    request_body = {"display_name": "Other"}
    body = await stage.refused("conflict", 409, "PATCH", "/integrations/keyed", json=request_body)
    assert body["payload"]["declared_at"] == "environments.dev.integrations.keyed"
    environments = stage.gateway.document["environments"]
    environments["dev"]["integrations"]["keyed"] |= request_body
    await stage.reload()
    assert (await stage.call_successfully("GET", "/integrations/keyed"))["data"]["display_name"] == "Other"


@produces("connection_validation_failed")
async def produce_connection_validation_failed(stage: Stage) -> None:
    grant = stage.tracker.grant()
    credential = {"type": "OAUTH2", "access_token": grant["access_token"]}
    body = {"provider_config_key": "tracker", "credentials": credential, "connection_config": {"subdomain": "nowhere"}}
    response = await stage.refused("connection_validation_failed", 400, "POST", "/connections", json=body)
    assert "acme" in response["message"]
    await stage.call_successfully("POST", "/connections", json={**body, "connection_config": {"subdomain": "acme"}})


@produces("connection_test_failed")
async def produce_connection_test_failed(stage: Stage) -> None:
    def body(token: str) -> dict[str, Any]:
        return {"provider_config_key": "tracker", "credentials": {"type": "OAUTH2", "access_token": token}}

    await stage.refused("connection_test_failed", 400, "POST", "/connections", json=body("stolen"))
    await stage.call_successfully("POST", "/connections", json=body(stage.tracker.grant()["access_token"]))


def webhook_options(signed: bytes | None, secret: str = HOOK_SECRET) -> dict[str, Any]:
    """Return the options of a webhook whose sender has signed that body; None: not signed."""
    headers = dict(MODIFIED)
    if signed is not None:
        headers["X-Hub-Signature"] = f"sha256={hmac.new(secret.encode(), signed, 'sha256').hexdigest()}"
    return {"headers": headers, "data": b'{"webhookEvent": "jira:issue_created"}'}


@produces("invalid_webhook_signature")
async def produce_invalid_webhook_signature(stage: Stage) -> None:
    signed = webhook_options(None)["data"]
    await stage.refused(
        "invalid_webhook_signature", 401, "POST", "/webhook/dev/hooked", **webhook_options(signed, "another")
    )
    await stage.call_successfully("POST", "/webhook/dev/hooked", **webhook_options(signed))


@produces("unresolved_setting")
async def produce_unresolved_setting(stage: Stage) -> None:
    credential = {"type": "API_KEY", "apiKey": "k"}
    body = {"provider_config_key": "regional", "connection_id": "c1", "credentials": credential}
    response = await stage.refused("unresolved_setting", 400, "POST", "/connections", json=body)
    assert "region" in response["message"]
    await stage.call_successfully("POST", "/connections", json={**body, "connection_config": {"region": "eu"}})
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("regional"))


async def new_authorization(stage: Stage) -> str:
    token = await stage.gateway.session_token()
    return f"/oauth/connect/tracker?connect_session_token={token}"


@produces("invalid_state")
async def produce_invalid_state(stage: Stage) -> None:
    await stage.refused("invalid_state", 400, "GET", "/oauth/callback?state=unknown&code=c", headers={})
    await stage.call_successfully("GET", await new_authorization(stage), headers={})


@produces("invalid_issuer")
async def produce_invalid_issuer(stage: Stage) -> None:
    stage.tracker.callback_extra = {"iss": "https://somebody-else.example"}
    await stage.refused("invalid_issuer", 400, "GET", await new_authorization(stage), headers={})
    stage.tracker.callback_extra = {}
    await stage.call_successfully("GET", await new_authorization(stage), headers={})


@produces("invalid_nonce")
async def produce_invalid_nonce(stage: Stage) -> None:
    claims = base64.urlsafe_b64encode(b'{"nonce": "of another authorization"}').decode().rstrip("=")
    stage.tracker.token_extra = {"id_token": f"e30.{claims}.c2ln"}
    began = f"{await new_authorization(stage)}&authorization_params[nonce]=of-this-one"
    await stage.refused("invalid_nonce", 400, "GET", began, headers={})
    stage.tracker.token_extra = {}
    await stage.call_successfully("GET", await new_authorization(stage), headers={})


@produces("authorization_refused")
async def produce_authorization_refused(stage: Stage) -> None:
    stage.tracker.callback_extra = {"error": "access_denied"}
    await stage.refused("authorization_refused", 400, "GET", await new_authorization(stage), headers={})
    stage.tracker.callback_extra = {}
    await stage.call_successfully("GET", await new_authorization(stage), headers={})


@produces("token_request_failed")
async def produce_token_request_failed(stage: Stage) -> None:
    stage.tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    await stage.refused("token_request_failed", 400, "GET", await new_authorization(stage), headers={})
    stage.tracker.response = None
    await stage.call_successfully("GET", await new_authorization(stage), headers={})


async def import_expired(stage: Stage, connection_id: str) -> None:
    grant = stage.tracker.grant()
    credential = {"type": "OAUTH2", "access_token": grant["access_token"], "refresh_token": grant["refresh_token"]}
    credential["expires_at"] = "2020-01-01T00:00:00Z"
    body = {"provider_config_key": "tracker", "connection_id": connection_id, "credentials": credential}
    await stage.call_successfully("POST", "/connections", json=body)


@produces("reconnect_needed")
async def produce_reconnect_needed(stage: Stage) -> None:
    await import_expired(stage, "dead")
    stage.tracker.grants[-1].revoked = True
    options = stage.on_behalf("tracker", "dead")
    await stage.refused("reconnect_needed", 424, "GET", "/proxy/x", **options)
    await stage.gateway.import_connection(stage.tracker.grant(), "dead")  # the result of authorizing again
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("tracker", "dead"))


@produces("token_endpoint_unavailable")
async def produce_token_endpoint_unavailable(stage: Stage) -> None:
    await import_expired(stage, "waiting")
    stage.tracker.response = web.Response(status=503)
    result = await stage.refused(
        "token_endpoint_unavailable", 503, "GET", "/proxy/x", **stage.on_behalf("tracker", "waiting")
    )
    assert result["payload"]["retry_at"]
    stage.tracker.response = None
    await stage.call_successfully("GET", "/connections/waiting?provider_config_key=tracker&force_refresh=true")
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("tracker", "waiting"))


@produces("address_refused")
async def produce_address_refused(stage: Stage) -> None:
    await stage.refused("address_refused", 400, "GET", "/proxy/x", **stage.on_behalf("barred"))
    allow = [*stage.gateway.document["egress"]["allow"], stage.gateway.document["x-closed"]]
    await stage.reload(egress={"allow": allow})
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("barred"))
    stage.gateway.document["egress"]["allow"] = allow


@produces("base_url_override_not_allowed")
async def produce_base_url_override_not_allowed(stage: Stage) -> None:
    header = {"Base-Url-Override": stage.tracker.url}
    result = await stage.refused(
        "base_url_override_not_allowed", 400, "GET", "/proxy/x", **stage.on_behalf("keyed", **header)
    )
    assert "allowed_origins" in result["message"]
    declared = stage.gateway.document["environments"]["dev"]["integrations"]["keyed"]
    declared["allowed_origins"] = [stage.tracker.url]
    await stage.reload()
    response = await stage.gateway.http.get(f"{stage.gateway.url}/proxy/x", **stage.on_behalf("keyed", **header))
    assert (response.status, "Gateway-Error" in response.headers) == (
        403,
        False,
    )  # the provider's own answer: the call reached the provider
    response.close()


@produces("upstream_unreachable")
async def produce_upstream_unreachable(stage: Stage) -> None:
    await stage.refused("upstream_unreachable", 502, "GET", "/proxy/x", **stage.on_behalf("absent"))
    await stage.refused("upstream_unreachable", 502, "POST", "/proxy/hangs-up", **stage.on_behalf("keyed"))
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("keyed"))


@produces("upstream_tls")
async def produce_upstream_tls(stage: Stage) -> None:
    await stage.refused("upstream_tls", 502, "GET", "/proxy/x", **stage.on_behalf("secure"))


@produces("upstream_protocol")
async def produce_upstream_protocol(stage: Stage) -> None:
    await stage.refused("upstream_protocol", 502, "GET", "/proxy/garbage", **stage.on_behalf("keyed"))
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("keyed"))


@produces("upstream_timeout")
async def produce_upstream_timeout(stage: Stage) -> None:
    hasty = stage.on_behalf("keyed", **{"Gateway-Timeout": "0.1"})
    await stage.refused("upstream_timeout", 504, "GET", "/proxy/slow", **hasty)
    await stage.call_successfully("GET", "/proxy/x", **stage.on_behalf("keyed"))


@produces("page_unreadable")
async def produce_page_unreadable(stage: Stage) -> None:
    paginate = "all; type=cursor; cursor_path_in_response=next; cursor_name_in_request=after"
    whole = stage.on_behalf("keyed", **{"Gateway-Paginate": paginate})
    result = await stage.refused("page_unreadable", 502, "GET", "/proxy/list", **whole)
    assert "items" in result["message"]
    assert "response_path=" in result["message"]
    right = stage.on_behalf("keyed", **{"Gateway-Paginate": f"{paginate}; response_path=items"})
    assert '{"n":1}' in (await stage.call_successfully("GET", "/proxy/list", **right)).replace(" ", "")


@produces("answer_not_shaped")
async def produce_answer_not_shaped(stage: Stage) -> None:
    wrong = stage.on_behalf("keyed", **{"Gateway-Select": "length(`1`)"})
    result = await stage.refused("answer_not_shaped", 502, "GET", "/proxy/list", **wrong)
    assert result["payload"] == {"reason": "select"}
    right = stage.on_behalf("keyed", **{"Gateway-Select": "items[0].n"})
    assert await stage.call_successfully("GET", "/proxy/list", **right) == 1


@produces("not_ready")
async def produce_not_ready(stage: Stage) -> None:
    stage.gateway.runtime.serving = False
    await stage.refused("not_ready", 503, "GET", "/ready", headers={})
    stage.gateway.runtime.serving = True
    await stage.call_successfully("GET", "/ready", headers={})


@produces("store_unavailable")
async def produce_store_unavailable(stage: Stage) -> None:
    database = stage.gateway.folder / "gateway.db"
    database.rename(stage.gateway.folder / "away.db")
    result = await stage.refused("store_unavailable", 503, "GET", "/connections")
    assert "Retry in" in result["message"]
    (stage.gateway.folder / "away.db").rename(database)
    await stage.call_successfully("GET", "/connections")


@produces("credential_unreadable")
async def produce_credential_unreadable(stage: Stage) -> None:
    runtime = stage.gateway.runtime

    async def store_credential(as_what: str) -> None:
        statement = text(f"UPDATE connections SET credential = {as_what} WHERE integration_id = 'keyed'")
        await runtime.store.transactions.write(lambda db: db.execute(statement))
        runtime.live.forget(ConnectionRef("dev", "keyed", "c1"))

    await store_credential("CAST(credential || x'00' AS BLOB)")
    result = await stage.refused("credential_unreadable", 500, "GET", "/proxy/list", **stage.on_behalf("keyed"))
    assert "gateway restore" in result["message"]
    await store_credential("substr(credential, 1, length(credential) - 1)")
    await stage.call_successfully("GET", "/proxy/list", **stage.on_behalf("keyed"))


@produces("generic_error_support")
async def produce_generic_error_support(stage: Stage) -> None:
    sessions: Any = stage.gateway.runtime.sessions

    async def raise_fault(*_: Any, **__: Any) -> None:
        raise RuntimeError("a fault of ours")

    session = {"end_user": {"id": "u"}}
    sound, sessions.open = sessions.open, raise_fault
    body = await stage.refused("generic_error_support", 500, "POST", "/connect/sessions", json=session)
    assert "fault of ours" not in str(body)
    sessions.open = sound
    await stage.call_successfully("POST", "/connect/sessions", json=session)


async def mint_key(stage: Stage, **fields: Any) -> dict[str, str]:
    """Return the headers of a new key."""
    body = await stage.call_successfully(
        "POST", "/environment/api-keys", json={"display_name": secrets.token_hex(4), **fields}
    )
    return {"Authorization": f"Bearer {body['data']['secret']}"}


@produces("forbidden")
async def produce_forbidden(stage: Stage) -> None:
    narrow = await mint_key(stage, scopes=["environment:connections:list"])
    result = await stage.refused("forbidden", 403, "GET", "/integrations", headers=narrow)
    assert "environment:integrations:list" in result["message"]
    wide = await mint_key(stage, scopes=["environment:integrations:list"])
    await stage.call_successfully("GET", "/integrations", headers=wide)


@produces("too_many_request")
async def produce_too_many_request(stage: Stage) -> None:
    paced = await mint_key(stage, scopes=["environment:integrations:list"], limits={"rate": 1})
    await stage.call_successfully("GET", "/integrations", headers=paced)
    result = await stage.refused("too_many_request", 429, "GET", "/integrations", headers=paced)
    assert result["payload"]["retry_at"]
    await stage.call_successfully("GET", "/integrations")  # another key has its own rate limit


@pytest.mark.parametrize("code", sorted(PLAYS))
async def test_error_code_occurs_and_its_advice_helps(stage: Stage, code: str) -> None:
    await PLAYS[code](stage)
    assert code in stage.seen


async def test_every_error_code_has_a_test() -> None:
    missing = set(get_args(Code)) - PLAYS.keys() - ELSEWHERE.keys()
    assert missing == set(), f"no test meets these; add a play to {Path(__file__).name}"
    for code, where in ELSEWHERE.items():
        assert f'"{code}"' in (ROOT / where).read_text(), f"{where} does not meet {code} any more"
