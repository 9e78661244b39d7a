"""The scripted token endpoint works with the installed aiohttp."""

import aiohttp
from aiohttp import web
from aioresponses import aioresponses
from pytest_aiohttp.plugin import AiohttpClient

from tests.fakes.idp import token_endpoint  # noqa: F401  (a fixture)

URL = "https://auth.example.com/token"


async def test_scripted_endpoint_sends_scripted_responses_and_records_requests(token_endpoint: aioresponses) -> None:  # noqa: F811
    token_endpoint.post(URL, payload={"access_token": "at"}, headers={"Cache-Control": "no-store"})
    token_endpoint.post(URL, status=400, body="<html>")
    async with aiohttp.ClientSession() as session:
        async with session.post(URL, data={"grant_type": "refresh_token"}) as response:
            assert (response.status, await response.json()) == (200, {"access_token": "at"})
            assert response.headers["Cache-Control"] == "no-store"
        async with session.post(URL) as response:
            assert (response.status, await response.read()) == (400, b"<html>")
    (calls,) = token_endpoint.requests.values()
    assert calls[0].kwargs["data"] == {"grant_type": "refresh_token"}


async def test_requests_to_local_servers_are_really_sent(
    token_endpoint: aioresponses,  # noqa: F811
    aiohttp_client: AiohttpClient,
) -> None:
    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="real")

    app = web.Application()
    app.router.add_get("/", hello)
    client = await aiohttp_client(app)
    async with client.get("/") as response:
        assert await response.text() == "real"
