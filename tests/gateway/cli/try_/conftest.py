"""A gateway in front of a provider that returns the request, and `gateway try` as called from a terminal."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import PagedGateway, paged

Try = Callable[..., Awaitable[Result]]


async def response(request: web.Request) -> web.StreamResponse:
    """Return the request as JSON. Some paths get the special response that their name describes."""
    name = request.path.rpartition("/")[2]
    if name == "long":
        return web.json_response([{"n": number} for number in range(100)])
    if name == "binary":
        return web.Response(body=b"\x89PNG\xff\x00", content_type="image/png")
    if name == "gone":
        return web.json_response({"why": "gone"}, status=410)
    if name == "events":
        return web.Response(text="data: 1\n\ndata: 2\n\n", content_type="text/event-stream")
    if name == "sly":
        return web.Response(text="a\x1b[2Jb", content_type="text/plain")
    if name == "sly-events":
        return web.Response(text="data: a\x1b[2Jb\r\n\r\n", content_type="text/event-stream")
    text = {
        "method": request.method,
        "target": request.raw_path,
        "body": (await request.read()).decode("latin-1"),
        "type": request.headers.get("Content-Type"),
        "mine": request.headers.get("X-Mine"),
    }
    return web.json_response(text)


@pytest.fixture
async def running_target(tmp_path: Path) -> AsyncIterator[PagedGateway]:
    """A gateway with connections ``c1`` and ``c2``, and its gateway.yaml in the folder."""
    verification = {"method": "GET", "endpoints": ["/whoami"]}
    async with paged(tmp_path, response, verification=verification) as running:
        document = json.loads(json.dumps(running.gateway.document))
        document["server"]["port"] = int(running.gateway.url.rpartition(":")[2])
        (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(document))
        yield running


@pytest.fixture
def try_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Try:
    """Run ``await try_command("tracker", "c1", "/x")`` in the folder of the configuration."""
    monkeypatch.chdir(tmp_path)
    for name in ("GATEWAY_URL", "GATEWAY_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)

    async def run(*arguments: str, stdin: str | None = None) -> Result:
        result = await asyncio.to_thread(CliRunner().invoke, main, ["try", *arguments], input=stdin)
        assert SECRET_KEY not in result.output
        return result

    return run
