"""Lists of any length, with each kind of pagination that providers use. A record is generated from its number.

The JSON of a record is a formatted string, not the output of a JSON library. Many JSON libraries change the numbers of
a record: decimals with a zero at the end, and integers with more than 64 bits.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web

from gateway.sandbox.callers import AccessRefused, authenticated_caller
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker_api import BadPage, position_in, token_for

DEFAULT_COUNT: Final = 10_000
MAX_COUNT: Final = 1_000_000
PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 1000


def record(number: int) -> str:
    """Return the record with this number as JSON. Each list begins with record 1."""
    cents = number * 10
    return (
        f'{{"id":{number},"name":"Record {number}","amount":{cents // 100}.{cents % 100:02},'
        f'"serial":{10**20 + number},"tags":["list","{"even" if number % 2 == 0 else "odd"}"]}}'
    )


async def list_by_cursor(request: web.Request) -> web.Response:
    """Handle ``GET /lists/cursor?cursor=…``: return ``{"items": […], "next_cursor": …}``.

    ``next_cursor`` is null on the last page.
    """
    count, size = _count_and_size(request)
    try:
        start = position_in(request.query["cursor"]) if request.query.get("cursor") else 0
    except BadPage as fault:
        raise AccessRefused(400, str(fault)) from fault
    has_more = start + size < count
    return _response("items", start, size, count, next_cursor=token_for(start + size) if has_more else None)


async def list_by_link_header(request: web.Request) -> web.Response:
    """Handle ``GET /lists/link-header?page=1``: return an array, with links to other pages in Link (RFC 8288)."""
    count, size = _count_and_size(request)
    page = _number(request, "page", 1, MAX_COUNT)
    pages_by_relation = {"first": 1, "prev": page - 1, "next": page + 1, "last": -(-count // size)}
    links = [
        f'<{_url(request, page=number)}>; rel="{rel}"'
        for rel, number in pages_by_relation.items()
        if 1 <= number <= pages_by_relation["last"]
    ]
    response = web.Response(text=_array((page - 1) * size, size, count), content_type="application/json")
    response.headers[hdrs.LINK] = ", ".join(links)
    return response


async def list_by_link_in_body(request: web.Request) -> web.Response:
    """Handle ``GET /lists/link-body?start=0``: return ``{"data": […], "links": {"next": …}}``.

    ``next`` is null on the last page.
    """
    count, size = _count_and_size(request)
    start = _number(request, "start", 0, MAX_COUNT)
    next_url = _url(request, start=start + size) if start + size < count else None
    return _response("data", start, size, count, links={"next": next_url})


async def list_by_page(request: web.Request) -> web.Response:
    """Handle ``GET /lists/page?page=1``: return ``{"results": […], "page": 1}``.

    Pages after the last page are empty.
    """
    count, size = _count_and_size(request)
    page = _number(request, "page", 1, MAX_COUNT)
    return _response("results", max(page - 1, 0) * size, size, count, page=page)


async def list_by_offset(request: web.Request) -> web.Response:
    """Handle ``GET /lists/offset?offset=0``: return ``{"values": […], "offset": 0, "total": 10000}``.

    ``values`` is empty after the last record.
    """
    count, size = _count_and_size(request)
    start = _number(request, "offset", 0, MAX_COUNT)
    return _response("values", start, size, count, offset=start, total=count)


def _count_and_size(request: web.Request) -> tuple[int, int]:
    """Check the access token; return the number of records, and the page size."""
    authenticated_caller(request)
    count = _number(request, "count", DEFAULT_COUNT, MAX_COUNT)
    return count, min(max(_number(request, "limit", PAGE_SIZE, MAX_COUNT), 1), MAX_PAGE_SIZE)


def _response(name: str, start: int, size: int, count: int, **members: Any) -> web.Response:
    other_members = json.dumps(members)[1:-1]
    text = f'{{"{name}":{_array(start, size, count)},{other_members}}}'
    return web.Response(text=text, content_type="application/json")


def _array(start: int, size: int, count: int) -> str:
    return "[" + ",".join(record(number) for number in range(start + 1, min(start + size, count) + 1)) + "]"


def _url(request: web.Request, **changes: int) -> str:
    query: Mapping[str, Any] = {**request.query, **changes}
    return f"{request.app[SANDBOX].issuer}{request.path}?{urlencode(query)}"


def _number(request: web.Request, name: str, default: int, maximum: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) > maximum:
        raise AccessRefused(400, f"{name} must be a whole number up to {maximum}.")
    return int(text)
