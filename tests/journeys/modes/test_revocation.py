"""Deleting a connection revokes its tokens at the provider (RFC 7009), and reports the result for each token."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from gateway import clock
from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider, import_connection

GRANT = {"type": "OAUTH2", "access_token": "access token", "refresh_token": "refresh/token"}
CLIENT = {"client_id": "our client", "client_secret": "our secret"}


def entry(fake_provider: FakeProvider, **extra: Any) -> dict[str, Any]:
    return {
        "auth_mode": "OAUTH2",
        "authorization_url": f"{fake_provider.url}/authorize",
        "token_url": f"{fake_provider.url}/token",
        "revocation_url": f"{fake_provider.url}/revoke",
        **extra,
    }


class Endpoint:
    """A revocation endpoint. It records the requests, and responds to each token with the next of its responses."""

    def __init__(self, fake_provider: FakeProvider, *responses: web.Response) -> None:
        self.asked: list[tuple[dict[str, str], str]] = []
        self.responses = list(responses)
        fake_provider.on("/revoke", self.revoke)

    async def revoke(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs(await request.text()).items()}
        self.asked.append((form, request.headers.get("Authorization", "")))
        response = self.responses.pop(0) if self.responses else web.Response()
        return web.Response(status=response.status, body=response.body, headers=response.headers.copy())


async def delete(gateway: RunningGateway, query: str = "", expect: int = 200) -> Any:
    return await gateway.json("DELETE", f"/connections/c1?provider_config_key=tracker{query}", expect=expect)


async def test_both_tokens_are_revoked_the_refresh_token_first(fake_provider: FakeProvider, start: Any) -> None:
    endpoint = Endpoint(fake_provider)
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials=GRANT)
    result = await delete(gateway)
    assert result == {
        "success": True,
        "at_provider": True,
        "revocation": [
            {"token": "refresh_token", "outcome": "revoked"},
            {"token": "access_token", "outcome": "revoked"},
        ],
    }
    client = {"client_id": "our client", "client_secret": "our secret"}
    assert endpoint.asked == [
        ({"token": "refresh/token", "token_type_hint": "refresh_token", **client}, ""),
        ({"token": "access token", "token_type_hint": "access_token", **client}, ""),
    ]
    async with gateway.call_proxy("c1") as response:
        assert response.status == 404


async def test_the_client_authenticates_as_in_token_requests(fake_provider: FakeProvider, start: Any) -> None:
    endpoint = Endpoint(fake_provider)
    gateway = await start(CLIENT, **entry(fake_provider, token_request_auth_method="basic"))
    await import_connection(
        gateway, credentials={**GRANT, "config_override": {"client_id": "its", "client_secret": "own"}}
    )
    await delete(gateway)
    assert {proof for _, proof in endpoint.asked} == {"Basic " + base64.b64encode(b"its:own").decode()}
    assert all("client_id" not in form for form, _ in endpoint.asked)


@pytest.mark.parametrize(
    ("response", "outcome", "detail"),
    [
        (web.json_response({"error": "unsupported_token_type"}, status=400), "unsupported", "it returned 400: unsupp"),
        (
            web.json_response({"error": "invalid_token"}, status=400),
            "already_invalid",
            "it returned 400: invalid_token",
        ),
        (web.json_response({"error": "invalid_client"}, status=401), "failed", "it returned 401: invalid_client"),
        (web.json_response({"ok": False, "error": "not_authed"}), "failed", "it returned 200: not_authed"),
        (web.json_response({"message": "not refresh/token"}, status=403), "failed", "it returned 403: not ***"),
    ],
)
async def test_the_providers_response_is_reported_and_the_connection_is_deleted_in_any_case(
    fake_provider: FakeProvider, start: Any, response: web.Response, outcome: str, detail: str
) -> None:
    Endpoint(fake_provider, response)
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials=GRANT)
    result = (await delete(gateway))["revocation"]
    assert (result[0]["outcome"], result[0]["detail"].startswith(detail)) == (outcome, True), result
    assert result[1]["outcome"] == "revoked"
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_provider_with_a_temporary_error_is_called_twice(
    fake_provider: FakeProvider, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(clock, "sleep", at_once)
    down = web.Response(status=503)
    endpoint = Endpoint(fake_provider, down, down, down)
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials=GRANT)
    result = (await delete(gateway))["revocation"]
    assert [item["outcome"] for item in result] == ["unavailable", "revoked"]
    assert [form["token_type_hint"] for form, _ in endpoint.asked] == ["refresh_token", "access_token"] * 2


async def test_an_unreachable_provider_does_not_prevent_the_deletion(
    fake_provider: FakeProvider, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(clock, "sleep", at_once)
    gateway = await start(CLIENT, **entry(fake_provider, revocation_url="http://127.0.0.1:1/revoke"))
    await import_connection(gateway, credentials=GRANT)
    result = (await delete(gateway))["revocation"]
    assert {item["outcome"] for item in result} == {"unavailable"}
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_provider_without_a_revocation_is_reported_as_such_in_the_log(
    fake_provider: FakeProvider, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await start(CLIENT, **entry(fake_provider, revocation_url=None))
    await import_connection(gateway, credentials={"type": "OAUTH2", "access_token": "a"})
    with caplog.at_level("INFO"):
        assert await delete(gateway) == {"success": True, "at_provider": False}
    assert "access token: not_offered" in caplog.text
    assert "at_provider=False" in caplog.text or '"at_provider": false' in caplog.text


async def test_an_api_key_has_no_token_to_revoke(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(auth_mode="API_KEY", proxy={"headers": {"x-key": "${apiKey}"}})
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "k"})
    assert await delete(gateway) == {"success": True, "at_provider": False}


async def test_tokens_that_moved_to_another_gateway_need_not_be_revoked(
    fake_provider: FakeProvider, start: Any
) -> None:
    endpoint = Endpoint(fake_provider)
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials=GRANT)
    assert await delete(gateway, "&revoke=false") == {"success": True, "at_provider": False}
    assert endpoint.asked == []


async def test_an_entry_may_describe_its_own_revocation_call(fake_provider: FakeProvider, start: Any) -> None:
    """GitHub's revocation is a DELETE with the client as Basic and the token in JSON. One call revokes the whole grant."""
    seen: list[Any] = []

    async def grant(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.headers["Authorization"], json.loads(await request.text())))
        return web.Response(status=204)

    fake_provider.on("/applications", grant)
    gateway = await start(
        CLIENT,
        **entry(
            fake_provider,
            revocation_url=f"{fake_provider.url}/applications/${{clientId}}/grant",
            revocation={
                "method": "DELETE",
                "auth_method": "basic",
                "body_format": "json",
                "param_renames": {"token": "access_token", "token_type_hint": ""},
                "tokens": "access_token",
            },
        ),
    )
    await import_connection(gateway, credentials=GRANT)
    assert (await delete(gateway))["revocation"] == [{"token": "access_token", "outcome": "revoked"}]
    pair = base64.b64encode(b"our%20client:our%20secret").decode()
    assert seen == [("DELETE", "/applications/our client/grant", f"Basic {pair}", {"access_token": "access token"})]


async def test_an_entry_may_authenticate_a_revocation_by_the_token(fake_provider: FakeProvider, start: Any) -> None:
    endpoint = Endpoint(fake_provider)
    revocation = {
        "auth_method": "bearer",
        "param_renames": {"token": "", "token_type_hint": ""},
        "tokens": "access_token",
    }
    gateway = await start(CLIENT, **entry(fake_provider, revocation=revocation))
    await import_connection(gateway, credentials=GRANT)
    await delete(gateway)
    assert endpoint.asked == [({}, "Bearer access token")]


async def test_a_deletion_waits_for_a_refresh_so_that_no_new_token_outlives_the_connection(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    endpoint = Endpoint(fake_provider)
    request_arrived, go_on = asyncio.Event(), asyncio.Event()

    async def token(_: web.Request) -> web.Response:
        request_arrived.set()
        await go_on.wait()
        return web.json_response({"access_token": "newer", "refresh_token": "newer refresh", "expires_in": 3600})

    fake_provider.on("/token", token)
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials={**GRANT, "expires_in": 60})
    advance_clock(61)

    async def call() -> int:
        async with gateway.call_proxy("c1") as response:
            return int(response.status)

    calling = asyncio.create_task(call())
    await request_arrived.wait()
    deleting = asyncio.create_task(delete(gateway))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert endpoint.asked == []
    go_on.set()
    result = await deleting
    await calling
    assert [item["outcome"] for item in result["revocation"]] == ["revoked", "revoked"]
    assert [form["token"] for form, _ in endpoint.asked] == ["newer refresh", "newer"]


async def test_the_log_names_the_outcome_of_each_token_but_not_the_token(
    fake_provider: FakeProvider, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Endpoint(fake_provider, web.json_response({"error": "invalid_client"}, status=401))
    gateway = await start(CLIENT, **entry(fake_provider))
    await import_connection(gateway, credentials=GRANT)
    with caplog.at_level("INFO"):
        await delete(gateway)
    (line,) = [record.getMessage() for record in caplog.records if "connection_deleted" in record.getMessage()]
    assert "refresh token: failed" in line
    assert "access token: revoked" in line
    assert "refresh/token" not in caplog.text
