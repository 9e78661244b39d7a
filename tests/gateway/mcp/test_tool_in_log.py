"""The tool that made a call is in call log, log line and trace, on the fast path and through the chain."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.observe import call_queue
from tests.fakes.agent_gateway import AgentGateway, agent_gateway
from tests.fakes.collector import collecting
from tests.gateway.api.test_logs_endpoints import wait_for_operations

GET = "GET /base/v1/issue/{issue} as get_issue"
VENDOR = "POST /base/v1/mcp with tools search_*"


@pytest.fixture(autouse=True)
def short_write_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "WRITE_EVERY_S", 0.02)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")


@pytest.fixture(params=["fast path", "chain"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentGateway]:
    async with agent_gateway(tmp_path, fast_path=request.param == "fast path") as made:
        yield made


async def test_a_call_is_found_by_its_tool(gateway: AgentGateway) -> None:
    key = await gateway.key(GET, "DELETE /base/v1/**", VENDOR)
    await gateway.call(key, "get_issue", {"issue": "1"})
    await gateway.call(key, "get_issue", {"issue": "2"})
    await gateway.call(key, "call_api", {"method": "DELETE", "path": "/issue/3"})
    search = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_issues"}}
    headers = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1"}
    await gateway.post_message(json.dumps(search).encode(), headers, "/proxy/mcp")
    found = await wait_for_operations(gateway.running, "?tool=get_issue", least=2)
    assert [(item["path"], item["rule"], item["tool"]) for item in found] == [
        ("/issue/2", GET, "get_issue"),
        ("/issue/1", GET, "get_issue"),
    ]
    assert found[0]["key_id"] is not None
    assert found[0]["detail"] is None
    (raw,) = await wait_for_operations(gateway.running, "?tool=call_api")
    assert raw["path"] == "/issue/3"
    (vendor,) = await wait_for_operations(gateway.running, "?tool=search_issues")
    assert (vendor["path"], vendor["rule"]) == ("/mcp", VENDOR)
    everything = await wait_for_operations(gateway.running, "?kind=call&keyId=" + str(found[0]["key_id"]), least=4)
    assert [item["tool"] for item in everything] == ["search_issues", "call_api", "get_issue", "get_issue"]


async def test_spans_follow_the_conventions_for_mcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with agent_gateway(tmp_path) as gateway:
            key = await gateway.key(GET)
            await gateway.call(key, "get_issue", {"issue": "1"})
            await gateway.call(key, "call_api", {"method": "DELETE", "path": "/issue/1"})
            await gateway.call(key, "made_up_by_a_model", {})
            await gateway.request_result(key, "tools/list")
            await collector.wait_until(lambda: collector.spans_named("tools/list"))
        (called,) = collector.spans_named("tools/call get_issue")
        (refused,) = collector.spans_named("tools/call call_api")
        (unknown,) = collector.spans_named("tools/call")
        assert called.kind == "server"
        wanted = {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2026-07-28",
            "jsonrpc.request.id": "1",
            "gen_ai.tool.name": "get_issue",
            "gen_ai.operation.name": "execute_tool",
            "network.transport": "tcp",
            "http.request.method": "POST",
        }
        assert wanted.items() <= called.attributes.items()
        assert (called.failed, "error.type" in called.attributes) == (False, False)
        assert (refused.failed, refused.attributes["error.type"]) == (True, "tool_error")
        assert (unknown.failed, unknown.attributes["error.type"]) == (True, "-32602")
        assert unknown.attributes["rpc.response.status_code"] == "-32602"
        (inner,) = [span for span in collector.spans if span.parent == called.span_id]
        assert (inner.attributes["gen_ai.tool.name"], inner.attributes["gateway.rule"]) == ("get_issue", GET)
        assert "mcp.method.name" not in inner.attributes
        assert collector.orphans == []
