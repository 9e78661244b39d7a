"""TWO_STEP: a login in one or several requests. The last response contains the token."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.journeys.modes.conftest import FakeProvider, epoch, import_connection, read

LOGIN = {"type": "TWO_STEP", "email": "ada@example.com", "password": "correct horse"}
FORM = {"email": {}, "password": {"secret": True}}


class SignInProvider:
    """Accepts the right password. Each sign-in invalidates the token of the previous sign-in."""

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.count = 0
        fake_provider.on("/signin", self.sign_in)
        fake_provider.on("/api", self.api)

    async def sign_in(self, request: web.Request) -> web.Response:
        sent = await request.json() if request.content_type == "application/json" else dict(await request.post())
        if sent != {"email": "ada@example.com", "password": "correct horse"}:
            return web.json_response({"errors": [{"message": f"Wrong password {sent.get('password')}"}]}, status=422)
        self.count += 1
        return web.json_response({"session": {"key": f"s-{self.count}", "until": epoch() + 600}})

    async def api(self, request: web.Request) -> web.Response:
        known = request.headers.get("X-Session") == f"s-{self.count}"
        return web.json_response({}, status=200 if known else 401)


def sign_in_provider(fake_provider: FakeProvider, **extra: Any) -> dict[str, Any]:
    return {
        "auth_mode": "TWO_STEP",
        "token_url": f"{fake_provider.url}/signin",
        "credentials": FORM,
        "token_params": {"email": "${credentials.email}", "password": "${credentials.password}"},
        "token_response": {"token_path": "session.key", "expiry_path": "session.until", "expiry_kind": "timestamp"},
        "proxy": {"headers": {"x-session": "${accessToken}"}},
        **extra,
    }


async def test_templates_of_proxied_requests_use_the_login_response(fake_provider: FakeProvider, start: Any) -> None:
    SignInProvider(fake_provider)
    gateway = await start(
        **sign_in_provider(fake_provider, body_format="json", proxy={"headers": {"x-session": "${step1.session.key}"}})
    )
    await import_connection(gateway, credentials=LOGIN)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200


@pytest.mark.parametrize("body_format", ["form", "json"])
async def test_a_password_is_exchanged_for_a_token_and_again_after_its_expiry(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, body_format: str
) -> None:
    provider = SignInProvider(fake_provider)
    gateway = await start(**sign_in_provider(fake_provider, body_format=body_format))
    imported = await import_connection(gateway, credentials=LOGIN)
    assert imported["credentials"]["token"] == "s-1"
    assert imported["credentials"]["raw"]["session"]["key"] == "s-1"
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    advance_clock(601)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert provider.count == 2


async def test_a_wrong_password_fails_immediately_in_the_providers_words(
    fake_provider: FakeProvider, start: Any
) -> None:
    SignInProvider(fake_provider)
    gateway = await start(**sign_in_provider(fake_provider))
    response = await import_connection(gateway, credentials={**LOGIN, "password": "battery staple"}, expect=400)
    assert response["error"]["code"] == "connection_test_failed"
    assert "422: Wrong password ***" in response["error"]["message"]


async def test_later_steps_use_responses_of_earlier_steps(fake_provider: FakeProvider, start: Any) -> None:
    async def first(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"id:key").decode()
        return web.json_response({"data": {"ticket": "t/1"}, "hosts": [{"name": "h1"}]})

    async def second(request: web.Request) -> web.Response:
        assert request.raw_path == "/second/t%2F1?host=h1"
        return web.json_response({"exchange": "e-1"})

    async def third(request: web.Request) -> web.Response:
        assert await request.json() == {"grant": {"code": "e-1", "kind": "x"}, "n": 1}
        return web.json_response({"access_token": "three", "expires_in": 60})

    async def api(request: web.Request) -> web.Response:
        ok = (request.headers["Authorization"], request.headers["X-Host"]) == ("Bearer three", "h1")
        return web.json_response({}, status=200 if ok else 401)

    for path, handler in {"/first": first, "/second": second, "/third": third, "/api": api}.items():
        fake_provider.on(path, handler)
    gateway = await start(
        auth_mode="TWO_STEP",
        token_url=f"{fake_provider.url}/first",
        credentials={"id": {}, "key": {"secret": True}, "gone": {"optional": True}},
        token_headers={"authorization": "Basic ${base64(${credentials.id}:${credentials.key})}"},
        additional_steps=[
            {"url": f"{fake_provider.url}/second/${{step1.data.ticket}}", "method": "GET", "params": {"host": "h1"}},
            {
                "url": f"{fake_provider.url}/third",
                "body": {"grant": {"code": "${step2.exchange}", "kind": "x", "gone": "${credentials.gone}"}, "n": 1},
            },
        ],
        proxy={"headers": {"authorization": "Bearer ${accessToken}", "x-host": "h1"}},
    )
    await import_connection(gateway, credentials={"type": "TWO_STEP", "id": "id", "key": "key"})
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert fake_provider.paths() == ["/first", "/second/t%2F1", "/third", "/api/x"]


async def test_an_assertion_that_we_sign_is_exchanged(fake_provider: FakeProvider, start: Any) -> None:
    key = RSAKey.generate_key(2048)

    async def token(request: web.Request) -> web.Response:
        form = parse_qs(await request.text())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        claims = jwt.decode(form["assertion"][0], key, algorithms=["RS256"]).claims
        assert (claims["iss"], claims["scope"], claims["aud"]) == (
            "robot@example.com",
            "a b",
            f"{fake_provider.url}/token",
        )
        assert "sub" not in claims
        return web.json_response({"access_token": "robot", "expires_in": 3599})

    async def api(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers["Authorization"] == "Bearer robot" else 401)

    fake_provider.on("/token", token)
    fake_provider.on("/api", api)
    gateway = await start(
        auth_mode="TWO_STEP",
        token_url=f"{fake_provider.url}/token",
        token_params={"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "${jwt}"},
        credentials={"email": {}, "scopes": {}, "privateKey": {"secret": True}, "sub": {"optional": True}},
        jwt={
            "header": {"alg": "RS256"},
            "claims": {
                "iss": "${credentials.email}",
                "scope": "${credentials.scopes}",
                "aud": f"{fake_provider.url}/token",
                "sub": "${credentials.sub}",
            },
            "key": "${credentials.privateKey}",
            "lifetime_s": 3600,
        },
    )
    typed = {"email": "robot@example.com", "scopes": "a b", "privateKey": key.as_pem(private=True).decode()}
    await import_connection(gateway, credentials={"type": "TWO_STEP", **typed})
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200


async def test_a_refresh_token_is_used_if_the_entry_has_a_refresh_url_and_else_the_password(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    calls: list[tuple[str, Any]] = []
    alive = {"r-1"}

    async def sign_in(request: web.Request) -> web.Response:
        calls.append(("sign-in", dict(await request.post())))
        return web.json_response({"access_token": "a-1", "refresh_token": "r-1", "expires_in": 60})

    async def refresh(request: web.Request) -> web.Response:
        form = dict(await request.post())
        calls.append(("refresh", form))
        if form["refresh_token"] not in alive:
            return web.json_response({"message": "gone"}, status=400)
        return web.json_response({"access_token": "a-2", "expires_in": 60})

    fake_provider.on("/signin", sign_in)
    fake_provider.on("/refresh", refresh)
    gateway = await start(
        **sign_in_provider(fake_provider, token_response=None, refresh_url=f"{fake_provider.url}/refresh")
    )
    await import_connection(gateway, credentials=LOGIN)
    advance_clock(61)
    connection = await read(gateway, refresh_token="true")
    assert (connection["credentials"]["token"], connection["credentials"]["refresh_token"]) == ("a-2", "r-1")
    alive.clear()
    advance_clock(61)
    assert (await read(gateway))["credentials"]["token"] == "a-1"
    assert [name for name, _ in calls] == ["sign-in", "refresh", "refresh", "sign-in"]


async def test_members_that_only_the_login_returned_stay_usable_after_a_refresh(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    async def login(_: web.Request) -> web.Response:
        body = {"access_token": "a-1", "refresh_token": "r-1", "expires_in": 60}
        return web.json_response({**body, "session": {"site": {"name": "acme"}, "id": "s-1"}})

    async def refresh(_: web.Request) -> web.Response:
        return web.json_response({"access_token": "a-2", "expires_in": 60, "session": {"site": {}, "id": "s-2"}})

    async def api(request: web.Request) -> web.Response:
        return web.json_response({name: request.headers[f"X-{name}"] for name in ("Site", "Session", "Token")})

    for path, handler in {"/signin": login, "/refresh": refresh, "/api": api}.items():
        fake_provider.on(path, handler)
    session = {"x-site": "${step1.session.site.name}", "x-session": "${step1.session.id}"}
    proxy = {"headers": {**session, "x-token": "${step1.access_token}"}}
    gateway = await start(
        **sign_in_provider(fake_provider, token_response=None, refresh_url=f"{fake_provider.url}/refresh", proxy=proxy)
    )
    await import_connection(gateway, credentials=LOGIN)
    for number in (1, 2):
        async with gateway.call_proxy("c1") as response:
            expected = {"Site": "acme", "Session": f"s-{number}", "Token": f"a-{number}"}
            assert (response.status, await response.json()) == (200, expected)
        advance_clock(61)


async def test_a_token_that_is_a_jwt_has_its_own_expiry(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    count = 0

    async def sign_in(_: web.Request) -> web.Response:
        nonlocal count
        count += 1
        claims = base64.urlsafe_b64encode(json.dumps({"exp": epoch() + 100, "n": count}).encode()).decode().rstrip("=")
        return web.json_response({"access_token": f"h.{claims}.s"})

    fake_provider.on("/signin", sign_in)
    gateway = await start(**sign_in_provider(fake_provider, token_response=None))
    await import_connection(gateway, credentials=LOGIN)
    advance_clock(101)
    await read(gateway)
    assert count == 2


async def test_a_changed_password_needs_a_reconnect_but_is_tried_again(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    provider = SignInProvider(fake_provider)
    gateway = await start(**sign_in_provider(fake_provider))
    await import_connection(gateway, credentials=LOGIN)

    async def respond_401(_: web.Request) -> web.Response:
        return web.json_response({"message": "password was changed"}, status=401)

    fake_provider.on("/signin", respond_401)
    advance_clock(601)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 424
        body = (await response.json())["error"]
    assert body["payload"]["provider_message"] == "it returned 401: password was changed"
    fake_provider.on("/signin", provider.sign_in)
    advance_clock(60)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
