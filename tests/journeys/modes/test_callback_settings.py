"""Settings that arrive in the callback through the end user's browser, such as QuickBooks' `realmId`."""

from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider, connect, only_id

REALM = "${connectionConfig.realmId}"


class QuickbooksLikeProvider:
    """Names the company in the callback.

    `accessible`: the companies that each new token can access. `status`: the status of the response for every other
    company.
    """

    def __init__(self, fake_provider: FakeProvider, status: int = 403) -> None:
        self.back, self.accessible, self.status = "7", {"7"}, status
        self.issued = 0
        for path, handler in {"/consent": self.consent, "/token": self.token, "/api/company": self.company}.items():
            fake_provider.on(path, handler)

    async def consent(self, request: web.Request) -> web.Response:
        callback_query = f"code=c&state={request.query['state']}&realmId={self.back}"
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{callback_query}")

    async def token(self, request: web.Request) -> web.Response:
        assert parse_qs(await request.text())["code"] == ["c"]
        self.issued += 1
        return web.json_response({"access_token": f"t{self.issued}", "refresh_token": "r", "expires_in": 3600})

    async def company(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer t{self.issued}"
        if request.path.removeprefix("/api/company/") in self.accessible:
            return web.json_response({"name": "Ada's"})
        return web.json_response({"fault": "AuthorizationFault"}, status=self.status)


def entry(fake_provider: FakeProvider) -> dict[str, Any]:
    return {
        "auth_mode": "OAUTH2",
        "authorization_url": f"{fake_provider.url}/consent",
        "token_url": f"{fake_provider.url}/token",
        "redirect_uri_metadata": ["realmId"],
        "connection_config": {"realmId": {"automated": True}},
        "account": {"endpoint": f"/company/{REALM}", "label": ["name"]},
        "proxy": {"headers": {"authorization": "Bearer ${accessToken}"}},
    }


CLIENT = {"client_id": "c", "client_secret": "s"}


async def realm(gateway: RunningGateway) -> str:
    item = await gateway.json("GET", f"/connections/{await only_id(gateway)}?provider_config_key=tracker")
    return f"{item['connection_config']['realmId']} {item['credentials']['access_token']}"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_browser_cannot_name_the_account_of_another_customer(
    fake_provider: FakeProvider, start: Any, status: int
) -> None:
    quickbooks = QuickbooksLikeProvider(fake_provider, status)
    gateway = await start(CLIENT, **entry(fake_provider))
    quickbooks.back = "8"
    shown, html = await connect(gateway)
    assert (shown, f"has no access to the account that your browser returned with: realmId 8 ({status})." in html) == (
        400,
        True,
    )
    assert "exchange the code" not in html
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_reconnect_keeps_the_account_if_the_browser_names_another(
    fake_provider: FakeProvider, start: Any
) -> None:
    quickbooks = QuickbooksLikeProvider(fake_provider)
    gateway = await start(CLIENT, **entry(fake_provider))
    assert (await connect(gateway))[0] == 200
    assert await realm(gateway) == "7 t1"
    quickbooks.back = "8"
    body = {"connection_id": await only_id(gateway), "integration_id": "tracker"}
    session = await gateway.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    url = f"{gateway.url}/oauth/connect/tracker?connect_session_token={session['data']['token']}"
    async with gateway.http.get(url) as response:
        assert (response.status, "realmId 8 (403)" in await response.text()) == (400, True)
    assert await realm(gateway) == "7 t1"


async def test_an_outage_of_the_account_endpoint_loses_no_token(fake_provider: FakeProvider, start: Any) -> None:
    quickbooks = QuickbooksLikeProvider(fake_provider, 503)
    quickbooks.accessible.clear()
    gateway = await start(CLIENT, **entry(fake_provider))
    assert (await connect(gateway))[0] == 200
    assert await realm(gateway) == "7 t1"


async def test_account_is_not_checked_without_the_scope_that_reading_it_needs(
    fake_provider: FakeProvider, start: Any
) -> None:
    """With only the payments scope, a QuickBooks token can access no company."""
    quickbooks = QuickbooksLikeProvider(fake_provider)
    quickbooks.accessible.clear()
    gateway = await start({**CLIENT, "scopes": ["payment"]}, **entry(fake_provider), default_scopes=["accounting"])
    assert (await connect(gateway))[0] == 200
    assert await realm(gateway) == "7 t1"
