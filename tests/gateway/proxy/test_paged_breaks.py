"""If the first page fails, the caller gets this failure as the response. A later failure is reported in the trailer.

The trailer contains a cursor, with which the caller can continue.
"""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway import clock
from gateway.egress.client import Timeouts
from gateway.proxy import page_fetch as reading
from gateway.proxy.page_fetch import RETRIES
from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.lists import BODY, CURSOR, HEADER, OFFSET, Page, PagedGateway, paged, pages_of, serving
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker


def failing_page(at: int, *responses: web.Response, count: int = 4) -> Page:
    """Return a page function. The page with cursor `at` first returns these responses, one for each request."""
    remaining = list(responses)

    def page(request: web.Request) -> web.StreamResponse:
        if int(request.query.get("after", "0")) == at and remaining:
            return remaining.pop(0)
        response = pages_of(count)(request)
        assert isinstance(response, web.Response)
        return response

    return page


def refusal(status: int, **headers: str) -> web.Response:
    return web.json_response(
        {"no": status}, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.mark.parametrize("status", [302, 304, 401, 404, 500, 503])
async def test_a_first_page_that_fails_is_returned_as_without_paging(tmp_path: Path, status: int) -> None:
    def page(_request: web.Request) -> web.Response:
        return refusal(status, X_Mine="1") if status != 304 else web.Response(status=304, headers={"X-Mine": "1"})

    async with paged(tmp_path, page) as paged_gateway:
        response, plain = (
            await paged_gateway.call(allow_redirects=False),
            await paged_gateway.call(None, allow_redirects=False),
        )
    ours = {"Date", "Gateway-Request-Id", "Server-Timing"}
    assert (response.status, response.body) == (plain.status, plain.body)
    assert {k: v for k, v in response.headers.items() if k not in ours} == {
        k: v for k, v in plain.headers.items() if k not in ours
    }
    assert (response.status, response.headers["X-Mine"]) == (status, "1")


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (web.Response(text="<html>"), "page_unreadable"),
        (web.Response(text=""), "page_unreadable"),
        (web.json_response({"items": {"a": 1}}), "page_unreadable"),
        (web.json_response({"others": []}), "page_unreadable"),
        (web.Response(body=b"x", headers={"Content-Encoding": "compress"}), "page_unreadable"),
        (web.Response(body=b"x", headers={"Content-Encoding": "gzip"}), "upstream_protocol"),
    ],
)
async def test_a_first_page_that_cannot_be_read_is_an_error_of_the_gateway(
    tmp_path: Path, response: web.Response, code: str, waits: list[float]
) -> None:
    async with paged(tmp_path, lambda _request: clone(response)) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.status, response.headers["Gateway-Error"], response.error["code"]) == (502, code, code)
    assert int(response.headers["Gateway-Attempts"]) == len(paged_gateway.lists.seen)


def clone(response: web.Response) -> web.Response:
    return web.Response(body=response.body, headers=response.headers)


async def test_a_later_page_that_fails_is_reported_in_the_trailer_with_a_cursor(tmp_path: Path) -> None:
    async with paged(tmp_path, failing_page(2, refusal(409))) as paged_gateway:
        response = await paged_gateway.call()
        assert (response.status, response.numbers) == (200, [1, 2, 3, 4])
        trailer = response.trailer
        assert (trailer["complete"], trailer["pages"], trailer["records"]) == (False, 2, 4)
        assert trailer["error"]["code"] == "page_failed"
        assert trailer["error"]["status"] == 502
        assert trailer["error"]["payload"] == {"status": 409, "body": '{"no": 409}'}
        rest = await paged_gateway.call(since=trailer["cursor"])
        assert (rest.numbers, rest.trailer["complete"]) == ([5, 6, 7, 8], True)


async def test_an_unreadable_later_page_is_reported_in_the_trailer(tmp_path: Path) -> None:
    async with paged(tmp_path, failing_page(1, web.Response(text="<html>"))) as paged_gateway:
        response = await paged_gateway.call()
        assert (response.numbers, response.trailer["error"]["code"]) == ([1, 2], "page_unreadable")
        assert (await paged_gateway.call(since=response.trailer["cursor"])).numbers == [3, 4, 5, 6, 7, 8]


async def test_a_list_without_its_cursor_at_the_declared_place_is_not_complete(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(3)) as paged_gateway:
        response = await paged_gateway.call("all; cursor_path_in_response=meta.next_page")
        assert (response.status, response.numbers) == (200, [1, 2])
        assert response.trailer["complete"] is False
        assert response.trailer["error"]["code"] == "page_unreadable"
        assert "'meta.next_page'" in response.trailer["error"]["message"]
        assert " has next." in response.trailer["error"]["message"]
        right = await paged_gateway.call("all; cursor_path_in_response=next")  # the error message gives this advice
        assert (right.numbers, right.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert "note" not in right.trailer


@pytest.mark.parametrize("more", [{}, {"sync_token": "s"}, {"next_page": None}, {"meta": {"prev_cursor": "p"}}])
async def test_a_list_of_one_page_without_a_cursor_is_complete(tmp_path: Path, more: dict[str, Any]) -> None:
    async with paged(tmp_path, lambda _request: web.json_response({"items": [{"n": 1}], **more})) as paged_gateway:
        response = await paged_gateway.call("all; cursor_path_in_response=next")
        assert (response.numbers, response.trailer["complete"]) == ([1], True)
        assert "'next'" in response.trailer["note"]


async def test_missing_cursor_on_the_last_page_is_not_noted(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        last = "after" in request.query
        return web.json_response({"items": [{"n": 1}], "token": "t"} | ({} if last else {"next": "1"}))

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call("all; cursor_path_in_response=next")
        assert (len(response.numbers), response.trailer["complete"], "note" in response.trailer) == (2, True, False)


@pytest.mark.parametrize("at", [0, 2])
async def test_the_retry_after_of_the_provider_is_waited_for(tmp_path: Path, at: int, waits: list[float]) -> None:
    busy = (refusal(429, Retry_After="2"), refusal(429, Retry_After="3"), refusal(503, Retry_After="1"))
    async with paged(tmp_path, failing_page(at, *busy)) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.numbers, response.trailer["complete"]) == ([1, 2, 3, 4, 5, 6, 7, 8], True)
    assert response.trailer["attempts"] == 7
    assert [round(wait, 0) for wait in waits] == [2, 3, 1]


async def test_on_later_pages_the_entrys_retry_fields_count_too(tmp_path: Path, waits: list[float]) -> None:
    busy = refusal(403, X_Quota_Left="0", X_Wait="40")
    retry = {"remaining": "x-quota-left", "after": "x-wait"}
    async with paged(tmp_path, failing_page(1, busy), retry=retry) as paged_gateway:
        assert (await paged_gateway.call()).trailer["complete"]
    assert [round(wait, -1) for wait in waits] == [40]


async def test_a_later_page_is_tried_again_without_a_retry_after(tmp_path: Path, waits: list[float]) -> None:
    async with paged(tmp_path, failing_page(2, refusal(503), refusal(502))) as paged_gateway:
        assert (await paged_gateway.call()).trailer["complete"]
    assert len(waits) == 2


async def test_first_page_is_retried_only_if_the_caller_asks(tmp_path: Path, waits: list[float]) -> None:
    async with paged(tmp_path, failing_page(0, refusal(503), refusal(503))) as paged_gateway:
        assert (await paged_gateway.call()).status == 503
    async with paged(new_folder(tmp_path), failing_page(0, refusal(503), refusal(503))) as paged_gateway:
        assert (await paged_gateway.call(headers={"Retries": "2"})).trailer["complete"]
    async with paged(new_folder(tmp_path), failing_page(1, *(refusal(503) for _ in range(2)))) as paged_gateway:
        assert (await paged_gateway.call(headers={"Retries": "1"})).trailer["error"]["code"] == "page_failed"
    async with paged(new_folder(tmp_path), failing_page(1, refusal(429, Retry_After="1"))) as paged_gateway:
        assert (await paged_gateway.call(headers={"Retries": "0"})).trailer["error"]["payload"]["status"] == 429


def new_folder(folder: Path) -> Path:
    fresh = folder / str(len(list(folder.iterdir())))
    fresh.mkdir()
    return fresh


async def test_a_list_whose_provider_repeats_pages_forever_is_stopped(tmp_path: Path, waits: list[float]) -> None:
    def page(request: web.Request) -> web.StreamResponse:
        return refusal(429, Retry_After="1") if "after" in request.query else pages_of(3)(request)  # type: ignore[return-value]

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
    assert (len(waits), response.trailer["attempts"]) == (RETRIES, RETRIES + 2)
    assert response.trailer["error"]["payload"]["status"] == 429


async def test_a_long_retry_after_ends_the_list_with_an_error_and_a_cursor(tmp_path: Path, waits: list[float]) -> None:
    async with paged(tmp_path, failing_page(2, refusal(429, Retry_After="3600"))) as paged_gateway:
        response = await paged_gateway.call()
        assert waits == []
        error = response.trailer["error"]
        assert (error["code"], error["payload"]["status"]) == ("page_failed", 429)
        assert error["payload"]["retry_at"] > "2"
        assert (await paged_gateway.call(since=response.trailer["cursor"])).numbers == [5, 6, 7, 8]


@pytest.mark.parametrize("at", [0, 1])
async def test_a_page_that_is_cut_short_is_requested_again(tmp_path: Path, at: int, waits: list[float]) -> None:
    cut = iter([True, True])

    async def page(request: web.Request) -> web.StreamResponse:
        if int(request.query.get("after", "0")) == at and next(cut, False):
            response = web.StreamResponse(headers={"Content-Length": "500", "Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"items": [{"n": 1}')
            assert request.transport is not None
            request.transport.close()
            return response
        whole = pages_of(3)(request)
        assert isinstance(whole, web.Response)
        return whole

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.numbers, response.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
    assert (len(waits), response.trailer["attempts"]) == (2, 5)


async def first_page_then_silence(request: web.Request) -> web.StreamResponse:
    """Send the first page, then send nothing more."""
    if "after" in request.query:
        await asyncio.Event().wait()
    response = pages_of(3)(request)
    assert isinstance(response, web.Response)
    return response


async def test_a_page_without_a_response_is_requested_again_and_then_given_up(
    tmp_path: Path, waits: list[float]
) -> None:
    async with paged(tmp_path, first_page_then_silence) as paged_gateway:
        response = await paged_gateway.call(headers={"Gateway-Timeout": "1", "Retries": "1"})
    assert response.trailer["error"]["code"] == "upstream_timeout"
    assert (response.trailer["attempts"], "cursor" in response.trailer) == (3, True)


async def test_a_page_that_takes_too_long_in_all_is_given_up(tmp_path: Path) -> None:
    async with paged(tmp_path, first_page_then_silence) as paged_gateway:
        paged_gateway.gateway.runtime.generation.egress.timeouts = replace(Timeouts(), total_s=1.0)
        response = await paged_gateway.call()
    assert response.trailer["error"]["code"] == "upstream_timeout"
    assert "total_s" in response.trailer["error"]["message"]


async def test_a_caller_who_reads_nothing_for_too_long_is_cut_off(tmp_path: Path) -> None:
    records: list[Any] = []
    done = asyncio.Event()

    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        return web.json_response({"items": [{"n": number, "fill": "x" * 1_000_000}], "next": str(number + 1)})

    async with paged(tmp_path, page) as paged_gateway:
        paged_gateway.gateway.runtime.generation.egress.timeouts = replace(Timeouts(), idle_s=1.0)
        paged_gateway.gateway.runtime.call_queue.record = lambda exchange: (records.append(exchange), done.set())  # type: ignore[method-assign,assign,return-value]
        async with paged_gateway.gateway.call_proxy("c1", "/list", headers={"Gateway-Paginate": "all"}):
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()
    assert [(exchange.status, exchange.error_code) for exchange in records] == [(200, "cut")]


async def test_a_page_above_the_limit_is_refused_and_a_decompression_bomb_is_not_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE_BYTES", 2000)

    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        return web.json_response({"items": [{"n": number, "x": "x" * 1500 * number}], "next": str(number + 1)})

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
        assert (response.numbers, response.trailer["error"]["code"]) == ([0, 1], "page_too_large")
        assert "limit=" in response.trailer["error"]["message"]
        first = await paged_gateway.call(path="/list?after=5")
        assert (first.status, first.error["code"]) == (502, "page_too_large")


@pytest.mark.parametrize("form", ["link", "header"])
async def test_a_link_to_another_host_is_not_followed(tmp_path: Path, form: str) -> None:
    async with serving(pages_of(1)) as elsewhere:
        link = f"{elsewhere.url.replace('127.0.0.1', 'localhost')}/v1/list?page=2"

        def page(_request: web.Request) -> web.Response:
            if form == "header":
                return web.json_response([{"n": 1}], headers={"Link": f'<{link}>; rel="next"'})
            return web.json_response({"items": [{"n": 1}], "next": link})

        async with paged(tmp_path, page, HEADER if form == "header" else BODY) as paged_gateway:
            response = await paged_gateway.call()
        assert elsewhere.seen == []
    assert response.numbers == [1]
    assert response.trailer["error"]["code"] == "next_page_refused"
    assert "allowed_origins" in response.trailer["error"]["message"]
    assert "cursor" not in response.trailer


async def test_a_link_to_an_origin_that_the_entry_names_is_followed(tmp_path: Path) -> None:
    async with serving(lambda _request: web.json_response({"items": [{"n": 2}]})) as elsewhere:

        def page(_request: web.Request) -> web.Response:
            return web.json_response({"items": [{"n": 1}], "next": f"{elsewhere.url}/more?page=2"})

        async with paged(tmp_path, page, BODY, allowed_origins=[elsewhere.url]) as paged_gateway:
            response = await paged_gateway.call()
        assert (response.numbers, elsewhere.seen) == ([1, 2], ["/more?page=2"])
        assert "x-api-key" in elsewhere.headers[0]


async def test_pages_that_form_a_cycle_end_the_list(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        return web.json_response({"items": [{"n": number}], "next": str((number + 1) % 5)})

    async with paged(tmp_path, page) as paged_gateway:
        response = await paged_gateway.call()
    assert response.trailer["error"]["code"] == "next_page_refused"
    assert len(paged_gateway.lists.seen) <= 20
    assert "cursor" not in response.trailer


async def test_a_provider_that_ignores_the_offset_is_noticed_before_a_record_comes_twice(tmp_path: Path) -> None:
    async with paged(
        tmp_path, lambda _request: web.json_response({"items": [{"n": 1}, {"n": 2}]}), OFFSET
    ) as paged_gateway:
        response = await paged_gateway.call()
    assert (response.numbers, response.trailer["error"]["code"]) == ([1, 2], "next_page_refused")
    assert "'start'" in response.trailer["error"]["message"]


@pytest.mark.parametrize("how", ["ended", "expired"])
async def test_a_token_that_expires_during_a_list_is_refreshed(
    tracker: Tracker, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.refusal = 401
    tokens: list[str] = []
    asked = tracker.api

    async def api(request: web.Request) -> web.Response:
        number = int(request.query.get("after", "0"))
        if number == 2 and not tracker.calls["refresh_token"]:
            if how == "ended":
                tracker.grants[0].access_tokens.clear()
            else:  # the connection that is already open is checked again, as every minute
                later = clock.now() + timedelta(hours=2)
                monkeypatch.setattr("gateway.clock.now", lambda: later)
                gateway.runtime.live.forget(ConnectionRef("dev", "tracker", "c1"))
        response = await asked(request)
        if response.status != 200:
            return response
        tokens.append(request.headers["Authorization"])
        return web.json_response({"items": [{"n": number}], "next": str(number + 1) if number < 4 else None})

    tracker.api = api  # type: ignore[method-assign]
    server = await tracker.serve()
    url = f"http://127.0.0.1:{server.port}"
    write_entry(tmp_path, "tracker", tracker_entry(url, proxy={"base_url": url, "paginate": CURSOR}))
    gateway = RunningGateway(tmp_path, document(["127.0.0.0/8"]))
    await gateway.start()
    try:
        await gateway.import_connection(tracker.grant())
        async with gateway.call_proxy("c1", "/list", headers={"Gateway-Paginate": "all"}) as response:
            lines = [json.loads(line) for line in (await response.read()).splitlines()]
    finally:
        await gateway.stop()
        await server.close()
    assert [line["n"] for line in lines[:-1]] == [0, 1, 2, 3, 4]
    attempts = 6 if how == "ended" else 5
    assert lines[-1]["gateway_trailer"] == {"complete": True, "pages": 5, "records": 5, "attempts": attempts}
    assert len(set(tokens)) == 2
    assert tracker.calls["refresh_token"] == 1


async def test_deleting_the_connection_ends_a_list_in_progress(tmp_path: Path) -> None:
    gateways: list[PagedGateway] = []

    async def page(request: web.Request) -> web.StreamResponse:
        if request.query.get("after") == "1":
            await gateways[0].gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
        response = pages_of(4)(request)
        assert isinstance(response, web.Response)
        return response

    async with paged(tmp_path, page) as paged_gateway:
        gateways.append(paged_gateway)
        response = await paged_gateway.call()
    assert (response.numbers, response.trailer["error"]["code"]) == ([1, 2, 3, 4], "unknown_connection")


async def test_the_log_names_the_cause_of_the_interruption(tmp_path: Path) -> None:
    records: list[Any] = []
    async with paged(tmp_path, failing_page(2, refusal(409))) as paged_gateway:
        log = paged_gateway.gateway.runtime.call_queue
        note, log.record = log.record, lambda exchange: (records.append(exchange), note(exchange))[1]  # type: ignore[method-assign]
        await paged_gateway.call()
    assert [(exchange.status, exchange.error_code) for exchange in records] == [(200, "page_failed")]
