"""OAUTH2 with deviations of single providers: other parameter names, tokens in other places, another grant for
refreshes.
"""

from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from tests.journeys.modes.conftest import FakeProvider, connect, import_connection, only_id

CLIENT = {"client_id": "our client", "client_secret": "our secret"}


async def test_parameters_have_the_providers_names_in_every_request(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    requests: list[dict[str, Any]] = []

    async def authorize(request: web.Request) -> web.Response:
        query = dict(request.query)
        assert query["client_key"] == "our client"
        assert "client_id" not in query
        assert "response_type" not in query
        raise web.HTTPFound(f"{query['redirect_uri']}?auth_code=c-1&state={query['state']}")

    async def token(request: web.Request) -> web.Response:
        requests.append(await request.json())
        data = {"access_token": f"a-{len(requests)}", "refresh_token": f"r-{len(requests)}", "expires_in": 60_000}
        return web.json_response({"code": 0, "data": {**data, "open_id": "o-1"}})

    fake_provider.on("/authorize", authorize)
    fake_provider.on("/token", token)
    gateway = await start(
        CLIENT,
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        authorization_param_renames={"client_id": "client_key", "response_type": ""},
        authorization_code_param_in_callback="auth_code",
        token_param_renames={"client_id": "client_key", "code": "auth_code", "redirect_uri": ""},
        refresh_param_renames={"client_id": "client_key", "refresh_token": "renew_with"},
        body_format="json",
        expires_in_unit="milliseconds",
        token_response={
            "token_path": "data.access_token",
            "refresh_token_path": "data.refresh_token",
            "expiry_path": "data.expires_in",
        },
        token_response_metadata=["data.open_id"],
    )
    status, html = await connect(gateway)
    assert status == 200, html
    assert requests[0].keys() >= {"client_key", "auth_code", "code_verifier"}
    assert not requests[0].keys() & {"client_id", "code", "redirect_uri"}
    connection_id = await only_id(gateway)
    advance_clock(61)
    path = f"/connections/{connection_id}?provider_config_key=tracker"
    connection = await gateway.json("GET", path)
    assert (connection["credentials"]["access_token"], requests[1]["renew_with"]) == ("a-2", "r-1")
    assert connection["connection_config"]["data.open_id"] == "o-1"


async def test_a_valid_access_token_is_exchanged_if_there_are_no_refresh_tokens(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    requests: list[dict[str, str]] = []

    async def exchange(request: web.Request) -> web.Response:
        assert request.method == "GET"
        requests.append(dict(request.query))
        return web.json_response({"access_token": f"long-{len(requests)}", "expires_in": 3600})

    fake_provider.on("/token", exchange)
    gateway = await start(
        CLIENT,
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        refresh={"method": "GET", "by_access_token": True},
        refresh_params={"grant_type": "fb_exchange_token"},
        refresh_param_renames={"refresh_token": "fb_exchange_token"},
    )
    await import_connection(gateway, credentials={"type": "OAUTH2", "access_token": "short", "expires_in": 3600})
    advance_clock(3600 - 100)  # within the refresh window, because only a valid token can be exchanged
    await gateway.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true", expect=200)
    assert requests[0] == {
        "grant_type": "fb_exchange_token",
        "fb_exchange_token": "short",
        "client_id": "our client",
        "client_secret": "our secret",
    }
    connection = await gateway.json("GET", "/connections/c1?provider_config_key=tracker")
    assert connection["credentials"]["access_token"] == "long-1"


async def test_a_single_page_consent_gets_the_request_after_its_client_side_route(
    fake_provider: FakeProvider, start: Any
) -> None:
    gateway = await start(
        CLIENT,
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/",
        authorization_url_fragment="/oauth-authorize",
        token_url=f"{fake_provider.url}/token",
    )
    token = await gateway.session_token()
    url = f"{gateway.url}/oauth/connect/tracker?connect_session_token={token}"
    async with gateway.http.get(url, allow_redirects=False) as response:
        base, _, fragment = response.headers["Location"].partition("#")
    assert base == f"{fake_provider.url}/"
    route, _, query = fragment.partition("?")
    assert (route, dict(parse_qsl(query))["client_id"]) == ("/oauth-authorize", "our client")


async def test_given_settings_choose_the_alternative_of_a_url(fake_provider: FakeProvider, start: Any) -> None:
    requests: list[str] = []

    async def token(request: web.Request) -> web.Response:
        requests.append(request.path)
        return web.json_response({"access_token": "t", "expires_in": 60})

    async def api(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    fake_provider.on("/", token)
    fake_provider.on("/api", api)
    gateway = await start(
        auth_mode="OAUTH2_CC",
        token_url=f"{fake_provider.url}/token/${{connectionConfig.site}}",
        connection_config={"site": {"optional": True}, "own": {"optional": True}},
        alternatives={
            "token_url": [f"{fake_provider.url}/own/${{connectionConfig.own}}"],
            "proxy.base_url": [f"{fake_provider.url}/api/own/${{connectionConfig.own}}"],
        },
        proxy={"base_url": f"{fake_provider.url}/api/${{connectionConfig.site}}"},
    )
    credentials = {"type": "OAUTH2_CC", "client_id": "c", "client_secret": "s"}
    for config, token_path, path in (
        ({"site": "acme"}, "/token/acme", "/api/acme/x"),
        ({"own": "mine"}, "/own/mine", "/api/own/mine/x"),
    ):
        await import_connection(gateway, credentials=credentials, connection_config=config)
        async with gateway.call_proxy("c1") as response:
            assert (requests[-1], (await response.json())["path"]) == (token_path, path)
