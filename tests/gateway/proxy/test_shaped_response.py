"""``Gateway-Select`` and ``Gateway-Max-Bytes`` return only a part of the provider's response."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.egress.page_memory import NoPageMemory, PageMemory
from tests.fakes.agent_gateway import AgentGateway, agent_gateway, text_of

ISSUES: dict[str, Any] = {
    "total": 300,
    "issues": [{"key": f"A-{n}", "fields": {"status": {"name": "Open"}, "text": "x" * 200}} for n in range(300)],
}
MIB = 1 << 20


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[AgentGateway]:
    async with agent_gateway(tmp_path) as made:
        yield made


async def call_search(gateway: AgentGateway, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    async with gateway.running.call_proxy("c1", "/search", method, integration="acme", headers=headers) as response:
        return response.status, dict(response.headers), await response.read()


def provides(gateway: AgentGateway, body: bytes, **more: Any) -> None:
    async def response(_: web.Request) -> web.Response:
        return web.Response(body=body, **{"content_type": "application/json", **more})

    gateway.provider.responding = response


async def test_only_the_selected_fields_are_returned(gateway: AgentGateway) -> None:
    headers = {"ETag": '"1"', "Content-Encoding": "gzip"}
    provides(gateway, gzip.compress(json.dumps(ISSUES).encode()), headers=headers)
    status, fields, body = await call_search(
        gateway, Gateway_Select="issues[?key=='A-7'].{key: key, state: fields.status.name}"
    )
    assert (status, body) == (200, b'[{"key":"A-7","state":"Open"}]')
    assert fields["Content-Length"] == str(len(body))
    assert not {"ETag", "Content-Encoding", "Gateway-Cut"} & set(fields)
    assert fields["Gateway-Attempts"] == "1"


async def test_a_list_is_cut_to_whole_items(gateway: AgentGateway) -> None:
    provides(gateway, json.dumps(ISSUES).encode())
    status, fields, body = await call_search(gateway, Gateway_Max_Bytes="5000")
    shaped = json.loads(body)
    assert (status, shaped["total"]) == (200, 300)
    assert 10 < len(shaped["issues"]) < 30
    assert len(body) <= 5000
    assert fields["Gateway-Cut"].startswith(f"{len(shaped['issues'])} of 300 of 'issues'; ")


@pytest.mark.parametrize("select", ["to_string([" * 30 + "@" + "])" * 30, "join(to_string(@), issues[].key)"])
async def test_an_expression_that_would_fill_the_memory_is_refused_before_it_is_sent(
    gateway: AgentGateway, select: str
) -> None:
    provides(gateway, json.dumps(ISSUES).encode())
    status, fields, _ = await call_search(gateway, Gateway_Select=select)
    assert (status, fields["Gateway-Error"]) == (400, "invalid_headers")


@pytest.mark.parametrize("begins", [True, False], ids=["stops", "never begins"])
async def test_only_a_caller_that_can_send_a_longer_timeout_is_told_about_it(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """`Gateway-Timeout` does not limit the pauses of a response, and a tool of an agent has no argument for it."""

    is_over = asyncio.Event()

    async def unfinished(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "9"})
        if begins:
            await response.prepare(request)
        await is_over.wait()
        return response

    gateway.provider.responding = unfinished
    egress = gateway.running.runtime.generation.egress
    monkeypatch.setattr(egress, "timeouts", replace(egress.timeouts, idle_s=0.2, first_byte_s=0.2))
    try:
        status, fields, body = await call_search(gateway, Gateway_Select="total")
        key = await gateway.key("GET /**")
        result = await gateway.call(key, "call_api", {"method": "GET", "path": "/search"})
    finally:
        is_over.set()
    assert (status, fields["Gateway-Error"]) == (504, "upstream_timeout")
    assert (b"To wait longer, send Gateway-Timeout" in body) is not begins
    assert ("did not respond within 0.2 s" in text_of(result)) is not begins
    assert "Gateway-Timeout" not in text_of(result)


async def test_small_responses_and_errors_pass_byte_for_byte(gateway: AgentGateway) -> None:
    provides(gateway, b"\x89PNG\x00", content_type="image/png")
    assert (await call_search(gateway, Gateway_Max_Bytes="5000"))[2] == b"\x89PNG\x00"
    provides(gateway, b'{ "error": "no" }', status=404)
    status, fields, body = await call_search(gateway, Gateway_Select="issues")
    assert (status, body) == (404, b'{ "error": "no" }')
    assert "Gateway-Error" not in fields


@pytest.mark.parametrize(
    ("body", "media_type", "wish", "reason"),
    [
        (b"\x89PNG\x00" * 100, "image/png", {"Gateway_Max_Bytes": "100"}, "too_large"),
        (b"plain", "text/plain", {"Gateway_Select": "a"}, "not_json"),
        (b'{"a": 1}', "application/json", {"Gateway_Select": "length(a)"}, "select"),
        (b"data: 1\n\n", "text/event-stream", {"Gateway_Select": "a"}, "stream"),
    ],
)
async def test_a_response_that_cannot_be_shaped_is_an_error_with_the_reason(
    gateway: AgentGateway, body: bytes, media_type: str, wish: dict[str, str], reason: str
) -> None:
    provides(gateway, body, content_type=media_type)
    status, fields, text = await call_search(gateway, **wish)
    assert (status, fields["Gateway-Error"]) == (502, "answer_not_shaped")
    assert json.loads(text)["error"]["payload"] == {"reason": reason}
    assert gateway.running.runtime.page_memory.reserved == 0


@pytest.mark.parametrize(("method", "status", "code"), [("GET", 503, "busy"), ("POST", 502, "answer_not_shaped")])
async def test_a_lack_of_memory_after_a_write_does_not_ask_for_a_retry(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch, method: str, status: int, code: str
) -> None:
    async def refuse(*_: Any) -> None:
        raise NoPageMemory

    provides(gateway, json.dumps(ISSUES).encode() * 2)
    monkeypatch.setattr(PageMemory, "reserve", refuse)
    got, fields, text = await call_search(gateway, method, Gateway_Max_Bytes="5000")
    assert (got, fields["Gateway-Error"], "Retry-After" in fields) == (status, code, method == "GET")
    assert ("The request was sent." in json.loads(text)["error"]["message"]) is (method == "POST")


@pytest.mark.parametrize(
    "wish",
    [
        {"Gateway_Select": "issues["},
        {"Gateway_Select": "x" * 600},
        {"Gateway_Max_Bytes": "99"},
        {"Gateway_Max_Bytes": "2000000"},
        {"Gateway_Max_Bytes": "many"},
        {"Gateway_Select": "a", "Gateway_Paginate": "all; type=link; link_rel=next"},
    ],
)
async def test_an_invalid_shape_header_is_refused_before_anything_is_sent(
    gateway: AgentGateway, wish: dict[str, str]
) -> None:
    status, fields, _ = await call_search(gateway, **wish)
    assert (status, fields["Gateway-Error"]) == (400, "invalid_headers")
    assert gateway.provider.calls == []


async def test_a_refused_expression_is_reported_with_the_name_of_the_header(gateway: AgentGateway) -> None:
    status, _, body = await call_search(gateway, Gateway_Select="data[.name")
    (issue,) = json.loads(body)["error"]["errors"]
    reason = "unexpected '.' at column 5. For example: issues[].{key: key, state: fields.status.name}"
    assert (status, issue["path"]) == (400, ["gateway-select"])
    assert issue["message"] == f"Gateway-Select is not a JMESPath expression: {reason}"


@pytest.mark.parametrize("wish", [{"Gateway_Select": "a"}, {"Gateway_Max_Bytes": "20000"}])
async def test_a_response_of_100_mb_is_not_read_to_its_end(gateway: AgentGateway, wish: dict[str, str]) -> None:
    sent = 0

    async def huge(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"[" + b"1," * (MIB // 2))
            sent += MIB
        return response

    gateway.provider.responding = huge
    status, fields, text = await call_search(gateway, **wish)
    assert (status, fields["Gateway-Error"]) == (502, "answer_not_shaped")
    assert json.loads(text)["error"]["payload"]["reason"] == "too_large"
    assert sent < 50 * MIB
    memory = gateway.running.runtime.page_memory
    assert memory.reserved == 0
    assert memory.peak <= 24 * MIB
