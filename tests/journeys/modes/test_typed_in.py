"""The auth modes with a typed-in credential that is used as it is, and BILL, which logs in with the credential."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from gateway.auth.signature import username_token
from tests.journeys.modes.conftest import FakeProvider, import_connection, read


def echo(fake_provider: FakeProvider) -> None:
    async def api(request: web.Request) -> web.Response:
        return web.json_response({name.lower(): text for name, text in request.headers.items()})

    fake_provider.on("/api", api)


async def test_an_api_key_is_sent_in_the_place_that_the_entry_names(fake_provider: FakeProvider, start: Any) -> None:
    echo(fake_provider)
    gateway = await start(auth_mode="API_KEY", proxy={"headers": {"x-api-key": "${apiKey}"}})
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "k-1"})
    async with gateway.call_proxy("c1", headers={"X-Api-Key": "the caller's"}) as response:
        assert (await response.json())["x-api-key"] == "k-1"


async def test_basic_is_sent_in_authorization(fake_provider: FakeProvider, start: Any) -> None:
    echo(fake_provider)
    gateway = await start(auth_mode="BASIC")
    await import_connection(gateway, credentials={"type": "BASIC", "username": "Aladdin", "password": "open sesame"})
    async with gateway.call_proxy("c1") as response:
        assert (await response.json())["authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


async def test_without_a_credential_the_request_is_sent_unchanged(fake_provider: FakeProvider, start: Any) -> None:
    echo(fake_provider)
    gateway = await start(auth_mode="NONE")
    imported = await import_connection(gateway, credentials={"type": "NONE"})
    assert imported["credentials"] == {}
    async with gateway.call_proxy("c1") as response:
        assert "authorization" not in await response.json()
    reply = await import_connection(gateway, credentials={"type": "NONE", "apiKey": "k"}, expect=400)
    assert reply["error"]["errors"][0]["path"] == ["credentials", "apiKey"]


WSSE = re.compile(
    r'UsernameToken Username="(?P<user>[^"]+)", PasswordDigest="(?P<digest>[^"]+)", '
    r'Nonce="(?P<nonce>[0-9a-f]{32})", Created="(?P<created>[0-9T:Z-]{20})"'
)


def test_digest_equals_the_published_example() -> None:
    """The example of the Atom Authentication article (2003): nonce, time and password. Its digest is computed from
    binary values.
    """
    made = username_token(
        "bob", "taadtaadpstcsm", "d36e316282959a9ed4c89851497a717f", datetime(2003, 12, 15, 14, 43, 7, tzinfo=UTC)
    )
    found = WSSE.fullmatch(made)
    assert found is not None
    published = base64.b64decode("quR/EWLAV4xLf9Zqyw4pDmfV9OY=")
    assert base64.b64decode(found["digest"]).decode() == published.hex()


async def test_each_request_has_its_own_signature_that_the_provider_can_verify(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    nonces: set[str] = set()

    async def api(request: web.Request) -> web.Response:
        found = WSSE.fullmatch(request.headers["X-WSSE"])
        assert found is not None
        text = f"{found['nonce']}{found['created']}its password"
        digest = base64.b64encode(hashlib.sha1(text.encode()).hexdigest().encode()).decode()
        fresh = found["nonce"] not in nonces
        nonces.add(found["nonce"])
        right = (found["user"], found["digest"]) == ("ada", digest)
        return web.json_response({}, status=200 if right and fresh else 401)

    fake_provider.on("/api", api)
    gateway = await start(
        auth_mode="SIGNATURE",
        signature={"scheme": "wsse", "lifetime_s": 300},
        proxy={"headers": {"x-wsse": "${accessToken}"}},
    )
    imported = await import_connection(
        gateway, credentials={"type": "SIGNATURE", "username": "ada", "password": "its password"}
    )
    assert WSSE.fullmatch(imported["credentials"]["token"])
    for _ in range(3):
        async with gateway.call_proxy("c1") as response:
            assert response.status == 200
    assert len(nonces) == 3
    advance_clock(301)
    assert (await read(gateway))["credentials"]["token"] != imported["credentials"]["token"]


@pytest.mark.parametrize("version", [2, 3])
async def test_a_login_opens_a_session_whose_id_is_sent_with_every_request(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, version: int
) -> None:
    count = 0

    async def login(request: web.Request) -> web.Response:
        nonlocal count
        sent = dict(await request.post()) if version == 2 else await request.json()
        names = ("userName", "password", "orgId", "devKey") if version == 2 else None
        wanted = names or ("username", "password", "organizationId", "devKey")
        if sent != dict(zip(wanted, ("ada", "pw-1", "org-1", "key-1"), strict=True)):
            reply = {"response_status": 1, "response_message": "Error", "response_data": {"error_message": "Bad login"}}
            return web.json_response(reply)
        count += 1
        session = {"sessionId": f"s-{count}", "userId": "u-1"}
        return web.json_response({"response_status": 0, "response_data": session} if version == 2 else session)

    async def api(request: web.Request) -> web.Response:
        right = (request.headers.get("sessionId"), request.headers.get("devKey")) == (f"s-{count}", "key-1")
        return web.json_response({}, status=200 if right else 401)

    fake_provider.on("/login", login)
    fake_provider.on("/api", api)
    names = {"userName": "${username}", "password": "${password}"}
    names |= {"orgId": "${credentials.organization_id}", "devKey": "${credentials.dev_key}"}
    gateway = await start(
        auth_mode="BILL",
        token_url=f"{fake_provider.url}/login",
        **({"token_params": names} if version == 2 else {"body_format": "json"}),
        proxy={"headers": {"sessionId": "${accessToken}", "devKey": "${credentials.dev_key}"}},
    )
    typed = {"username": "ada", "password": "pw-1", "organization_id": "org-1", "dev_key": "key-1"}
    imported = await import_connection(gateway, credentials={"type": "BILL", **typed})
    assert (imported["credentials"]["session_id"], imported["credentials"]["user_id"]) == ("s-1", "u-1")
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    advance_clock(1801)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert count == 2
    reply = await import_connection(gateway, credentials={"type": "BILL", **typed, "password": "wrong"}, expect=400)
    assert reply["error"]["code"] == "connection_test_failed"
    if version == 2:
        assert "Bad login" in reply["error"]["message"]


async def test_a_credential_may_go_into_the_body_that_the_caller_sends(fake_provider: FakeProvider, start: Any) -> None:
    failures = 1

    async def api(request: web.Request) -> web.Response:
        nonlocal failures
        if failures:
            failures -= 1
            return web.Response(status=503)
        return web.json_response(
            {"type": request.content_type, "length": request.content_length, "text": await request.text()}
        )

    fake_provider.on("/api", api)
    body = {"auth": {"token": "${apiKey}"}, "version": "2"}
    gateway = await start(auth_mode="API_KEY", proxy={"body": body})
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "k-1"})
    headers = {"Retries": "1", "Idempotency-Key": "i"}
    async with gateway.call_proxy("c1", "/x", "POST", json={"q": 1, "auth": "mine"}, headers=headers) as response:
        reply = await response.json()
    assert json.loads(reply["text"]) == {"auth": {"token": "k-1"}, "version": "2", "q": 1}
    assert reply["length"] == len(reply["text"])
    async with gateway.call_proxy("c1", "/x", "POST", data={"q": "1", "version": "3"}) as response:
        assert (await response.json())["text"] == "q=1&version=3&auth%5Btoken%5D=k-1"
    async with gateway.call_proxy("c1", "/x", "POST", data=b"as it is") as response:
        assert (await response.json())["text"] == "as it is"
