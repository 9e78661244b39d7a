"""The CPU time of an MCP call compared with the same POST through /proxy, in one run."""

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import web

from tests.fakes.agent_gateway import agent_gateway

CALLS = 60
ROUNDS = 5
# client and provider are in this process and count on both sides; docs/performance.md has the ratio without them
MAX_RATIO = 5.0
PAGE = json.dumps({"items": [{"key": f"A-{n}", "summary": "an issue with a title of some length"} for n in range(20)]})


async def test_a_tool_call_costs_little_more_cpu_than_the_same_post(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path) as gateway:

        async def page(_: web.Request) -> web.Response:
            return web.Response(text=PAGE, content_type="application/json")

        gateway.provider.responding = page
        key = await gateway.key("POST /base/v1/issue/{issue}/comment as comment")
        body = {"text": "x" * 600}
        names = {"Provider-Config-Key": "acme", "Connection-Id": "c1"}
        headers = {"Authorization": f"Bearer {key}", **names}

        async def posted() -> None:
            url = f"{gateway.running.url}/proxy/issue/A-1/comment"
            async with gateway.running.http.post(url, json=body, headers=headers) as response:
                assert response.status == 200
                await response.read()

        async def called() -> None:
            result = await gateway.call(key, "comment", {"issue": "A-1", "body": body})
            assert result["isError"] is False

        await _cpu_seconds(posted), await _cpu_seconds(called)
        ratios = [await _cpu_seconds(called) / await _cpu_seconds(posted) for _ in range(ROUNDS)]
    assert median(ratios) < MAX_RATIO, ratios


async def _cpu_seconds(send: Any) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        await send()
    return time.process_time() - began
