"""Ten thousand records of the sandbox through curl, with each pagination type, despite 429s, in constant memory."""

import json
import shlex
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from gateway.sandbox.lists import DEFAULT_COUNT, record
from tests.journeys.test_demo import demo

# pagination type ▸ number of pages
PAGES = {"cursor": 100, "link-header": 100, "link-body": 100, "page": 101, "offset": 101}
GROWTH_KB = 8 * 1024


async def curl(ready: dict[str, Any], path: str, *extra: str) -> bytes:
    """Return the output of curl for this path, with the options of the demo's curl command."""
    line = shlex.split(ready["curl"])
    process = await create_subprocess_exec(
        *line[:-1], *extra, "-sS", "--fail", f"{ready['url']}/proxy{path}", stdout=PIPE
    )
    body, _ = await process.communicate()
    assert process.returncode == 0
    return body


async def arm_fault(state: Path, **fault: Any) -> None:
    entry = yaml.safe_load((state / "catalog" / "sandbox.yaml").read_text())
    url = f"{entry['proxy']['base_url']}/sandbox/faults"
    async with aiohttp.ClientSession() as session, session.post(url, json=fault) as response:
        assert response.status == 201


def peak_memory_kb(state: Path) -> int:
    """Return the peak memory of the gateway's worker."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if b"serve" in command and str(state).encode() in b" ".join(command):
                (worker,) = (folder / "task" / folder.name / "children").read_text().split()
                return int(Path("/proc", worker, "status").read_text().partition("VmHWM:")[2].split()[0])
        except OSError:
            continue
    pytest.skip("there is no /proc here")


async def test_ten_thousand_records_are_returned_once_each_and_in_order(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with demo(state) as (_, ready):
        # the first call triggers lazy imports, which must not count
        await curl(ready, "/lists/cursor", "-H", "Gateway-Paginate: all")
        before = peak_memory_kb(state)
        for pagination, pages in PAGES.items():
            await arm_fault(state, name="429-burst", path="/lists/", after=50, times=1)
            body = await curl(ready, f"/lists/{pagination}", "-H", "Gateway-Paginate: all")
            *records, trailer = body.splitlines()
            assert records == [record(number).encode() for number in range(1, DEFAULT_COUNT + 1)], pagination
            summary = json.loads(trailer)["gateway_trailer"]
            assert summary == {"complete": True, "pages": pages, "records": DEFAULT_COUNT, "attempts": pages + 1}
        await curl(ready, "/lists/offset?count=100000", "-H", "Gateway-Paginate: all; limit=1000")
        assert peak_memory_kb(state) - before < GROWTH_KB
        await assert_list_in_parts_is_the_same_list(ready)


async def assert_list_in_parts_is_the_same_list(ready: dict[str, Any]) -> None:
    seen: list[bytes] = []
    cursor: tuple[str, ...] = ()
    while True:
        body = await curl(ready, "/lists/link-body?count=700", "-H", "Gateway-Paginate: 3", *cursor)
        *records, trailer = body.splitlines()
        seen += records
        summary = json.loads(trailer)["gateway_trailer"]
        if summary["complete"]:
            break
        cursor = ("-H", f"Gateway-Paginate-From: {summary['cursor']}")
    assert seen == [record(number).encode() for number in range(1, 701)]
