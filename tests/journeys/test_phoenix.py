"""Traces in a third-party collector: Arize Phoenix, from PyPI. Without Phoenix the test is skipped; `make collector`
installs it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes import installed
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_logs_endpoints import call, import_expired
from tests.journeys.test_traces import SAMPLED, TRACE, tracing_gateway
from tests.oauth_servers.server import running_process

PHOENIX = "arize-phoenix==20.26.1"

pytestmark = [
    pytest.mark.skipif(os.environ.get("GATEWAY_COLLECTOR") != "all", reason="installs 1 GB outside the repository"),
    pytest.mark.timeout(600),
]


@pytest.fixture
async def phoenix(tmp_path: Path) -> AsyncIterator[str]:
    """Run Phoenix and yield its URL. It accepts OTLP over HTTP at /v1/traces and returns the stored spans."""
    interpreter = installed.python("phoenix", [PHOENIX])
    folder = tmp_path / "phoenix"
    folder.mkdir()
    port, rpc = free_port(), free_port()
    environ = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(rpc),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    async with running_process([interpreter.parent / "phoenix", "serve"], folder, environ) as server:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(300), aiohttp.ClientSession() as http:  # Phoenix loads half a gigabyte of code
            while True:
                assert server.process.returncode is None, server.log.read_text(errors="replace")[-2000:]
                try:
                    async with http.get(f"{url}/v1/projects") as response:
                        if response.status == 200:
                            break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.2)
        yield url


async def wait_for_spans(url: str, trace: str, count: int) -> list[dict[str, Any]]:
    """Wait for `count` spans of `trace`. Return the spans as Phoenix has stored them."""
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{url}/v1/projects/default/spans?limit=1000") as response:
                spans = (await response.json())["data"] if response.status == 200 else []
            found = [span for span in spans if span["context"]["trace_id"] == trace]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.1)


async def test_phoenix_stores_one_trace_of_calls_refresh_and_attempts_without_an_orphan(
    phoenix: str, tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", phoenix)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    async with tracing_gateway(tracker, tmp_path / "gateway") as gateway:
        await gateway.import_connection(import_expired(tracker))
        # through the middleware chain, with a refresh
        assert await call(gateway, "/proxy/me", traceparent=SAMPLED) == 200
        assert await call(gateway, "/proxy/me", traceparent=SAMPLED) == 200  # on the fast path
        spans = await wait_for_spans(phoenix, TRACE, 5)
        assert gateway.runtime.tracing is not None
        assert sum(gateway.runtime.tracing.dropped_spans.values()) == 0
    by_id = {span["context"]["span_id"]: span for span in spans}
    caller = SAMPLED.split("-")[2]
    assert sorted(span["name"] for span in spans) == ["GET", "GET", *["GET /proxy/{path}"] * 2, "token.refresh"]
    for span in spans:
        assert span["parent_id"] == caller or span["parent_id"] in by_id
    served = [key for key, span in by_id.items() if span["name"] == "GET /proxy/{path}"]
    assert {span["parent_id"] for span in spans if span["name"] == "GET"} == set(served)
    (refresh,) = [span for span in spans if span["name"] == "token.refresh"]
    assert refresh["parent_id"] in served
    assert all("refresh-" not in str(span) and "access-" not in str(span) for span in spans)
