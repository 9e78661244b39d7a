"""The main use with a third-party OAuth server: connect, call, let the token expire, call, restart, call.

Refresh tokens of this server rotate, and a replay revokes the whole grant. The server responds to an expired token with
403, not 401, so the gateway must refresh by time. All tests share one gateway and one OAuth server. Each test has its
own end user.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import aiohttp
import pytest
import pytest_asyncio

from gateway.sandbox.visitor import browser
from tests.fakes.django_idp import DjangoIdp, serving, walk_consent
from tests.fakes.patience import PATIENCE_S
from tests.journeys.conftest import GatewayServer, new_gateway_server

WHOAMI = "/proxy/api/whoami"
TTL_S = 8  # so that no token expires unexpectedly on a busy machine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayServer]:
    async with new_gateway_server(tmp_path_factory.mktemp("django")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def django_idp(
    gateway_server: GatewayServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DjangoIdp]:
    """Start the OAuth server and the gateway, which has two integrations for it: `accounts` and `identities`."""
    async with serving(tmp_path_factory.mktemp("idp"), gateway_server.callback, TTL_S) as idp:
        await _serve(gateway_server, idp)
        yield idp


@pytest_asyncio.fixture(loop_scope="module")
async def end_user() -> AsyncIterator[aiohttp.ClientSession]:
    """The end user's browser."""
    async with browser() as session:
        yield session


@pytest_asyncio.fixture(loop_scope="module")
async def end_user_id(gateway_server: GatewayServer, django_idp: DjangoIdp) -> AsyncIterator[str]:
    """Yield the ID of a new end user, whose connections are deleted at the end: the gateway would refresh them during
    other tests.
    """
    name = secrets.token_hex(4)
    yield name
    for connection in await _connections_of(gateway_server, name):
        path = f"/connections/{connection['connection_id']}?provider_config_key={connection['provider_config_key']}"
        status, response = await gateway_server.call("DELETE", path)
        assert status == 200, response


@pytest_asyncio.fixture(loop_scope="module")
async def connected_id(
    gateway_server: GatewayServer, django_idp: DjangoIdp, end_user: aiohttp.ClientSession, end_user_id: str
) -> str:
    """Connect as the end user. Return the connection ID."""
    page = await walk_consent(end_user, await gateway_server.connect_url("accounts", end_user_id))
    assert page.status == 200, page.text
    assert page.url.startswith(gateway_server.callback)
    (connection,) = await _connections_of(gateway_server, end_user_id)
    connection_id: str = connection["connection_id"]
    assert "accounts" in page.text
    assert connection_id in page.text
    return connection_id


async def test_connect_call_expire_call_again_restart_call_again(
    gateway_server: GatewayServer, django_idp: DjangoIdp, connected_id: str
) -> None:
    headers = _connection_headers(connected_id)
    first = await django_idp.token_requests(gateway_server.session)
    assert await gateway_server.call("GET", f"{WHOAMI}?a=%2f+b", headers=headers) == (
        200,
        {"user": "ada", "query": "a=%2f+b"},
    )
    await _wait_until_expired(gateway_server, django_idp, connected_id)
    assert (await gateway_server.call("GET", WHOAMI, headers=headers))[0] == 200
    refreshes = (await django_idp.token_requests(gateway_server.session))["refresh_token"]
    assert refreshes > first.get("refresh_token", 0)

    await gateway_server.restart()
    assert await _status_after_refresh(gateway_server, headers) == 200
    await _wait_until_expired(gateway_server, django_idp, connected_id)
    await gateway_server.restart()
    status, response = await gateway_server.call("POST", WHOAMI, body={"n": 1}, headers=headers)
    assert (status, response["user"], response["body"]) == (201, "ada", '{"n": 1}')
    counts = await django_idp.token_requests(gateway_server.session)
    assert counts["authorization_code"] == first["authorization_code"]
    assert counts["refresh_token"] > refreshes


async def test_many_calls_at_expiry_share_one_token_request(
    gateway_server: GatewayServer, django_idp: DjangoIdp, connected_id: str
) -> None:
    await _wait_until_expired(gateway_server, django_idp, connected_id)
    before = await django_idp.token_requests(gateway_server.session)
    calls = [gateway_server.call("GET", WHOAMI, headers=_connection_headers(connected_id)) for _ in range(20)]
    assert [status for status, _ in await asyncio.gather(*calls)] == [200] * 20
    after = await django_idp.token_requests(gateway_server.session)
    assert after["refresh_token"] - before.get("refresh_token", 0) == 1


async def test_refused_consent_creates_no_connection_and_a_revoked_grant_is_reported_as_reconnect_needed(
    gateway_server: GatewayServer,
    django_idp: DjangoIdp,
    connected_id: str,
    end_user: aiohttp.ClientSession,
    end_user_id: str,
) -> None:
    before = await django_idp.token_requests(gateway_server.session)
    page = await walk_consent(end_user, await gateway_server.connect_url("accounts", end_user_id), allow=False)
    assert page.url.startswith(gateway_server.callback)
    assert page.status == 400
    _, listed = await gateway_server.call("GET", "/connections")
    assert [connection["connection_id"] for connection in listed["connections"]] == [connected_id]
    after = await django_idp.token_requests(gateway_server.session)
    assert after["authorization_code"] == before["authorization_code"]

    path = f"/connections/{connected_id}?provider_config_key=accounts&refresh_token=true"
    _, details = await gateway_server.call("GET", path)
    form = {
        "token": details["credentials"]["refresh_token"],
        "client_id": django_idp.client_id,
        "client_secret": django_idp.client_secret,
    }
    async with gateway_server.session.post(f"{django_idp.url}/o/revoke_token/", data=form) as response:
        assert response.status == 200
    await django_idp.wait_until_dead(gateway_server.session, details["credentials"]["access_token"])
    status, refusal = await _wait_until_refused_by_gateway(gateway_server, connected_id)
    assert (status, refusal["error"]["code"]) == (424, "reconnect_needed")


async def test_an_authorization_with_openid_has_its_nonce_in_the_id_token(
    gateway_server: GatewayServer, end_user: aiohttp.ClientSession, end_user_id: str
) -> None:
    nonces = set()
    for _ in range(2):
        authorization = await gateway_server.connect_url("identities", end_user_id)
        async with end_user.get(authorization, allow_redirects=False) as response:
            provider_page = response.headers["Location"]
        (nonce,) = parse_qs(urlsplit(provider_page).query)["nonce"]
        page = await walk_consent(end_user, provider_page)
        assert page.status == 200, page.text
        nonces.add(nonce)
    found = set()
    for connection in await _connections_of(gateway_server, end_user_id):
        path = f"/connections/{connection['connection_id']}?provider_config_key=identities"
        _, details = await gateway_server.call("GET", path)
        claims = details["credentials"]["raw"]["id_token"].split(".")[1]
        found.add(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["nonce"])
    assert found == nonces
    assert len(nonces) == 2


async def test_no_secret_is_in_plain_text_in_the_database_or_the_logs(
    gateway_server: GatewayServer, django_idp: DjangoIdp, end_user_id: str
) -> None:
    seen: set[str] = {gateway_server.secret_key, django_idp.client_secret}
    authorization = await gateway_server.connect_url("accounts", end_user_id)
    seen.add(authorization.partition("connect_session_token=")[2])
    trace = aiohttp.TraceConfig()

    async def record_secrets(_session: object, _context: object, params: aiohttp.TraceRequestRedirectParams) -> None:
        query = dict(parse_qsl(urlsplit(params.response.headers["Location"]).query))
        seen.update(query[name] for name in ("state", "code", "code_challenge") if name in query)
        seen.update(cookie.value for cookie in params.response.cookies.values() if "gw-flow" in cookie.key)

    trace.on_request_redirect.append(record_secrets)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, trace_configs=[trace]) as end_user:
        page = await walk_consent(end_user, authorization)
    assert page.status == 200
    (connection,) = await _connections_of(gateway_server, end_user_id)
    connected_id = connection["connection_id"]
    path = f"/connections/{connected_id}?provider_config_key=accounts&refresh_token=true"
    for _ in range(2):  # first the tokens of the consent, then the tokens of a refresh
        _, details = await gateway_server.call("GET", path)
        seen |= {details["credentials"]["access_token"], details["credentials"]["refresh_token"]}
        await _wait_until_expired(gateway_server, django_idp, connected_id)
        headers = {"Authorization": f"Bearer {gateway_server.secret_key}", **_connection_headers(connected_id)}
        async with gateway_server.session.get(gateway_server.url + WHOAMI, headers=headers) as response:
            await response.read()  # on a busy machine, the new token may have expired when it arrives
    assert len(seen) >= 9
    files = [
        file for file in gateway_server.folder.rglob("*") if file.is_file() and file.suffix not in (".yaml", ".env")
    ]
    assert {"gateway.db", "gateway.log"} <= {file.name for file in files}
    for file in files:
        content = file.read_bytes()
        assert [secret for secret in seen if secret.encode() in content] == [], file.name


async def _serve(gateway: GatewayServer, idp: DjangoIdp) -> None:
    entry = {
        "display_name": "Django accounts",
        "categories": ["productivity"],
        "docs": "https://django-oauth-toolkit.readthedocs.io",
        "auth_mode": "OAUTH2",
        "authorization_url": f"{idp.url}/o/authorize/",
        "token_url": f"{idp.url}/o/token/",
        "token_request_auth_method": "basic",
        "proxy": {"base_url": idp.url},
    }
    client = {"provider": "django", "client_id": idp.client_id, "client_secret": idp.client_secret}
    gateway.configure(
        providers={"django": entry},
        integrations={
            "accounts": {**client, "scopes": ["read"]},
            "identities": {**client, "scopes": ["openid", "read"]},
        },
        allow=[f"127.0.0.1/32:{urlsplit(idp.url).port}"],
    )
    await gateway.start()


async def _connections_of(gateway: GatewayServer, end_user_id: str) -> list[dict[str, Any]]:
    _, listed = await gateway.call("GET", f"/connections?endUserId={end_user_id}")
    found: list[dict[str, Any]] = listed["connections"]
    return found


async def _wait_until_expired(gateway: GatewayServer, idp: DjangoIdp, connection_id: str) -> None:
    """Wait until the gateway's current access token has expired and the OAuth server rejects it.

    If the gateway refreshes in the background, the server revokes the token before its expiry. A call that the gateway
    sends before it has the new token gets 403. The gateway cannot know that this 403 means an invalid token.
    """
    _, details = await gateway.call("GET", f"/connections/{connection_id}?provider_config_key=accounts")
    expires_at = datetime.fromisoformat(details["credentials"]["expires_at"])
    await asyncio.sleep((expires_at - datetime.now(UTC)).total_seconds())
    await idp.wait_until_dead(gateway.session, details["credentials"]["access_token"])


async def _status_after_refresh(gateway: GatewayServer, headers: dict[str, str]) -> int:
    """Call, and return the status. If it is 403, call once more: a refresh in the background during the call has
    revoked the token that the call carries (see `_wait_until_expired`), and the next call waits for the new token.
    """

    async def status() -> int:
        sent = {"Authorization": f"Bearer {gateway.secret_key}", **headers}
        async with gateway.session.get(f"{gateway.url}{WHOAMI}", headers=sent) as response:
            return response.status

    first = await status()
    return await status() if first == 403 else first


async def _wait_until_refused_by_gateway(
    gateway: GatewayServer, connection_id: str
) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the first response that comes from the gateway itself. Before the gateway tries to refresh, the provider
    sends 403.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with gateway.session.get(
                gateway.url + WHOAMI,
                headers={"Authorization": f"Bearer {gateway.secret_key}", **_connection_headers(connection_id)},
            ) as response:
                if "Gateway-Error" in response.headers:
                    return response.status, await response.json()
                assert response.status == 403
            await asyncio.sleep(0.2)


def _connection_headers(connection_id: str) -> dict[str, str]:
    return {"Provider-Config-Key": "accounts", "Connection-Id": connection_id}
