"""Submits forms of the gateway's pages as a browser does: loads the page, then sends the form with its hidden inputs."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Final

import aiohttp

BROWSER: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')

ACTION: Final = re.compile(r'<form method="post" action="([^"]+)"')


def hidden_inputs(html: str) -> dict[str, str]:
    """Return the hidden inputs of the page's form."""
    return {name: unescape(value) for name, value in HIDDEN.findall(html)}


async def submit(
    http: aiohttp.ClientSession, url: str, typed: Mapping[str, str] | None = None, **options: object
) -> aiohttp.ClientResponse:
    """Submit the form at `url` with the fields `typed`. Return the response, whose body was read. `options`: arguments
    of the POST.
    """
    async with http.get(url, headers=BROWSER) as page:
        html = await page.text()
    form = {**hidden_inputs(html), **(typed or {})}
    action = unescape(ACTION.search(html)[1])  # type: ignore[index]
    async with http.post(action, data=form, **options) as response:  # type: ignore[arg-type]
        await response.read()
        return response


async def consent_url(http: aiohttp.ClientSession, url: str, typed: Mapping[str, str] | None = None) -> str:
    """Submit the form at `url`. Return the provider's URL to which the response sends the browser."""
    response = await submit(http, url, typed)
    html = await response.text()
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', html)
    assert found is not None, html
    return unescape(found[1])
