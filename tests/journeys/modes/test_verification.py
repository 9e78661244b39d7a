"""A credential is verified when a connection is created. A wrong credential is not stored.

The caller gets the provider's message.
"""

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider, import_connection

KEY = {"type": "API_KEY", "apiKey": "right-key"}
WRONG = {"type": "API_KEY", "apiKey": "wrong-key"}
HEADERS = {"headers": {"x-api-key": "${apiKey}"}}


def guard(fake_provider: FakeProvider) -> None:
    async def me(request: web.Request) -> web.Response:
        sent_key = request.headers.get("X-Api-Key")
        if sent_key == "right-key":
            return web.json_response({"ok": True})
        result = {"error": {"message": f"The key {sent_key} is not known\r\nto us."}}
        return web.json_response(result, status=401)

    fake_provider.on("/api/me", me)


async def connections(gateway: RunningGateway) -> list[Any]:
    found: list[Any] = (await gateway.json("GET", "/connections"))["connections"]
    return found


async def test_a_wrong_key_is_refused_in_the_providers_words_without_the_key(
    fake_provider: FakeProvider, start: Any
) -> None:
    guard(fake_provider)
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": {"endpoints": ["/me"]}})
    response = (await import_connection(gateway, credentials=WRONG, expect=400))["error"]
    assert response["code"] == "connection_test_failed"
    assert "with status 401: The key *** is not known to us. Nothing" in response["message"]
    assert response["payload"] == {"status": 401, "provider_message": "The key *** is not known to us"}
    assert await connections(gateway) == []
    await import_connection(gateway, credentials=KEY)
    assert len(await connections(gateway)) == 1


async def test_a_refused_key_keeps_the_stored_connection(fake_provider: FakeProvider, start: Any) -> None:
    guard(fake_provider)
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": {"endpoints": ["/me"]}})
    await import_connection(gateway, credentials=KEY)
    await import_connection(gateway, credentials=WRONG, expect=400)
    async with gateway.call_proxy("c1", "/me") as response:
        assert response.status == 200


async def test_endpoints_are_tried_in_turn_until_one_responds(fake_provider: FakeProvider, start: Any) -> None:
    guard(fake_provider)
    verification = {"endpoints": ["/old/?v=1", "/me"]}
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": verification})
    await import_connection(gateway, credentials=KEY)
    assert [path for _, path, _, _ in fake_provider.seen] == ["/api/old/?v=1", "/api/me"]
    response = (await import_connection(gateway, credentials=WRONG, expect=400))["error"]
    # this status says more about the key than the first and the last status
    assert response["payload"]["status"] == 401


async def test_without_a_verification_the_credential_is_not_tested(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(auth_mode="API_KEY", proxy=HEADERS)
    await import_connection(gateway, credentials=WRONG)
    assert fake_provider.seen == []


@pytest.mark.parametrize("kind", ["json", "form", "text"])
async def test_the_call_is_the_entrys_with_its_method_fields_body_and_base(
    fake_provider: FakeProvider, start: Any, kind: str
) -> None:
    async def check(request: web.Request) -> web.Response:
        text = await request.text()
        body = {"json": lambda: json.loads(text), "form": lambda: {k: v[0] for k, v in parse_qs(text).items()}}
        got = body[kind]() if kind in body else text
        right = got == ({"query": "me", "team": "t-1"} if kind != "text" else "{ me(t-1) }")
        right = right and request.headers["X-Version"] == "2" and request.query == {"key": "right-key", "v": "1"}
        return web.json_response({}, status=200 if right else 400)

    fake_provider.on("/other/check", check)
    headers = {"x-version": "2", **({"content-type": "application/x-www-form-urlencoded"} if kind == "form" else {})}
    gateway = await start(
        auth_mode="API_KEY",
        connection_config={"team": {}},
        proxy={
            "query": {"key": "${apiKey}"},
            "verification": {
                "method": "POST",
                "endpoints": ["/check?v=1"],
                "base_url_override": f"{fake_provider.url}/other",
                "headers": headers,
                "data": "{ me(${connectionConfig.team}) }"
                if kind == "text"
                else {"query": "me", "team": "${connectionConfig.team}"},
            },
        },
    )
    await import_connection(gateway, credentials=KEY, connection_config={"team": "t-1"})
    assert [(method, path.partition("?")[0]) for method, path, _, _ in fake_provider.seen] == [("POST", "/other/check")]


async def test_verification_path_can_contain_the_user_name(fake_provider: FakeProvider, start: Any) -> None:
    async def account(request: web.Request) -> web.Response:
        right = request.headers["Authorization"] == "Basic QUMxOnB3LXdyb25n"
        return web.json_response({}, status=200 if right and request.path == "/api/Accounts/AC1.json" else 401)

    fake_provider.on("/api/Accounts", account)
    verification = {"endpoints": ["/Accounts/${username}.json"]}
    gateway = await start(auth_mode="BASIC", proxy={"verification": verification})
    await import_connection(gateway, credentials={"type": "BASIC", "username": "AC1", "password": "pw-wrong"})
    assert [path for _, path, _, _ in fake_provider.seen] == ["/api/Accounts/AC1.json"]


async def test_an_unreachable_provider_is_not_reported_as_a_wrong_key(fake_provider: FakeProvider, start: Any) -> None:
    verification = {"endpoints": ["/me"], "base_url_override": "http://127.0.0.1:1"}
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": verification})
    response = (await import_connection(gateway, credentials=KEY, expect=502))["error"]
    assert response["code"] == "upstream_unreachable"
    assert await connections(gateway) == []


async def test_a_server_error_of_the_provider_is_reported_as_such(fake_provider: FakeProvider, start: Any) -> None:
    async def down(_: web.Request) -> web.Response:
        return web.Response(status=503, text="<html>sorry</html>", content_type="text/html")

    fake_provider.on("/api/me", down)
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": {"endpoints": ["/me"]}})
    response = (await import_connection(gateway, credentials=KEY, expect=400))["error"]
    assert (response["code"], "it returned 503. Nothing was stored; try again" in response["message"]) == (
        "connection_test_failed",
        True,
    )


@pytest.mark.parametrize(
    ("status", "refresh", "expect"), [(401, False, 400), (401, True, 201), (403, False, 201), (200, False, 201)]
)
async def test_a_grant_is_refused_only_if_a_refresh_cannot_fix_it(
    fake_provider: FakeProvider, start: Any, status: int, refresh: bool, expect: int
) -> None:
    async def me(_: web.Request) -> web.Response:
        return web.json_response({"message": "token revoked"}, status=status)

    fake_provider.on("/api/me", me)
    gateway = await start(
        {"client_id": "c", "client_secret": "s3cret"},
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        proxy={"verification": {"endpoints": ["/me"]}},
    )
    grant = {"type": "OAUTH2", "access_token": "a-token", **({"refresh_token": "r-token"} if refresh else {})}
    await import_connection(gateway, credentials=grant, expect=expect)
    assert len(await connections(gateway)) == (1 if expect == 201 else 0)


@pytest.mark.parametrize("refresh_token", [{}, {"refresh_token": "r-token"}], ids=["alone", "refreshable"])
async def test_a_grant_is_imported_while_its_provider_is_unreachable(
    fake_provider: FakeProvider, start: Any, refresh_token: dict[str, str]
) -> None:
    gateway = await start(
        {"client_id": "c", "client_secret": "s3cret"},
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        proxy={"verification": {"endpoints": ["/me"], "base_url_override": "https://api.invalid"}},
    )
    grant = {"type": "OAUTH2", "access_token": "a-token", **refresh_token}
    await import_connection(gateway, credentials=grant)
    (stored,) = await connections(gateway)
    await import_connection(
        gateway, connection_id=stored["connection_id"], credentials={**grant, "access_token": "untested"}, expect=502
    )
    assert await connections(gateway) == [stored], "a token that could not be tested replaces no token"


async def test_a_signed_call_is_signed_when_it_verifies_too(fake_provider: FakeProvider, start: Any) -> None:
    async def me(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if 'realm="ACME"' in request.headers["Authorization"] else 401)

    fake_provider.on("/api/me", me)
    gateway = await start(
        {"client_id": "c", "client_secret": "s"},
        auth_mode="TBA",
        connection_config={"accountId": {}},
        proxy={"verification": {"endpoints": ["/me"]}},
    )
    token = {"type": "TBA", "token_id": "i", "token_secret": "s"}
    await import_connection(gateway, credentials=token, connection_config={"accountId": "acme"})
    assert fake_provider.paths() == ["/api/me"]


async def test_where_a_wrong_key_gets_a_200_the_response_decides(fake_provider: FakeProvider, start: Any) -> None:
    async def me(request: web.Request) -> web.Response:
        if request.headers.get("X-Api-Key") != "right-key":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        return web.json_response({"ok": True, "team": {"id": "T1"}})

    fake_provider.on("/api/me", me)
    proof = {"endpoints": ["/me"], "expect": {"ok": True, "team.id": "*", "error": "-"}}
    gateway = await start(auth_mode="API_KEY", proxy={**HEADERS, "verification": proof})
    response = (await import_connection(gateway, credentials=WRONG, expect=400))["error"]
    assert response["code"] == "connection_test_failed"
    assert "rejected this credential with status 200: invalid_auth. Nothing" in response["message"]
    assert await connections(gateway) == []
    await import_connection(gateway, credentials=KEY)
    assert len(await connections(gateway)) == 1


async def test_the_account_may_be_requested_by_post(fake_provider: FakeProvider, start: Any) -> None:
    async def graph(request: web.Request) -> web.Response:
        assert await request.json() == {"query": "{ me { id name } }"}
        assert request.headers["X-Api-Key"] == "right-key"
        return web.json_response({"data": {"me": {"id": 7, "name": "Ada"}}})

    fake_provider.on("/api/graph", graph)
    account = {"endpoint": "/graph", "method": "POST", "data": {"query": "{ me { id name } }"}}
    account |= {"id": "data.me.id", "label": ["data.me.name"]}
    gateway = await start(auth_mode="API_KEY", proxy=HEADERS, account=account)
    await import_connection(gateway, credentials=KEY)
    assert (await connections(gateway))[0]["account"] == {"id": "7", "label": "Ada"}
