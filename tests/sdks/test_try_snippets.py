"""The snippets of `gateway try` for requests and @nangohq/node, which are not dependencies, make the shown call."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from gateway.cli.try_.try_snippets import SentCall, TypedBody, nango, requests
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import PagedGateway, paged
from tests.sdks import environments

ALL = os.environ.get("GATEWAY_SDKS") == "all"
BODY = """{"it's": "\\"quoted\\"", "ü": "{}"}"""


@pytest.fixture
async def snippet_gateway(tmp_path: Path) -> AsyncIterator[PagedGateway]:
    async def echo(request: web.Request) -> web.Response:
        text = {"method": request.method, "target": request.raw_path, "body": (await request.read()).decode()}
        return web.json_response({**text, "mine": request.headers.get("X-Mine")})

    async with paged(tmp_path, echo) as running:
        yield running


async def output_of(folder: Path, *command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "GATEWAY_SECRET_KEY": SECRET_KEY, "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, fault = await process.communicate()
    assert process.returncode == 0, fault.decode()
    return output.decode()


def calls(snippet_gateway: PagedGateway) -> list[SentCall]:
    fields = {"X-Mine": "a 'b' \"c\""}
    get = SentCall(snippet_gateway.gateway.url, "GET", "/a%2Fb?x=%271&y=%20", "tracker", "c1", fields)
    typed = {**fields, "Content-Type": "application/json"}
    return [
        get,
        SentCall(
            snippet_gateway.gateway.url, "PATCH", "/x", "tracker", "c1", typed, TypedBody(BODY.encode(), "a file")
        ),
    ]


@pytest.mark.skipif(not ALL, reason="too slow for every run; `make sdks` runs it")
async def test_the_requests_snippet_makes_the_same_call(snippet_gateway: PagedGateway, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text(BODY)
    interpreter = await asyncio.to_thread(environments.python)
    for sent in calls(snippet_gateway):
        status, _, output = (await output_of(tmp_path, str(interpreter), "-c", requests(sent))).partition(" ")
        arrived = json.loads(output)
        assert (status, arrived["method"], arrived["target"]) == ("200", sent.method, f"/v1{sent.target}")
        assert (arrived["mine"], arrived["body"]) == (sent.headers["X-Mine"], BODY if sent.body else "")


@pytest.mark.skipif(not ALL, reason="too slow for every run; `make sdks` runs it")
async def test_the_nango_snippet_makes_the_same_call(snippet_gateway: PagedGateway, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text(BODY)
    (tmp_path / "node_modules").symlink_to(await asyncio.to_thread(environments.node_modules))
    for sent in calls(snippet_gateway):
        text = nango(sent).replace(
            "console.log(response.status, response.data)",
            "console.log(JSON.stringify([response.status, response.data]))",
        )
        (tmp_path / "main.mjs").write_text(text)
        status, arrived = json.loads(await output_of(tmp_path, "node", "main.mjs"))
        assert (status, arrived["method"], arrived["target"]) == (200, sent.method, f"/v1{sent.target}")
        assert (arrived["mine"], arrived["body"]) == (sent.headers["X-Mine"], BODY if sent.body else "")
