"""Many paged calls at the same time: the memory for pages is limited, and no key can use all of this memory."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import PagedGateway, PagedReply, paged
from tests.fakes.lists import serving as lists_serving
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import CONNECTION, Files, serving

MIB = 1 << 20


def large_pages(size: int, count: int = 2) -> Any:
    """Return a page function: each page has `size` bytes, and its response declares no length."""
    filler = "x" * 1000

    async def page(request: web.Request) -> web.StreamResponse:
        number = int(request.query.get("after", "0"))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"items":[')
        records = size // 1010
        for start in range(0, records, 60):
            some = [json.dumps({"n": number, "f": filler}) for _ in range(start, min(start + 60, records))]
            await response.write(("," if start else "").encode() + ",".join(some).encode())
        following = json.dumps(str(number + 1) if number + 1 < count else None)
        await response.write(f'],"next":{following}}}'.encode())
        return response

    return page


async def calls(paged_gateway: PagedGateway, count: int, **options: Any) -> list[PagedReply]:
    return await asyncio.gather(*(paged_gateway.call(**options) for _ in range(count)))


async def test_twenty_calls_of_large_pages_stay_below_the_bound_and_all_succeed(tmp_path: Path) -> None:
    async with paged(tmp_path, large_pages(3 * MIB)) as paged_gateway:
        runtime = paged_gateway.gateway.runtime
        memory = runtime.page_memory
        memory.limit_bytes = lambda: 64 * MIB
        object.__setattr__(runtime.generation.config.egress.limits, "wait_s", PATIENCE_S)
        result = await calls(paged_gateway, 20)
        assert [item.status for item in result] == [200] * 20
        assert all(item.trailer["complete"] for item in result)
        assert 0 < memory.peak <= 64 * MIB
        assert (memory.reserved, memory.waiting) == (0, 0)


async def test_a_call_that_gets_no_memory_in_time_is_refused_with_retry_after(tmp_path: Path) -> None:
    async with paged(tmp_path, large_pages(MIB)) as paged_gateway:
        runtime = paged_gateway.gateway.runtime
        runtime.page_memory.limit_bytes = lambda: 64 * MIB
        object.__setattr__(runtime.generation.config.egress.limits, "wait_s", 0.0)
        reservation = await runtime.page_memory.reserve("dev", 32 * MIB, 0)
        response = await paged_gateway.call()
        assert (response.status, response.headers["Retry-After"]) == (503, "5")
        assert (response.error["code"], response.error["payload"]["reason"]) == ("busy", "too_many_pages")
        reservation.release()
        assert (await paged_gateway.call()).trailer["complete"]


async def test_a_list_without_memory_for_a_later_page_ends_with_a_cursor(tmp_path: Path) -> None:
    async with paged(tmp_path, large_pages(MIB, 3)) as paged_gateway:
        runtime = paged_gateway.gateway.runtime
        runtime.page_memory.limit_bytes = lambda: 64 * MIB
        object.__setattr__(runtime.generation.config.egress.limits, "wait_s", 0.0)
        reserve = runtime.page_memory.reserve
        first = True

        async def once(*args: Any) -> Any:
            nonlocal first
            if not first:
                await reserve("dev", 32 * MIB, 0)
            first = False
            return await reserve(*args)

        runtime.page_memory.reserve = once  # type: ignore[method-assign]
        response = await paged_gateway.call()
        assert response.status == 200
        assert response.trailer["error"]["code"] == "busy"
        assert response.trailer["cursor"]


async def test_one_key_cannot_starve_another(tmp_path: Path) -> None:
    async with paged(tmp_path, large_pages(MIB)) as paged_gateway:
        runtime = paged_gateway.gateway.runtime
        runtime.page_memory.limit_bytes = lambda: 64 * MIB
        made = await paged_gateway.gateway.json(
            "POST", "/environment/api-keys", json={"display_name": "other", "scopes": ["environment:proxy"]}
        )
        other = made["data"]["secret"]
        hog = [await runtime.page_memory.reserve("dev", 32 * MIB, 0)]
        waiting = asyncio.create_task(paged_gateway.call())
        response = await paged_gateway.call(headers={"Authorization": f"Bearer {other}"})
        assert response.trailer["complete"]
        assert not waiting.done()
        hog[0].release()
        assert (await waiting).trailer["complete"]


WISH = "all; type=cursor; cursor_path_in_response=next; cursor_name_in_request=after; response_path=items"


def peak_mib(pid: int) -> int:
    """Return the peak memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) >> 10


@pytest.mark.heavy
async def test_a_gateway_under_many_large_pages_grows_by_no_more_than_the_bound(tmp_path: Path) -> None:
    async with lists_serving(large_pages(13 * MIB, 1)) as lists:
        files = Files(tmp_path, int(lists.url.rpartition(":")[2]))
        files.document["egress"]["page_memory_bytes"] = bound = 64 * MIB
        files.write()
        async with serving(files) as gateway, aiohttp.ClientSession() as http:
            await gateway.connect()
            before = peak_mib(gateway.process.pid)

            async def call() -> bytes:
                headers = {"Authorization": f"Bearer {SECRET_KEY}", "Gateway-Paginate": WISH, **CONNECTION}
                url = f"http://127.0.0.1:{gateway.port}/proxy/list"
                last = b""
                async with http.get(url, headers=headers) as response:
                    async for piece in response.content.iter_any():
                        last = (last + piece)[-200:]
                return last

            ends = await asyncio.gather(*(call() for _ in range(20)))
            assert [end for end in ends if b"gateway_trailer" not in end and b"too_many_pages" not in end] == []
            assert any(b'"complete":true' in end for end in ends)
            assert peak_mib(gateway.process.pid) - before < 2 * (bound // MIB)
