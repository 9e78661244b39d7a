"""One call returns a whole list: every record once, in order, unchanged. The last line reports the outcome."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.lists import BODY, HEADER, KEY, OFFSET, paged, pages_of
from tests.fakes.patience import PATIENCE_S


async def test_pages_are_sent_as_lines_with_a_trailer_at_the_end(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(5)) as paged_gateway:
        response = await paged_gateway.call()
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/x-ndjson"
    assert response.headers["Gateway-Paginate"] == "all;type=cursor"
    assert response.headers["Gateway-Attempts"] == "1"
    assert "Gateway-Error" not in response.headers
    assert response.numbers == list(range(1, 11))
    assert response.trailer == {"complete": True, "pages": 5, "records": 10, "attempts": 5}
    assert paged_gateway.lists.seen == ["/v1/list", *(f"/v1/list?after={number}" for number in range(1, 5))]


async def test_every_page_request_has_the_callers_query_and_headers_and_none_of_the_gateway(tmp_path: Path) -> None:
    headers = {
        "X-Mine": "1", "If-None-Match": '"a"', "If-Modified-Since": "Sat, 01 Jan 2000 00:00:00 GMT", "Range": "bytes=0-1",
        "Accept": "application/x-ndjson",
    }  # fmt: skip
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        response = await paged_gateway.call("all; marks", "/list?q=a%26b&after=0&e=", headers=headers)
    assert response.trailer["complete"]
    assert paged_gateway.lists.seen == [
        "/v1/list?q=a%26b&after=0&e=",
        "/v1/list?q=a%26b&e=&after=1",
        "/v1/list?q=a%26b&e=&after=2",
    ]
    for number, sent in enumerate(paged_gateway.lists.headers):
        assert (sent["x-api-key"], sent["X-Mine"]) == (KEY, "1")
        assert ("If-None-Match" in sent, "If-Modified-Since" in sent) == (
            (True, True) if number == 0 else (False, False)
        )
        assert not {"Range", "Accept"} & set(sent)
        assert not [name for name in sent if name.lower().startswith("gateway-")]


async def test_a_link_in_the_header_is_followed(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "1"))
        response = web.json_response([{"n": number}])
        if number < 3:
            response.headers["Link"] = f'<http://{request.host}/v1/list?page={number + 1}>; rel="next"'
        return response

    async with paged(tmp_path, page, HEADER) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.numbers, response.headers["Gateway-Paginate"]) == ([1, 2, 3], "all;type=link")
    assert {sent["x-api-key"] for sent in paged_gateway.lists.headers} == {KEY}


@pytest.mark.parametrize(
    "form", ["http://{host}/v1/list?page={page}", "/v1/list?page={page}", "/list?page={page}", "?page={page}"]
)
async def test_a_link_in_the_body_is_followed_in_any_form(tmp_path: Path, form: str) -> None:
    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "1"))
        link = form.format(host=request.host, page=number + 1) if number < 3 else None
        return web.json_response({"items": [{"n": number}], "next": link})

    async with paged(tmp_path, page, BODY) as paged_gateway:
        assert (await paged_gateway.call()).numbers == [1, 2, 3]


async def test_an_offset_is_counted_by_records_until_a_page_is_empty(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        start = int(request.query.get("start", "0"))
        sizes = {0: 3, 3: 1, 4: 3}  # a page in the middle can be short
        return web.json_response({"items": [{"n": start + n} for n in range(1, sizes.get(start, 0) + 1)]})

    async with paged(tmp_path, page, OFFSET) as paged_gateway:
        response = await paged_gateway.call()
        assert response.numbers == [1, 2, 3, 4, 5, 6, 7]
        assert paged_gateway.lists.seen == ["/v1/list", "/v1/list?start=3", "/v1/list?start=4", "/v1/list?start=7"]
        assert (await paged_gateway.call(path="/list?start=4")).numbers == [5, 6, 7]


async def test_an_offset_is_counted_by_pages_from_where_the_entry_says(tmp_path: Path) -> None:
    by_page = {**OFFSET, "offset_start_value": 1, "offset_calculation_method": "per-page"}

    def page(request: web.Request) -> web.Response:
        number = int(request.query["start"])
        return web.json_response({"items": [{"n": number}] if number < 4 else []})

    async with paged(tmp_path, page, by_page) as paged_gateway:
        assert (await paged_gateway.call()).numbers == [1, 2, 3]
        assert (await paged_gateway.call(path="/list?start=2")).numbers == [2, 3]


async def test_records_are_forwarded_byte_for_byte(tmp_path: Path) -> None:
    records = [
        '{"n":1.0,"big":123456789012345678901234567890,"e":1e400,"n":2}',
        '{"s":"\\u00e9é😀"}',
        '"text"',
        "[1,2]",
    ]

    def page(request: web.Request) -> web.Response:
        text = '{\r\n "items": [\n' + ",\n".join(records) + ',\n{\n "a":\r\n 1\n}\n], "next": null}'
        return web.Response(text=text, content_type="application/json")

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
    assert [line.decode() for line in response.lines[:-1]] == [*records, '{ "a": 1}']


async def test_no_record_can_be_mistaken_for_a_line_of_the_gateway(tmp_path: Path) -> None:
    lie = '{"gateway_trailer":{"complete":true}}'

    def page(request: web.Request) -> web.Response:
        return web.Response(
            text=f'{{"items":[{lie},{{"gateway_page":1}}],"next":null}}', content_type="application/json"
        )

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
    assert [line.startswith(b'{"gateway_') for line in response.lines] == [False, False, True]
    assert response.records == [json.loads(lie), {"gateway_page": 1}]
    assert response.trailer["records"] == 2


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_compressed_pages_are_decoded_whatever_accept_encoding_says(tmp_path: Path, coding: str) -> None:
    def page(request: web.Request) -> web.Response:
        response = pages_of(3)(request)
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        body = gzip.compress(response.body) if coding == "gzip" else response.body
        return web.Response(body=body, headers={"Content-Encoding": coding, "Content-Type": "application/json"})

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call(headers={"Accept-Encoding": "gzip"})
    assert response.numbers == [1, 2, 3, 4, 5, 6]
    assert "Content-Encoding" not in response.headers


async def test_a_response_without_content_has_no_records(tmp_path: Path) -> None:
    async with paged(tmp_path, lambda _request: web.Response(status=204)) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.status, response.records) == (200, [])
    assert response.trailer == {"complete": True, "pages": 1, "records": 0, "attempts": 1}


async def test_a_limit_becomes_the_providers_parameter(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        await paged_gateway.call("all; limit=500", "/list?limit=5")
    assert paged_gateway.lists.seen == ["/v1/list?limit=500", "/v1/list?limit=500&after=1"]


async def test_a_provider_without_an_entry_is_paged_by_the_fields_in_the_header(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3), None) as paged_gateway:
        paginate = "all; type=cursor; cursor_path_in_response=next; cursor_name_in_request=after"
        assert (await paged_gateway.call(f"{paginate}; response_path=items")).numbers == [1, 2, 3, 4, 5, 6]
        assert (await paged_gateway.call(paginate)).numbers == [1, 2, 3, 4, 5, 6]


async def test_an_alternative_is_found_by_its_path_or_by_the_first_page(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        if request.path == "/v1/old":
            start = int(request.query.get("start", "0"))
            return web.json_response({"values": [{"n": start + 1}] if start < 3 else []})
        return pages_of(2)(request)  # type: ignore[return-value]

    old = {**OFFSET, "response_path": "values"}
    async with paged(tmp_path, page, paginate_alternatives=[old]) as paged_gateway:
        assert (await paged_gateway.call()).headers["Gateway-Paginate"] == "all;type=cursor"
        response = await paged_gateway.call(path="/old")
        assert (response.numbers, response.headers["Gateway-Paginate"]) == ([1, 2, 3], "all;type=offset")
    (tmp_path / "by-path").mkdir()
    async with paged(
        tmp_path / "by-path", page, paginate_alternatives=[{**old, "applies_to": "/old"}]
    ) as paged_gateway:
        assert (await paged_gateway.call(path="/old")).numbers == [1, 2, 3]


async def test_an_http_1_0_client_gets_the_lines_too(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        head, _, body = (await paged_gateway.raw("GET /proxy/list HTTP/1.0\r\nGateway-Paginate: all")).partition(
            b"\r\n\r\n"
        )
    assert b"chunked" not in head
    assert [json.loads(line) for line in body.splitlines()[:4]] == [{"n": number} for number in range(1, 5)]


async def test_a_dry_run_shows_the_first_page_that_would_be_requested(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(2)) as paged_gateway:
        response = await paged_gateway.call("all; limit=7", headers={"Gateway-Dry-Run": "true"})
        assert json.loads(response.body)["url"].endswith("/v1/list?limit=7")
        assert paged_gateway.lists.seen == []


async def test_a_slow_caller_pauses_the_paging(tmp_path: Path) -> None:
    count, all_asked = 400, asyncio.Event()

    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        if number == count - 1:
            all_asked.set()
        following = str(number + 1) if number + 1 < count else None
        return web.json_response({"items": [{"n": number, "fill": "x" * 100_000}], "next": following})

    async with paged(tmp_path, page) as paged_gateway:
        async with paged_gateway.gateway.call_proxy("c1", "/list", headers={"Gateway-Paginate": "all"}) as response:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await all_asked.wait()
            requested = len(paged_gateway.lists.seen)
            assert requested < count / 2
            seen = [json.loads(line) async for line in lines_of(response)]
        assert [record["n"] for record in seen[:-1]] == list(range(count))
        assert seen[-1]["gateway_trailer"]["complete"]


async def lines_of(response: Any) -> Any:
    buffer = b""
    async for piece in response.content.iter_any():
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            yield line


async def test_disconnect_of_the_caller_stops_the_paging(tmp_path: Path) -> None:
    request_arrived = asyncio.Event()
    abandoned = asyncio.Event()

    async def page(request: web.Request) -> web.StreamResponse:
        if "after" not in request.query:
            return web.json_response({"items": [{"n": 1}], "next": "2"})
        request_arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            abandoned.set()
        raise AssertionError

    async with paged(tmp_path, page) as paged_gateway:
        async with paged_gateway.gateway.call_proxy("c1", "/list", headers={"Gateway-Paginate": "all"}) as response:
            assert await response.content.readline() == b'{"n": 1}\n'
            await request_arrived.wait()
            response.close()
        async with asyncio.timeout(PATIENCE_S):
            await abandoned.wait()


async def test_the_paged_call_is_one_record_of_the_log(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        records: list[Any] = []
        log = paged_gateway.gateway.runtime.call_queue
        note, log.record = log.record, lambda exchange: (records.append(exchange), note(exchange))[1]  # type: ignore[method-assign]
        response = await paged_gateway.call()
        assert response.trailer["pages"] == 3
    assert [(exchange.path, exchange.status, exchange.error_code) for exchange in records] == [("/list", 200, None)]
    assert records[0].bytes_out > len(response.body)
