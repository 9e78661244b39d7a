"""Apps and plugins that an end user installs: APP, CUSTOM, INSTALL_PLUGIN."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from gateway.records.connection import ConnectionRef
from gateway.refresh.decision import Holder, RefreshStep
from gateway.refresh.protocol import FENCE
from tests.journeys.modes.conftest import FakeProvider, connect, import_connection, only_id, read

KEY = RSAKey.generate_key(2048)
PEM = KEY.as_pem(private=True).decode()


INSTALLATIONS = ("42", "43")  # the app is installed twice, for two different customers


class GithubLikeProvider:
    """Issues installation tokens to clients that sign as the app, and user tokens for codes.

    `accessible`: the installations that the user can access. `access_status`: if set, the status of the response when
    the gateway asks whether the user can access an installation. `refuses_client`: whether no client gets a user token.
    `loses_user_token`: whether the response with the user token is lost.
    """

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.fake_provider = fake_provider
        self.issued = 0
        self.back = "installation_id=42&setup_action=install"
        self.users = 0
        self.accessible = {"42"}
        self.access_status: int | None = None
        self.refuses_client = False
        self.loses_user_token = False
        for path, handler in {
            "/apps/ours/installations/new": self.install,
            "/app/installations": self.installation_token,
            "/login/token": self.user_token,
            "/user/installations": self.access,
            "/api": self.api,
        }.items():
            fake_provider.on(path, handler)

    async def install(self, request: web.Request) -> web.Response:
        callback_url = request.query.get("redirect_uri") or f"{self.gateway}/app-auth/connect"
        raise web.HTTPFound(f"{callback_url}?{self.back}&state={request.query['state']}")

    async def installation_token(self, request: web.Request) -> web.Response:
        claims = jwt.decode(request.headers["Authorization"].removeprefix("Bearer "), KEY, algorithms=["RS256"]).claims
        now = datetime.now(UTC).timestamp()
        if claims["iss"] != "app-7" or not claims["exp"] - claims["iat"] <= 600 or request.method != "POST":
            return web.json_response({"message": "A JSON web token could not be decoded"}, status=401)
        assert request.headers["X-Api-Version"] == "1"
        if request.path not in {f"/app/installations/{number}/access_tokens" for number in INSTALLATIONS}:
            return web.json_response({"message": "Not Found"}, status=404)
        self.issued += 1
        until = datetime.fromtimestamp(max(now, claims["iat"]), UTC) + timedelta(hours=1)
        return web.json_response({"token": f"ghs_{self.issued}", "expires_at": until.isoformat()}, status=201)

    async def access(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer ghu_{self.users}" or request.method != "GET":
            return web.json_response({"message": "Bad credentials"}, status=401)
        if self.access_status is not None:
            return web.json_response({"message": "no server"}, status=self.access_status)
        found = request.path in {f"/user/installations/{number}/repositories" for number in self.accessible}
        assert request.query_string == "per_page=1"
        assert request.headers["X-Api-Version"] == "1"
        body = {"total_count": 1} if found else {"message": "Not Found"}
        return web.json_response(body, status=200 if found else 404)

    async def user_token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.refuses_client:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.users += 1
        wanted = "the code" if form["grant_type"] == "authorization_code" else f"ghr_{self.users - 1}"
        if (form.get("code") or form.get("refresh_token")) != wanted:
            return web.json_response({"error": "bad_refresh_token"})
        if self.loses_user_token:
            return web.Response(status=502)
        result = {"access_token": f"ghu_{self.users}", "refresh_token": f"ghr_{self.users}", "expires_in": 28_800}
        return web.json_response(result)

    async def api(self, request: web.Request) -> web.Response:
        known = request.headers.get("Authorization") in {f"Bearer ghs_{self.issued}", f"Bearer ghu_{self.users}"}
        user = request.headers.get("X-User")
        return web.json_response({"user": user}, status=200 if known else 401)


def app(fake_provider: FakeProvider, **extra: Any) -> dict[str, Any]:
    setting = {"automated": True, "optional": True}
    return {
        "auth_mode": "APP",
        "authorization_url": "${connectionConfig.appPublicLink}/installations/new",
        "token_url": f"{fake_provider.url}/app/installations/${{connectionConfig.installation_id}}/access_tokens",
        "token_headers": {"x-api-version": "1"},
        "connection_config": {"appPublicLink": {**setting, "format": "uri"}, "installation_id": setting},
        **extra,
    }


def integration(fake_provider: FakeProvider) -> dict[str, Any]:
    return {"app_id": "app-7", "app_link": f"{fake_provider.url}/apps/ours", "private_key": PEM}


async def test_an_app_is_installed_and_its_token_is_refreshed(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(integration(fake_provider), **app(fake_provider))
    forge.gateway = gateway.url
    status, html = await connect(gateway)
    assert status == 200, html
    connection_id = await only_id(gateway)
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert (connection["credentials"]["type"], connection["credentials"]["access_token"]) == ("APP", "ghs_1")
    assert connection["connection_config"]["installation_id"] == "42"
    async with gateway.call_proxy(connection_id) as response:
        assert response.status == 200
    advance_clock(3601)
    async with gateway.call_proxy(connection_id) as response:
        assert response.status == 200
    assert forge.issued == 2


async def test_an_installation_is_imported_by_its_number(fake_provider: FakeProvider, start: Any) -> None:
    GithubLikeProvider(fake_provider)
    gateway = await start(integration(fake_provider), **app(fake_provider))
    imported = await import_connection(gateway, credentials={"type": "APP", "app_id": "app-7", "installation_id": "42"})
    assert (imported["credentials"]["access_token"], imported["connection_config"]["installation_id"]) == (
        "ghs_1",
        "42",
    )
    response = await import_connection(gateway, credentials={"type": "APP", "installation_id": "44"}, expect=400)
    assert "404: Not Found" in response["error"]["message"]


@pytest.mark.parametrize(
    ("back", "expected_text"),
    [
        ("setup_action=request", "must approve the installation first"),
        ("installation_id=../1&setup_action=install", "not installed"),
    ],
)
async def test_failed_installation_creates_no_connection(
    fake_provider: FakeProvider, start: Any, back: str, expected_text: str
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(integration(fake_provider), **app(fake_provider))
    forge.gateway, forge.back = gateway.url, back
    status, html = await connect(gateway)
    assert (status, expected_text in html) == (400, True)
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_an_app_and_its_users_grant_are_stored_together(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(
        {**integration(fake_provider), "client_id": "oauth-client", "client_secret": "oauth-secret"},
        **app(
            fake_provider,
            auth_mode="CUSTOM",
            token_url=f"{fake_provider.url}/login/token",
            installation_token_url=f"{fake_provider.url}/app/installations/${{connectionConfig.installation_id}}/access_tokens",
            proxy={"headers": {"authorization": "Bearer ${accessToken}", "x-user": "${credentials.raw.token}"}},
        ),
    )
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=42&setup_action=install"
    status, html = await connect(gateway)
    assert status == 200, html
    connection_id = await only_id(gateway)
    path = f"/connections/{connection_id}?provider_config_key=tracker"
    connection = await gateway.json("GET", path)
    assert (connection["credentials"]["type"], connection["credentials"]["access_token"]) == ("APP", "ghs_1")
    assert connection["credentials"]["user"]["access_token"] == "ghu_1"
    assert "refresh_token" not in str(connection)
    async with gateway.call_proxy(connection_id) as response:
        assert (await response.json())["user"] == "ghs_1"
    advance_clock(3601)
    connection = await gateway.json("GET", path)
    assert (connection["credentials"]["access_token"], connection["credentials"]["user"]["access_token"]) == (
        "ghs_2",
        "ghu_1",
    )
    assert not await rotates(gateway, connection_id)
    advance_clock(28_800 - 3601 - 600)
    connection = await gateway.json("GET", path)
    assert connection["credentials"]["user"]["access_token"] == "ghu_2"
    assert await rotates(gateway, connection_id), "the provider replaced the refresh token of the user's grant"


async def rotates(gateway: Any, connection_id: str) -> bool:
    """Return whether the gateway knows that the provider replaces this connection's refresh token."""
    row = await gateway.runtime.store.connections.get(("dev", "tracker", connection_id))
    known: bool = row.rotates
    return known


async def test_refresh_of_the_apps_token_that_another_machine_lost_is_repeated(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a refresh that also sends the refresh token of the user's grant can lose this token."""
    _, gateway, connection_id = await with_users_grant(fake_provider, start)
    advance_clock(28_800)
    assert (await refresh_and_read(gateway, connection_id))[0] == "ghu_2"
    store, ref = gateway.runtime.store, ConnectionRef("dev", "tracker", connection_id)
    row = await store.connections.get(ref)
    assert await store.refreshes.lease_refresh(ref, owner="dead", ttl=-FENCE, known_row=row, intent="digest")

    async def holder_elsewhere(_: Any) -> Holder:
        return Holder.ELSEWHERE

    monkeypatch.setattr(store.holders, "holder_of", holder_elsewhere)
    row = await store.connections.get(ref)
    assert row.rotates
    assert await gateway.runtime.refresher.next_step(row) is RefreshStep.SEND_AGAIN
    advance_clock(28_800 - 3600)
    assert await gateway.runtime.refresher.next_step(row) is RefreshStep.REPORT_LOST


async def with_users_grant(fake_provider: FakeProvider, start: Any) -> tuple[GithubLikeProvider, Any, str]:
    """Return the provider, the gateway and the id of a connection that has an installation and the user's grant."""
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(client_and_app(fake_provider), **with_user(fake_provider))
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=42&setup_action=install"
    assert (await connect(gateway))[0] == 200
    return forge, gateway, await only_id(gateway)


async def refresh_and_read(gateway: Any, connection_id: str) -> tuple[str | None, list[tuple[str, str]]]:
    """Refresh the connection. Return the user's token, and the states and reasons of the history."""
    path = f"/connections/{connection_id}?provider_config_key=tracker"
    shown = await gateway.json("GET", f"{path}&force_refresh=true")
    row = await gateway.runtime.store.connections.get(("dev", "tracker", connection_id))
    changes = await gateway.runtime.store.history.changes_of(row.id)
    user = shown["credentials"].get("user", {}).get("access_token")
    return user, [(change.state.value, change.reason) for change in changes]


def drop_reasons(logged: list[Any]) -> list[str]:
    return [event["reason"] for event in logged if event["event"] == "credential_part_dropped"]


async def test_refused_end_users_grant_is_dropped_and_reported(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge, gateway, connection_id = await with_users_grant(fake_provider, start)
    advance_clock(28_800)
    forge.users = 7  # the end user has revoked the grant, so the provider refuses the refresh token
    with structlog.testing.capture_logs() as logged:
        user, history = await refresh_and_read(gateway, connection_id)
    assert (user, history) == (None, [("active", "authorized"), ("active", "user_grant_refused")])
    assert drop_reasons(logged) == ["user_grant_refused"]
    async with gateway.call_proxy(connection_id) as response:
        assert response.status == 200, "the app's token still works"
    advance_clock(3601)
    assert await refresh_and_read(gateway, connection_id) == (None, history), "it is reported once"


async def test_end_users_grant_whose_refresh_lost_its_response_is_reported_as_lost(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge, gateway, connection_id = await with_users_grant(fake_provider, start)
    advance_clock(28_800)
    forge.loses_user_token = True
    path = f"/connections/{connection_id}?provider_config_key=tracker&force_refresh=true"
    await gateway.json("GET", path, expect=503)
    forge.loses_user_token = False
    advance_clock(3600)
    with structlog.testing.capture_logs() as logged:
        user, history = await refresh_and_read(gateway, connection_id)
    assert user is None
    assert history[-1] == ("active", "rotation_lost")
    assert drop_reasons(logged) == ["rotation_lost"]


async def test_refused_client_keeps_the_end_users_grant(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge, gateway, connection_id = await with_users_grant(fake_provider, start)
    advance_clock(28_800)
    forge.refuses_client = True
    assert await refresh_and_read(gateway, connection_id) == ("ghu_1", [("active", "authorized")])
    forge.refuses_client = False
    advance_clock(3601)
    assert (await refresh_and_read(gateway, connection_id))[0] == "ghu_2"


def with_user(fake_provider: FakeProvider, **extra: Any) -> dict[str, Any]:
    """Return the entry of an app that also requests the end user's grant, to check the user's access to the
    installation.
    """
    number = "${connectionConfig.installation_id}"
    return app(
        fake_provider,
        auth_mode="CUSTOM",
        token_url=f"{fake_provider.url}/login/token",
        installation_token_url=f"{fake_provider.url}/app/installations/{number}/access_tokens",
        installation_access_url=f"{fake_provider.url}/user/installations/{number}/repositories?per_page=1",
        **extra,
    )


def client_and_app(fake_provider: FakeProvider) -> dict[str, Any]:
    return {**integration(fake_provider), "client_id": "oauth-client", "client_secret": "oauth-secret"}


def requested_paths(fake_provider: FakeProvider) -> list[str]:
    """Return the paths that were requested after the installation page."""
    return [path for path in fake_provider.paths() if not path.endswith("/new")]


async def test_an_end_user_connects_an_installation_that_this_user_can_access(
    fake_provider: FakeProvider, start: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(client_and_app(fake_provider), **with_user(fake_provider))
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=42&setup_action=install"
    status, html = await connect(gateway)
    assert status == 200, html
    assert requested_paths(fake_provider) == [
        "/login/token",
        "/user/installations/42/repositories",
        "/app/installations/42/access_tokens",
    ]
    connection_id = await only_id(gateway)
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert (connection["credentials"]["access_token"], connection["connection_config"]["installation_id"]) == (
        "ghs_1",
        "42",
    )


async def test_an_installation_of_another_customer_is_refused_and_nothing_is_stored(
    fake_provider: FakeProvider, start: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(client_and_app(fake_provider), **with_user(fake_provider))
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=43&setup_action=install"
    status, html = await connect(gateway)
    assert status == 400
    assert "Your account at Far cannot access installation 43 (404: Not Found)." in html
    assert forge.issued == 0
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_reconnect_does_not_replace_the_installation_by_one_of_another_customer(
    fake_provider: FakeProvider, start: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(client_and_app(fake_provider), **with_user(fake_provider))
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=42&setup_action=install"
    assert (await connect(gateway))[0] == 200
    connection_id = await only_id(gateway)
    forge.back = forge.back.replace("42", "43")
    body = {"connection_id": connection_id, "integration_id": "tracker"}
    session = await gateway.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    url = f"{gateway.url}/oauth/connect/tracker?connect_session_token={session['data']['token']}"
    async with gateway.http.get(url) as response:
        assert (response.status, "cannot access installation 43" in await response.text()) == (400, True)
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert (connection["credentials"]["access_token"], connection["connection_config"]["installation_id"]) == (
        "ghs_1",
        "42",
    )
    assert forge.issued == 1


async def test_a_failing_check_of_an_installation_is_temporary(fake_provider: FakeProvider, start: Any) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(client_and_app(fake_provider), **with_user(fake_provider))
    forge.gateway, forge.back = gateway.url, "code=the%20code&installation_id=42&setup_action=install"
    forge.access_status = 503
    status, html = await connect(gateway)
    assert (status, "can access installation 42: the check returned 503." in html) == (400, True)
    assert "tracker" in html
    assert ("cannot access" in html, "exchange the code" in html) == (False, False)
    assert (forge.issued, (await gateway.json("GET", "/connections"))["connections"]) == (0, [])
    forge.access_status, forge.users = None, 0
    assert (await connect(gateway))[0] == 200


async def test_before_the_app_is_installed_the_users_grant_is_used(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    forge = GithubLikeProvider(fake_provider)
    gateway = await start(
        {**integration(fake_provider), "client_id": "oauth-client", "client_secret": "oauth-secret"},
        **app(
            fake_provider,
            auth_mode="CUSTOM",
            token_url=f"{fake_provider.url}/login/token",
            installation_token_url=f"{fake_provider.url}/nowhere",
        ),
    )
    forge.gateway, forge.back = gateway.url, "code=the%20code"
    assert (await connect(gateway))[0] == 200
    connection_id = await only_id(gateway)
    advance_clock(28_801)
    async with gateway.call_proxy(connection_id) as response:
        assert response.status == 200
    assert forge.users == 2


async def test_an_installed_plugin_sends_its_own_key(fake_provider: FakeProvider, start: Any) -> None:
    pair = "Basic " + base64.b64encode(b"plugin-id:plugin-key").decode()

    async def install(request: web.Request) -> web.Response:
        callback_url = f"{gateway.url}/oauth/callback?website_id=w-9&payload={request.query['payload']}"
        raise web.HTTPFound(callback_url)

    async def api(request: web.Request) -> web.Response:
        right = request.headers["Authorization"] == pair and request.path == "/api/website/w-9"
        return web.json_response({}, status=200 if right else 401)

    fake_provider.on("/install", install)
    fake_provider.on("/api", api)
    plugin = {"client_id": "plugin-id", "client_secret": "plugin-key", "app_link": f"{fake_provider.url}/install"}
    gateway = await start(
        plugin,
        auth_mode="INSTALL_PLUGIN",
        redirect_uri_metadata=["website_id"],
        proxy={"base_url": f"{fake_provider.url}/api/website/${{connectionConfig.website_id}}"},
    )
    status, html = await connect(gateway)
    assert status == 200, html
    connection_id = await only_id(gateway)
    async with gateway.call_proxy(connection_id, "") as response:
        assert response.status == 200
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert connection["credentials"] == {"type": "BASIC", "username": "plugin-id", "password": "plugin-key"}
    config = {"website_id": "w-9"}
    credentials = {"type": "INSTALL_PLUGIN", "username": "plugin-id", "password": "plugin-key"}
    await import_connection(gateway, credentials=credentials, connection_config=config)
    async with gateway.call_proxy("c1", "") as response:
        assert response.status == 200
    assert (await read(gateway))["connection_config"] == config
