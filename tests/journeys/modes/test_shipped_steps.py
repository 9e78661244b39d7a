"""Shipped entries whose provider needs a special step, each with a fake of the provider."""

import hmac
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import web

from gateway import clock
from tests.fakes.gateways import RunningGateway, document
from tests.fakes.internet import (
    AccountHosts,
    CompanyPages,
    DropsState,
    Internet,
    LongLivedTokens,
    StateInExchange,
    internet,
)

CLIENT = {"client_id": "our client", "client_secret": "our secret"}


@pytest.fixture
async def fake_internet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    async with internet(monkeypatch) as made:
        yield made


@pytest.fixture
async def start(fake_internet: Internet, tmp_path: Path) -> AsyncIterator[Any]:
    """Return a function that starts a gateway with a shipped provider for integration `tracker`.

    Arguments: the provider's name, and configuration keys of the integration.
    """
    async with AsyncExitStack() as stack:

        async def start_gateway(provider: str, **integration: Any) -> RunningGateway:
            configuration = document([f"127.0.0.1/32:{fake_internet.port}"])
            configuration["catalog"] = []
            configuration["environments"]["dev"]["integrations"]["tracker"] = {"provider": provider, **integration}
            gateway = RunningGateway(tmp_path, configuration)
            await gateway.start()
            stack.push_async_callback(gateway.stop)
            return gateway

        yield start_gateway


async def consent(gateway: RunningGateway, **params: str) -> dict[str, str]:
    """Begin an authorization as a browser does. Return the query parameters that the provider receives."""
    session = await gateway.session_token()
    query = {"connect_session_token": session, **{f"params[{name}]": text for name, text in params.items()}}
    begin = gateway.http.get(f"{gateway.url}/oauth/connect/tracker", params=query, allow_redirects=False)
    async with begin as response:
        return dict(parse_qsl(urlsplit(response.headers["Location"]).query))


async def load_callback(gateway: RunningGateway, url: str, expect: int = 200) -> str:
    """Open the callback URL in the browser and return the page."""
    async with gateway.http.get(url) as response:
        html = await response.text()
        assert response.status == expect, html
        return html


async def connect_by_consent(gateway: RunningGateway, **params: str) -> str:
    """Walk through the consent and return the ID of the new connection."""
    query = await consent(gateway, **params)
    await load_callback(gateway, f"{query['redirect_uri']}?code=c-1&state={query['state']}")
    (connection,) = (await gateway.json("GET", "/connections"))["connections"]
    return str(connection["connection_id"])


async def read_connection(gateway: RunningGateway, connection_id: str, query: str = "", expect: int = 200) -> Any:
    return await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker{query}", expect=expect)


@pytest.mark.parametrize(
    ("provider", "token_url", "graph", "prefix", "me"),
    [
        ("instagram", "https://api.instagram.com/oauth/access_token", "https://graph.instagram.com", "ig", "/me"),
        ("threads", "https://graph.threads.net/oauth/access_token", "https://graph.threads.net", "th", "/v1.0/me"),
    ],
)
async def test_a_short_lived_token_is_exchanged_for_a_long_lived_token_which_is_then_refreshed(
    fake_internet: Internet,
    start: Any,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    token_url: str,
    graph: str,
    prefix: str,
    me: str,
) -> None:
    passed = 0.0
    now, monotonic = clock.now, clock.monotonic
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=passed))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + passed)
    tokens = LongLivedTokens(fake_internet, token_url, graph, prefix, lambda: clock.now().timestamp())

    async def api(request: web.Request) -> web.Response:
        account = {"user_id": 17841400000000001, "id": 17841400000000001, "username": "ada"}
        return web.json_response(account, status=200 if tokens.is_valid_long_lived(request) else 401)

    fake_internet.on(f"{graph}{me}", api)
    gateway = await start(provider, **CLIENT)
    connection_id = await connect_by_consent(gateway)
    first = await read_connection(gateway, connection_id)
    assert first["credentials"]["access_token"] == "long-1"
    assert (first["account"]["id"], first["account"]["label"]) == ("17841400000000001", "ada")

    early = await read_connection(gateway, connection_id, "&force_refresh=true")
    assert early["credentials"]["access_token"] == "long-1"
    assert tokens.refreshes == 0  # the gateway sends no refresh, because the provider would refuse it
    passed = 59 * 86_400.0
    async with gateway.call_proxy(connection_id, me) as response:
        assert response.status == 200
    second = await read_connection(gateway, connection_id, "&force_refresh=true")
    assert (second["credentials"]["access_token"], tokens.refreshes) == ("long-2", 1)
    passed += 59 * 86_400.0  # at this time, the first token has expired
    async with gateway.call_proxy(connection_id, me) as response:
        assert response.status == 200


async def test_a_numeric_id_of_the_first_response_is_kept_as_a_setting(fake_internet: Internet, start: Any) -> None:
    LongLivedTokens(
        fake_internet,
        "https://api.instagram.com/oauth/access_token",
        "https://graph.instagram.com",
        "ig",
        lambda: clock.now().timestamp(),
    )
    gateway = await start("instagram", **CLIENT)
    item = await read_connection(gateway, await connect_by_consent(gateway))
    assert item["connection_config"]["user_id"] == "17841400000000001"
    assert item["credentials"]["raw"]["user_id"] == 17841400000000001


async def test_a_failed_exchange_creates_no_connection_and_shows_no_secret(fake_internet: Internet, start: Any) -> None:
    async def token(_request: web.Request) -> web.Response:
        return web.json_response({"access_token": "short-lived-token", "expires_in": 3600})

    async def respond_400(request: web.Request) -> web.Response:
        words = f"Invalid {request.query['access_token']} {request.query['client_secret']}"
        return web.json_response({"error": {"message": words}}, status=400)

    fake_internet.on("https://api.instagram.com/oauth/access_token", token)
    fake_internet.on("https://graph.instagram.com/access_token", respond_400)
    gateway = await start("instagram", client_id="our client", client_secret="a secret that is ours")
    query = await consent(gateway)
    html = await load_callback(gateway, f"{query['redirect_uri']}?code=c-1&state={query['state']}", expect=400)
    assert "did not exchange the code" in html
    assert "short-lived-token" not in html
    assert "a secret that is ours" not in html
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_token_of_facebook_is_exchanged_immediately(fake_internet: Internet, start: Any) -> None:
    requests: list[dict[str, str]] = []

    async def token(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response({"access_token": "short", "expires_in": 5000})
        requests.append(dict(request.query))
        return web.json_response({"access_token": "long", "token_type": "bearer"})

    fake_internet.on("https://graph.facebook.com/v25.0/oauth/access_token", token)
    gateway = await start("facebook", **CLIENT)
    item = await read_connection(gateway, await connect_by_consent(gateway))
    assert item["credentials"]["access_token"] == "long"
    # the expiry of the short-lived token does not apply to the long-lived token
    assert "expires_at" not in item["credentials"]
    wanted = {"grant_type": "fb_exchange_token", "fb_exchange_token": "short"}
    assert requests == [{**wanted, "client_id": "our client", "client_secret": "our secret"}]


@pytest.mark.parametrize(
    ("provider", "login", "host"),
    [
        ("docusign", "https://account.docusign.com", "https://eu.docusign.net"),
        ("docusign-sandbox", "https://account-d.docusign.com", "https://demo2.docusign.net"),
    ],
)
async def test_calls_go_to_the_host_that_userinfo_names(
    fake_internet: Internet, start: Any, provider: str, login: str, host: str
) -> None:
    AccountHosts(fake_internet, login, host)
    gateway = await start(provider, **CLIENT)
    connection_id = await connect_by_consent(gateway)
    item = await read_connection(gateway, connection_id)
    assert item["connection_config"] == {"baseUri": host, "accountId": "b"}
    assert (item["account"]["id"], item["account"]["label"]) == ("u-1", "ada@example.com")
    async with gateway.call_proxy(connection_id, "/restapi/v2.1/accounts/b") as response:
        assert response.status == 200
    # one call returns both the settings and the account
    assert fake_internet.seen.count(("GET", f"{login}/oauth/userinfo")) == 1
    elsewhere = {"Base-Url-Override": "https://na4.docusign.net"}
    async with gateway.call_proxy(connection_id, "/x", headers=elsewhere) as response:
        assert (response.status, fake_internet.seen[-1]) == (404, ("GET", "https://na4.docusign.net/x"))
    for foreign in ("https://docusign.net", "https://a.b.docusign.net", "https://evil-docusign.net"):
        async with gateway.call_proxy(connection_id, "/x", headers={"Base-Url-Override": foreign}) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (400, "base_url_override_not_allowed")


async def test_nothing_is_stored_where_the_host_is_not_found_or_not_the_providers(
    fake_internet: Internet, start: Any
) -> None:
    accounts = AccountHosts(fake_internet, "https://account.docusign.com", "https://docusign.example.com")
    gateway = await start("docusign", **CLIENT)
    for down, words in ((True, "whose account this credential belongs to"), (False, "baseUri")):
        accounts.down = down
        query = await consent(gateway)
        url = f"{query['redirect_uri']}?code=c-1&state={query['state']}"
        assert words in await load_callback(gateway, url, expect=400)
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_an_imported_connection_keeps_the_host_of_its_settings(fake_internet: Internet, start: Any) -> None:
    AccountHosts(fake_internet, "https://account.docusign.com", "https://eu.docusign.net")
    gateway = await start("docusign", **CLIENT)
    settings = {"baseUri": "https://na1.docusign.net", "accountId": "00000000-0000-0000-0000-000000000001"}
    await gateway.import_connection({"access_token": "t-1"}, connection_config=settings)
    async with gateway.call_proxy("c1") as response:
        assert (response.status, fake_internet.seen[-1]) == (404, ("GET", "https://na1.docusign.net/x"))


async def test_state_is_sent_in_the_exchange_if_the_provider_requires_it(fake_internet: Internet, start: Any) -> None:
    provider = StateInExchange(fake_internet)
    gateway = await start("dropbox-sign", **CLIENT)
    query = await consent(gateway)
    provider.state = query["state"]
    await load_callback(gateway, f"{query['redirect_uri']}?code=c-1&state={query['state']}")
    assert len((await gateway.json("GET", "/connections"))["connections"]) == 1


async def test_state_that_the_provider_drops_is_in_the_callback_url(fake_internet: Internet, start: Any) -> None:
    provider = DropsState(fake_internet)
    gateway = await start("mixcloud", **CLIENT)
    query = await consent(gateway)
    assert "state" not in query
    url = provider.back(query)
    gateway.http.cookie_jar.clear()  # another browser has the URL but not the cookie
    await load_callback(gateway, url, expect=400)
    assert (await gateway.json("GET", "/connections"))["connections"] == []
    await load_callback(gateway, provider.back(await consent(gateway)))
    assert len((await gateway.json("GET", "/connections"))["connections"]) == 1


async def test_the_next_page_may_be_on_another_host_of_the_provider(fake_internet: Internet, start: Any) -> None:
    CompanyPages(fake_internet, "acme.api.frontapp.com")
    gateway = await start("front-api-key")
    await imported_key(fake_internet, gateway)
    *records, trailer = await pages(gateway)
    assert [record["id"] for record in records] == ["tea_1", "tea_2"]
    assert trailer["gateway_trailer"]["complete"]


async def test_a_next_page_on_a_foreign_host_is_not_followed(fake_internet: Internet, start: Any) -> None:
    CompanyPages(fake_internet, "acme.api.frontapp.com.example.com")
    gateway = await start("front-api-key")
    await imported_key(fake_internet, gateway)
    *records, trailer = await pages(gateway)
    assert [record["id"] for record in records] == ["tea_1"]
    assert trailer["gateway_trailer"]["error"]["code"] == "next_page_refused"


async def pages(gateway: RunningGateway) -> list[Any]:
    """Return all lines of a paged list."""
    async with gateway.call_proxy("c1", "/teammates", headers={"Gateway-Paginate": "all"}) as response:
        return [json.loads(line) for line in (await response.text()).splitlines()]


async def imported_key(fake_internet: Internet, gateway: RunningGateway) -> None:
    async def me(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers["Authorization"] == "Bearer the-key" else 401)

    fake_internet.on("https://api2.frontapp.com/me", me)
    credentials = {"type": "API_KEY", "apiKey": "the-key"}
    body = {"provider_config_key": "tracker", "connection_id": "c1", "credentials": credentials}
    await gateway.json("POST", "/connections", json=body, expect=201)


async def test_fitbit_signs_webhooks_with_the_client_secret_and_an_ampersand(start: Any) -> None:
    gateway = await start("fitbit", **CLIENT)
    body = b'[{"collectionType": "activities"}]'
    for key, status in ((b"our secret&", 200), (b"our secret", 401)):
        signature = b64encode(hmac.digest(key, body, "sha1")).decode()
        headers = {"X-Fitbit-Signature": signature, "Content-Type": "application/json"}
        async with gateway.http.post(f"{gateway.url}/webhook/dev/tracker", data=body, headers=headers) as response:
            assert response.status == status, await response.text()


async def test_an_integration_that_gains_a_scope_marks_its_connections(fake_internet: Internet, start: Any) -> None:
    async def token(_request: web.Request) -> web.Response:
        return web.json_response({"access_token": "t", "token_type": "bearer", "scope": "read:user,gist"})

    async def user(_request: web.Request) -> web.Response:
        return web.json_response({"id": 1, "login": "ada"})

    fake_internet.on("https://github.com/login/oauth/access_token", token)
    fake_internet.on("https://api.github.com/user", user)
    gateway = await start("github", **CLIENT, scopes=["read:user"])
    connection_id = await connect_by_consent(gateway)
    item = await read_connection(gateway, connection_id, "&include=history")
    assert item["scopes"] == {"granted": ["read:user", "gist"], "needed": ["read:user"], "missing": []}
    assert "scopes_missing" not in {cause["cause"] for cause in item["diagnosis"]["causes"]}
    gateway.document["environments"]["dev"]["integrations"]["tracker"]["scopes"] = ["read:user", "repo"]
    await gateway.restart()
    item = await read_connection(gateway, connection_id, "&include=history")
    assert item["scopes"]["missing"] == ["repo"]
    (cause,) = [cause for cause in item["diagnosis"]["causes"] if cause["cause"] == "scopes_missing"]
    assert "'repo'" in cause["why"]
    assert item["diagnosis"]["action"]["do"] == "reconnect"
    assert "scopes" not in await read_connection(gateway, connection_id)
