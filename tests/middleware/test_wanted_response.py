"""The values of Gateway-Paginate and Gateway-Paginate-From, errors for wrong values, and decoding of content
codings."""

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.facts import CONNECTION, DECODER, PROXY_OPTIONS
from gateway.middleware.wanted_response import decompress
from tests.fakes.lists import CURSOR, PagedReply, import_connection, paged, pages_of
from tests.fakes.proxy_end import opened_at


def issues(result: PagedReply) -> list[tuple[str, ...]]:
    assert (result.status, result.headers["Gateway-Error"]) == (400, "invalid_headers")
    return [tuple(issue["path"]) for issue in result.error["errors"]]


async def test_number_of_pages_is_limited_and_the_cursor_continues(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(5)) as paged_gateway:
        first = await paged_gateway.call("2")
        assert (first.numbers, first.headers["Gateway-Paginate"]) == ([1, 2, 3, 4], "2;type=cursor")
        assert (first.trailer["complete"], first.trailer["pages"], "error" in first.trailer) == (False, 2, False)
        second = await paged_gateway.call("2", since=first.trailer["cursor"])
        assert second.numbers == [5, 6, 7, 8]
        rest = await paged_gateway.call(None, since=second.trailer["cursor"])
        assert (rest.numbers, rest.trailer["complete"]) == ([9, 10], True)
        assert "cursor" not in rest.trailer
        assert (await paged_gateway.call("5")).trailer["complete"]


async def test_with_marks_each_page_is_followed_by_a_cursor(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        response = await paged_gateway.call("all; marks")
        assert [(mark["pages"], mark["records"]) for mark in response.marks] == [(1, 2), (2, 4)]
        assert response.numbers == [1, 2, 3, 4, 5, 6]
        for mark in response.marks:
            rest = await paged_gateway.call(since=mark["cursor"])
            assert rest.numbers == response.numbers[mark["records"] :]


async def test_cursor_keeps_its_pagination_method_after_the_entry_changes(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3), None) as paged_gateway:
        first = await paged_gateway.call("1; type=cursor; cursor_path=next; cursor_name=after")
        assert (await paged_gateway.call(since=first.trailer["cursor"])).numbers == [3, 4, 5, 6]


async def test_cursor_is_valid_after_a_restart(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        first = await paged_gateway.call("1")
        await paged_gateway.gateway.restart()
        assert (await paged_gateway.call(since=first.trailer["cursor"])).numbers == [3, 4, 5, 6]


async def test_cursor_is_valid_only_for_its_own_call(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        cursor = (await paged_gateway.call("1", "/list?q=1")).trailer["cursor"]
        paged_gateway.lists.seen.clear()
        for path, connection_id in (("/other?q=1", "c1"), ("/list?q=2", "c1"), ("/list", "c1"), ("/list?q=1", "c2")):
            response = await paged_gateway.call("1", path, connection_id=connection_id, since=cursor)
            assert issues(response) == [("gateway-paginate-from",)]
            assert "another request" in response.error["message"]
        assert paged_gateway.lists.seen == []
        assert (await paged_gateway.call("1", "/list?q=1", since=cursor)).numbers == [3, 4]


@pytest.mark.parametrize("spoilt", ["", "x", "gAAAAABh"])
async def test_a_cursor_that_is_not_ours_is_refused(tmp_path: Path, spoilt: str) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        cursor = (await paged_gateway.call("1")).trailer["cursor"]
        paged_gateway.lists.seen.clear()
        for since in {spoilt or cursor[:-2], cursor[:40] + ("A" if cursor[40] != "A" else "B") + cursor[41:]}:
            response = await paged_gateway.call("1", since=since)
            assert issues(response) == [("gateway-paginate-from",)]
        assert paged_gateway.lists.seen == []


@pytest.mark.parametrize(
    ("paginate_header", "count"),
    [
        ("some", 1),
        ("0", 1),
        ("all; type=cursor; limit_name=l", 0),
        ("all; colour=red; size=2", 2),
        ("all; type=link", 1),
        ("all; limit=5; limit_name_in_request=", 1),
        ("all, all", 1),
    ],
)
async def test_all_faults_of_the_header_are_reported(tmp_path: Path, paginate_header: str, count: int) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        response = await paged_gateway.call(paginate_header)
        if count:
            assert issues(response) == [("gateway-paginate",)] * count
            assert paged_gateway.lists.seen == []
        else:
            assert response.trailer["complete"]


async def test_without_an_entry_and_without_fields_the_error_says_what_to_send(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3), None) as paged_gateway:
        response = await paged_gateway.call()
        assert issues(response) == [("gateway-paginate",)]
        assert "type=cursor; cursor_path_in_response=" in response.error["message"]


async def test_limit_needs_a_parameter_name(tmp_path: Path) -> None:
    without = {name: value for name, value in CURSOR.items() if name != "limit_name_in_request"}
    async with paged(tmp_path, pages_of(2), without) as paged_gateway:
        assert issues(await paged_gateway.call("all; limit=5")) == [("gateway-paginate",)]
        assert (await paged_gateway.call("all; limit=5; limit_name=size")).trailer["complete"]
        assert paged_gateway.lists.seen[0] == "/v1/list?size=5"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
async def test_only_a_get_is_paged(tmp_path: Path, method: str) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        response = await paged_gateway.call(method=method)
        assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_headers")
        assert paged_gateway.lists.seen == []


async def test_a_get_with_a_body_is_not_paged(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        assert issues(await paged_gateway.call(data=b"x")) == [("gateway-paginate",)]


async def test_each_header_is_sent_once(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        for lines in (
            "Gateway-Paginate: all\r\nGateway-Paginate: all",
            "Gateway-Paginate-From: a\r\nGateway-Paginate-From: a",
        ):
            response = await paged_gateway.raw(f"GET /proxy/list HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}")
            assert response.startswith(b"HTTP/1.1 400")
            assert b"send it once" in response


async def test_empty_headers_are_absent(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        response = await paged_gateway.call("", since="")
        assert (response.status, response.headers["Content-Type"]) == (200, "application/json; charset=utf-8")


async def test_cursor_to_an_origin_that_is_no_longer_allowed_is_refused(tmp_path: Path) -> None:
    from aiohttp import web

    from gateway.http.paging.resume_position import digest_of_request, encode_position
    from gateway.records.proxied_call import PagingScheme, Position

    async with paged(tmp_path, lambda _request: web.json_response({"items": []})) as paged_gateway:
        await import_connection(paged_gateway.gateway, "c1")
        digest = digest_of_request("dev", "tracker", "c1", paged_gateway.lists.url, "/list")
        link = PagingScheme("link", link_path_in_response_body="next", response_path="items")
        tokens = paged_gateway.gateway.runtime.generation.page_cursors
        elsewhere = tokens.seal(encode_position(Position(link, "https://evil.example:443/x"), digest))
        response = await paged_gateway.call(since=elsewhere)
        assert issues(response) == [("gateway-paginate-from",)]
        assert "may not be sent" in response.error["message"]
        cursor = tokens.seal(encode_position(Position(link, f"{paged_gateway.lists.url}/v1/x?page=2"), digest))
        assert (await paged_gateway.call(since=cursor)).trailer["complete"]
        assert paged_gateway.lists.seen == ["/v1/x?page=2"]


# ── Whether a response's codings are decoded: the caller's header wins over the entry.


@pytest.mark.parametrize(
    ("header", "entry", "decoded"),
    [
        (None, None, False),
        (None, False, False),
        (None, True, True),
        (True, None, True),
        (True, False, True),
        (False, True, False),
    ],
)
async def test_the_header_overrides_the_entry(header: bool | None, entry: bool | None, decoded: bool) -> None:
    request = make_mocked_request("GET", "/proxy/x")
    request[CONNECTION] = opened_at(8000, decompress=entry)
    request[PROXY_OPTIONS] = ProxyOptions("tracker", "u1", decompress=header)

    async def end(request: web.Request) -> web.StreamResponse:
        return web.Response(status=201 if DECODER in request else 200)

    assert (await decompress(request, end)).status == (201 if decoded else 200)
