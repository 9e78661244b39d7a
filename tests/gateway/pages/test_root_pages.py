"""Browsers get pages at the gateway's root and at unknown URLs; programs get the API's errors."""

import pytest

from tests.fakes.console import switch_on
from tests.fakes.gateways import RunningGateway

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def test_a_browser_gets_a_start_page_with_links(running: RunningGateway) -> None:
    async with running.http.get(running.url + "/", headers=BROWSER) as response:
        text = await response.text()
        assert (response.status, response.content_type) == (200, "text/html")
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        assert "Gateway-Error" not in response.headers
    assert "This gateway is ready." in text
    assert all(f'href="{running.url}{path}"' in text for path in ("/docs", "/guides", "/openapi.json"))
    assert f'href="{running.url}/console"' not in text
    switch_on(running)
    async with running.http.get(running.url + "/", headers=BROWSER) as response:
        text = await response.text()
    assert f'href="{running.url}/console"' in text
    assert "gateway console" in text


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/json, text/plain, */*"])
@pytest.mark.parametrize("path", ["/", "/nowhere"])
@pytest.mark.asyncio(loop_scope="module")
async def test_program_gets_the_api_error(shared_gateway: RunningGateway, accept: str | None, path: str) -> None:
    headers = {} if accept is None else {"Accept": accept}
    async with shared_gateway.http.get(
        shared_gateway.url + path, headers=headers, skip_auto_headers=["Accept"]
    ) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/favicon.ico", 404, "not_found"),
        ("POST", "/", 404, "not_found"),
        ("GET", "/connect/sessions", 405, "method_not_allowed"),
        ("POST", "/docs", 405, "method_not_allowed"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_browser_gets_a_page_for_an_unknown_url(
    shared_gateway: RunningGateway, method: str, path: str, status: int, code: str
) -> None:
    body = b"x" if method == "POST" else None
    async with shared_gateway.http.request(method, shared_gateway.url + path, headers=BROWSER, data=body) as response:
        text = await response.text()
        assert (response.status, response.content_type, response.headers["Gateway-Error"]) == (
            status,
            "text/html",
            code,
        )
        assert response.headers["Gateway-Request-Id"] in text
        assert ("Allow" in response.headers) == (status == 405)
    assert f'href="{shared_gateway.url}/docs"' in text


async def test_search_text_is_not_on_the_page(running: RunningGateway) -> None:
    async with running.http.get(f"{running.url}/<script>alert(1)</script>?x=<b>", headers=BROWSER) as response:
        assert "alert" not in await response.text()


async def test_guides_are_found_and_paged(running: RunningGateway) -> None:
    async with running.http.get(f"{running.url}/guides", headers=BROWSER) as response:
        text = await response.text()
        assert response.status == 200
        assert len(await response.read()) <= 40_000
    assert "cursor=" in text
    async with running.http.get(f"{running.url}/guides?search=tracker", headers=BROWSER) as response:
        assert f'href="{running.url}/providers/tracker/guide"' in await response.text()
    async with running.http.get(f"{running.url}/guides?search=no+such+%3Cb%3E&cursor=x", headers=BROWSER) as response:
        text = await response.text()
    assert "No provider matches" in text
    assert "no such &lt;b&gt;" in text


@pytest.mark.asyncio(loop_scope="module")
async def test_docs_page_shows_each_response_with_an_example(shared_gateway: RunningGateway) -> None:
    async with shared_gateway.http.get(f"{shared_gateway.url}/docs", headers=BROWSER) as response:
        text = await response.text()
    assert response.status == 200
    assert text.count("<h4>Response</h4>") == text.count("<article") - text.split('id="schemas"')[1].count("<article")
    assert '<a href="#ConnectSessionResponse">ConnectSessionResponse</a>' in text
    assert "poll_url" in text.split('id="schemas"')[0]
