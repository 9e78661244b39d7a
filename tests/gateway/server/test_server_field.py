"""The gateway's own responses name the software without its version. (A provider's own field is forwarded: tests/wire.)"""

from pathlib import Path

import pytest

from gateway.sandbox.app import running
from tests.fakes.load import Upstream
from tests.fakes.processes import Files, head, serving
from tests.fakes.raw import exchange, parsed

OURS = {
    "health": b"GET /health HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n",
    "no such endpoint": b"GET /nowhere HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n",
    "no key": b"GET /proxy/x HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n",
    "a page": b"GET /connect HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n",
    "an unknown connection": head("/x").replace(b"c1", b"c9").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: gw\r\n\r\n",
    "a head too large": b"GET / HTTP/1.1\r\nHost: gw\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    "two framings": b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_no_response_of_the_gateway_names_a_version(tmp_path: Path) -> None:
    upstream = Upstream()
    async with upstream.serving(), serving(Files(tmp_path, upstream.port, admin_port=0)) as gateway:
        await gateway.connect()
        admin = int(gateway.metrics_url.rpartition(":")[2].partition("/")[0])
        for port in (gateway.port, admin):
            for what, request in OURS.items():
                response = parsed(await exchange(port, request))
                assert response.headers["server"] == "gateway", (what, response.line)


async def test_no_response_of_the_sandbox_names_a_version() -> None:
    async with running([]) as sandbox:
        port = int(sandbox.issuer.rpartition(":")[2])
        response = parsed(await exchange(port, OURS["no such endpoint"]))
        assert response.headers["server"] == "gateway"
