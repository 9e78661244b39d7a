"""A list through the client: it returns every record exactly once, even if connections break."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.client import (
    AsyncClient,
    AsyncPages,
    Client,
    CutShort,
    GatewayError,
    PagingBroken,
    ProviderError,
    Unreachable,
)
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import Page, PagedGateway, paged, pages_of

NAMES: Any = {"provider_config_key": "tracker", "connection_id": "c1"}
ALL = [{"n": number} for number in range(1, 9)]


@pytest.fixture
def recorded_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Record the client's waits and skip them."""
    seen: list[float] = []

    async def pass_at_once(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr("gateway.client.listed_pages.sleep", pass_at_once)
    return seen


async def append_records(seen: list[Any], pages: AsyncPages) -> None:
    """Append the records to `seen`, which keeps the records before an error."""
    async for record in pages:
        seen.append(record)  # noqa: PERF401


@asynccontextmanager
async def client_of(paged_gateway: PagedGateway, port: int | None = None, **extra: Any) -> AsyncIterator[AsyncClient]:
    url = paged_gateway.gateway.url if port is None else f"http://127.0.0.1:{port}"
    async with AsyncClient(url, SECRET_KEY, **NAMES, **extra) as client:
        yield client


async def test_all_records_are_returned_and_the_list_is_complete(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(4)) as paged_gateway, client_of(paged_gateway) as client:
        pages = client.paginate("/list", params={"q": "a b"})
        assert [record async for record in pages] == ALL
        assert (pages.complete, pages.cursor, pages.behind) == (True, None, 0)
    assert paged_gateway.lists.seen[0] == "/v1/list?q=a%20b"


async def test_partial_list_is_resumed_by_another_call(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(4)) as paged_gateway, client_of(paged_gateway) as client:
        first = client.paginate("/list", pages=3)
        assert [record async for record in first] == ALL[:6]
        assert not first.complete
        rest = client.paginate("/list", since=first.cursor)
        assert [record async for record in rest] == ALL[6:]


MANY = [{"n": number} for number in range(1, 1501)]


@pytest.mark.parametrize("stop", [1, 50, 100, 101, 250, 1499, 1500])
async def test_reading_resumes_after_any_record(tmp_path: Path, stop: int) -> None:
    async with paged(tmp_path, pages_of(15, 100)) as paged_gateway, client_of(paged_gateway) as client:
        first, seen = client.paginate("/list"), []
        async for record in first:
            seen.append(record)
            if len(seen) == stop:
                break
        assert first.behind == (stop - 1) % 100 + 1  # the cursor of a page is read with the next record
        rest = client.paginate("/list", since=first.cursor, behind=first.behind)
        assert seen + [record async for record in rest] == MANY
        assert (rest.complete, rest.cursor, rest.behind) == (True, None, 0)


@pytest.mark.parametrize("stop", [50, 250, 1499])
async def test_blocking_iteration_returns_the_same_records(tmp_path: Path, stop: int) -> None:
    async with paged(tmp_path, pages_of(15, 100)) as paged_gateway:

        def two_calls() -> list[Any]:
            with Client(paged_gateway.gateway.url, SECRET_KEY, **NAMES) as client:
                first = client.paginate("/list")
                seen = list(islice(first, stop))
                return seen + list(client.paginate("/list", since=first.cursor, behind=first.behind))

        assert await asyncio.to_thread(two_calls) == MANY


async def test_cursor_after_a_batch_covers_the_whole_batch(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(4)) as paged_gateway, client_of(paged_gateway) as client:
        first, seen = client.paginate("/list"), []
        async for batch in first.batches():
            seen += batch
            if len(seen) >= 3:
                break
        rest = client.paginate("/list", since=first.cursor, behind=first.behind)
        assert seen + [record async for record in rest] == ALL


async def test_an_absolute_url_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with AsyncClient("http://127.0.0.1:9", SECRET_KEY, **NAMES) as client:
        with pytest.raises(ValueError, match="is an absolute URL"):
            client.paginate("https://api.github.com/repos/a/b")
        with pytest.raises(ValueError, match="is an absolute URL"):
            await client.get("https://api.github.com/repos/a/b")

    def blocking() -> None:
        with Client("http://127.0.0.1:9", SECRET_KEY, **NAMES) as client:
            client.get("//api.github.com/repos/a/b")

    with pytest.raises(ValueError, match="is an absolute URL"):
        await asyncio.to_thread(blocking)


async def test_limit_pagination_method_and_record_parser_can_be_set(tmp_path: Path) -> None:
    def page(request: web.Request) -> web.Response:
        start = int(request.query.get("skip", "0"))
        items = f'[{{"n": {start}.10}}]' if start < 3 else "[]"
        return web.Response(text=f'{{"rows": {items}}}', content_type="application/json")

    way = {"type": "offset", "offset_name_in_request": "skip", "limit_name_in_request": "take", "response_path": "rows"}
    async with paged(tmp_path, page, None) as paged_gateway, client_of(paged_gateway) as client:
        pages = client.paginate("/list", limit=1, way=way, loads=partial(json.loads, parse_float=Decimal))
        seen = [record["n"] async for record in pages]
    assert list(map(str, seen)) == ["0.10", "1.10", "2.10"]
    assert paged_gateway.lists.seen[1] == "/v1/list?take=1&skip=1"


async def test_failed_first_page_raises_the_providers_error(tmp_path: Path) -> None:
    def page(_request: web.Request) -> web.Response:
        return web.json_response({"no": 1}, status=403)

    async with paged(tmp_path, page) as paged_gateway, client_of(paged_gateway) as client:
        with pytest.raises(ProviderError) as raised:
            [record async for record in client.paginate("/list")]
    assert (raised.value.status, raised.value.response.json()) == (403, {"no": 1})


async def test_error_of_the_gateway_is_raised(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(4), None) as paged_gateway, client_of(paged_gateway) as client:
        with pytest.raises(GatewayError, match="invalid_headers"):
            [record async for record in client.paginate("/list")]
        with pytest.raises(GatewayError, match="Gateway-Paginate-From"):
            [
                record
                async for record in client.paginate("/list", since="spoilt", way={"type": "link", "link_rel": "next"})
            ]


@asynccontextmanager
async def interrupting_proxy(paged_gateway: PagedGateway, *after_bytes: int) -> AsyncIterator[int]:
    """A proxy in front of the gateway that resets its first connections after this many bytes of responses."""
    remaining = list(after_bytes)
    port = int(paged_gateway.gateway.url.rpartition(":")[2])
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        upstream, towards = await asyncio.open_connection("127.0.0.1", port)

        async def send() -> None:
            while piece := await reader.read(65536):
                towards.write(piece)

        sending = asyncio.create_task(send())
        passes = remaining.pop(0) if remaining else None
        try:
            while piece := await upstream.read(200):  # in small steps, so that a cut happens at the intended byte
                writer.write(piece if passes is None else piece[:passes])
                await writer.drain()
                if passes is not None:
                    passes -= len(piece)
                    if passes <= 0:
                        break
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            sending.cancel()
            writer.close()
            towards.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("after", [(500,), (700,), (1300,), (2000,), (800, 900, 0, 1200)])
async def test_interrupted_list_is_resumed_without_repeated_records(
    tmp_path: Path, after: tuple[int, ...], recorded_waits: list[float]
) -> None:
    async with (
        paged(tmp_path, pages_of(8, 3)) as paged_gateway,
        interrupting_proxy(paged_gateway, *after) as port,
        client_of(paged_gateway, port) as client,
    ):
        pages = client.paginate("/list")
        seen = [record["n"] async for record in pages]
    assert seen == list(range(1, 25))
    assert pages.complete
    assert 1 <= len(recorded_waits) <= len(after)  # a connection that breaks before its response is replaced silently


async def test_interruption_within_a_page_repeats_no_record(tmp_path: Path, recorded_waits: list[float]) -> None:
    async with paged(tmp_path, pages_of(2, 500)) as paged_gateway:
        async with interrupting_proxy(paged_gateway, 3000, 4000) as port, client_of(paged_gateway, port) as client:
            pages = client.paginate("/list", pages=1)
            seen = [record["n"] async for record in pages]
        assert seen == list(range(1, 501))
        assert (len(recorded_waits), pages.complete) == (2, False)
        async with client_of(paged_gateway) as client:
            rest = client.paginate("/list", since=pages.cursor)
            assert [record["n"] async for record in rest] == list(range(501, 1001))


async def test_repeated_interruptions_raise_an_error(tmp_path: Path, recorded_waits: list[float]) -> None:
    cuts = [450, *[300] * 20]
    async with (
        paged(tmp_path, pages_of(8)) as paged_gateway,
        interrupting_proxy(paged_gateway, *cuts) as port,
        client_of(paged_gateway, port) as client,
    ):
        with pytest.raises((CutShort, Unreachable)):
            [record async for record in client.paginate("/list", resumes=3)]
    assert len(recorded_waits) == 3


def failing_pages(position: int, responses: list[web.Response]) -> Page:
    def page(request: web.Request) -> web.StreamResponse:
        if int(request.query.get("after", "0")) == position and responses:
            return responses.pop(0)
        response = pages_of(4)(request)
        assert isinstance(response, web.Response)
        return response

    return page


async def test_temporary_error_of_the_provider_is_retried(tmp_path: Path, recorded_waits: list[float]) -> None:
    late = [
        web.Response(status=429, headers={"Retry-After": "200"}),
        web.Response(status=429, headers={"Retry-After": "100"}),
    ]
    async with paged(tmp_path, failing_pages(2, late)) as paged_gateway, client_of(paged_gateway) as client:
        pages = client.paginate("/list")
        assert [record async for record in pages] == ALL
    assert [round(wait, -1) for wait in recorded_waits] == [
        200,
        100,
    ]  # the second is from the first response of the resumed call


async def test_permanent_provider_error_ends_the_list_with_a_cursor(
    tmp_path: Path, recorded_waits: list[float]
) -> None:
    async with (
        paged(tmp_path, failing_pages(2, [web.Response(status=403)])) as paged_gateway,
        client_of(paged_gateway) as client,
    ):
        pages, seen = client.paginate("/list"), list[Any]()
        with pytest.raises(PagingBroken) as raised:
            await append_records(seen, pages)
        assert (seen, recorded_waits) == (ALL[:4], [])
        assert (raised.value.code, raised.value.payload["status"]) == ("page_failed", 403)
        assert raised.value.request_id
        assert raised.value.cursor == pages.cursor
        rest = client.paginate("/list", since=raised.value.cursor)
        assert [record async for record in rest] == ALL[4:]


async def test_too_long_wait_ends_the_list(tmp_path: Path, recorded_waits: list[float]) -> None:
    late = [web.Response(status=429, headers={"Retry-After": "3600"})]
    async with paged(tmp_path, failing_pages(2, late)) as paged_gateway, client_of(paged_gateway) as client:
        with pytest.raises(PagingBroken, match="429"):
            [record async for record in client.paginate("/list")]
    assert recorded_waits == []


async def test_list_that_cannot_be_resumed_is_not_restarted(tmp_path: Path, recorded_waits: list[float]) -> None:
    def page(_request: web.Request) -> web.Response:
        return web.json_response({"items": [{"n": 1}], "next": "same"})

    async with paged(tmp_path, page) as paged_gateway, client_of(paged_gateway) as client:
        seen: list[Any] = []
        with pytest.raises(PagingBroken, match="next_page_refused"):
            await append_records(seen, client.paginate("/list"))
    assert (len(seen), recorded_waits) == (2, [])


async def test_record_that_looks_like_a_trailer_is_a_record(tmp_path: Path) -> None:
    lies = ['{"gateway_trailer":{"complete":true,"pages":1}}', '{"gateway_page":{"pages":9,"cursor":"x"}}', '{"n":1}']

    def page(_request: web.Request) -> web.Response:
        return web.Response(text=f'{{"items":[{",".join(lies)}]}}', content_type="application/json")

    async with paged(tmp_path, page) as paged_gateway, client_of(paged_gateway) as client:
        assert [record async for record in client.paginate("/list")] == [json.loads(lie) for lie in lies]


async def test_client_is_usable_after_an_iteration_that_stops_early(tmp_path: Path) -> None:
    async with paged(tmp_path, pages_of(100, 50)) as paged_gateway, client_of(paged_gateway) as client:
        async for record in client.paginate("/list"):
            if record["n"] == 3:
                break
        assert (await client.get("/list")).ok


async def test_blocking_list_is_resumed_in_the_same_way(tmp_path: Path) -> None:
    def use(paged_gateway: PagedGateway) -> None:
        with Client(paged_gateway.gateway.url, SECRET_KEY, **NAMES) as client:
            pages = client.paginate("/list")
            assert list(pages) == ALL
            assert (pages.complete, pages.cursor, pages.behind) == (True, None, 0)
            some = client.paginate("/list", pages=1)
            assert list(some) == ALL[:2]
            assert list(client.paginate("/list", since=some.cursor)) == ALL[2:]
            assert next(iter(client.paginate("/list"))) == ALL[0]
            with pytest.raises(GatewayError):
                list(client.paginate("/list", since="spoilt"))

    async with paged(tmp_path, pages_of(4)) as paged_gateway:
        await asyncio.to_thread(use, paged_gateway)
