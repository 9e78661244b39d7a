"""Lists with each pagination type: every record once, the same in each, with a recognizable end."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from gateway.sandbox.lists import record
from tests.gateway.sandbox.conftest import Application

Following = Callable[[str, Any, "aiohttp.ClientResponse"], str | None]


def next_by_cursor(path: str, page: Any, _response: aiohttp.ClientResponse) -> str | None:
    return f"{path}&cursor={page['next_cursor']}" if page["next_cursor"] else None


def next_by_header(_path: str, _page: Any, response: aiohttp.ClientResponse) -> str | None:
    link = response.links.get("next")
    return None if link is None else link["url"].path_qs


def next_by_body(_path: str, page: Any, _response: aiohttp.ClientResponse) -> str | None:
    link = page["links"]["next"]
    return None if link is None else urlsplit(link).path + "?" + urlsplit(link).query


def next_by_page(path: str, page: Any, _response: aiohttp.ClientResponse) -> str | None:
    return f"{path}&page={page['page'] + 1}" if page["results"] else None


def next_by_offset(path: str, page: Any, _response: aiohttp.ClientResponse) -> str | None:
    return f"{path}&offset={page['offset'] + len(page['values'])}" if page["values"] else None


@pytest.mark.parametrize(
    ("name", "where", "following"),
    [
        ("cursor", "items", next_by_cursor),
        ("link-header", None, next_by_header),
        ("link-body", "data", next_by_body),
        ("page", "results", next_by_page),
        ("offset", "values", next_by_offset),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 7, 8])
async def test_each_pagination_type_returns_all_records(
    application: Application, name: str, where: str | None, following: Following, count: int
) -> None:
    token = (await application.connect())["access_token"]
    start: str | None = f"/lists/{name}?count={count}&limit=4"
    path, seen = start, []
    while path is not None:
        headers = {"Authorization": f"Bearer {token}"}
        async with application.browser.get(application.base + path, headers=headers) as response:
            assert response.status == 200
            page = await response.json()
            assert start is not None
            path = following(start, page, response)
            seen += [item["id"] for item in (page if where is None else page[where])]
    assert seen == list(range(1, count + 1))


def test_a_record_has_numbers_that_some_json_libraries_change() -> None:
    text = record(10)
    assert '"amount":1.00,' in text
    assert '"serial":100000000000000000010,' in text
    assert json.loads(text)["tags"] == ["list", "even"]


@pytest.mark.parametrize("query", ["count=-1", "count=1000001", "limit=x", "page=1.5"])
async def test_an_invalid_request_is_refused(application: Application, query: str) -> None:
    token = (await application.connect())["access_token"]
    status, response = await application.get(f"/lists/page?{query}", token)
    assert (status, list(response)) == (400, ["errorMessages", "errors"])


async def test_cursor_that_the_sandbox_did_not_issue_is_refused(application: Application) -> None:
    token = (await application.connect())["access_token"]
    assert (await application.get("/lists/cursor?cursor=abc", token))[0] == 400


async def test_list_needs_a_token(application: Application) -> None:
    assert (await application.get("/lists/cursor", "none"))[0] == 401
