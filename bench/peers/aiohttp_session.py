"""aiohttp_session.py PORT UPSTREAM_PORT: the simplest proxy on aiohttp's server, its ClientSession and uvloop.

The proxy only forwards. It checks no key, looks up no connection and writes no log. It drops framing fields in both
directions.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from multidict import CIMultiDict

HOP_BY_HOP = ("Connection", "Keep-Alive", "Transfer-Encoding", "TE", "Upgrade", "Proxy-Connection")


class Proxy:
    """Sends every request to the same upstream."""

    def __init__(self, upstream_port: int) -> None:
        self._origin = f"{os.environ.get('UPSTREAM_SCHEME', 'http')}://127.0.0.1:{upstream_port}"
        self._session: ClientSession

    async def session(self, _app: web.Application) -> AsyncIterator[None]:
        connector = TCPConnector(limit=0, keepalive_timeout=600)
        timeout = ClientTimeout(total=None)
        jar = DummyCookieJar()
        async with ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=jar
        ) as session:
            self._session = session
            yield

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = _end_to_end(request.headers)
        body = request.content if request.body_exists else None
        sent = self._session.request(
            request.method, self._origin + request.raw_path, headers=headers, data=body, allow_redirects=False
        )
        async with sent as reply:
            response = web.StreamResponse(status=reply.status, headers=_end_to_end(reply.headers))
            await response.prepare(request)
            async for piece in reply.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


def _end_to_end(fields: Mapping[str, str]) -> CIMultiDict[str]:
    kept: CIMultiDict[str] = CIMultiDict(fields)
    for name in HOP_BY_HOP:
        kept.popall(name, None)
    return kept


async def serve(port: int, upstream_port: int) -> None:
    proxy = Proxy(upstream_port)
    app = web.Application(client_max_size=2**40)
    app.cleanup_ctx.append(proxy.session)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=600, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.Loop
    return None


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=_loop_factory()) as running:
        running.run(serve(int(sys.argv[1]), int(sys.argv[2])))
