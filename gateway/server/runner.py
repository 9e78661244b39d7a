"""A runner in aiohttp's manner, with exact bytes, strict framing, limits and a drain that lets streams finish."""

import asyncio
from functools import partial
from typing import Any, Final

from aiohttp import http_parser, web
from aiohttp.web_server import Server

from gateway.errors import StartRefused
from gateway.server.protocol import ClientProtocol

HEAD_S: Final = 20.0
KEEP_ALIVE_S: Final = 75.0  # longer than most load balancers keep their side, so that they close first
FIELD_BYTES: Final = 16_384
LINE_BYTES: Final = 16_384
HEADER_LINES: Final = 512
LOOK_AGAIN_S: Final = 0.05


class DrainingRequest(web.Request):
    """Tells the client, in the head of whatever answer is still to come, that the connection ends."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        protocol = self._protocol
        if isinstance(protocol, ClientProtocol) and protocol._server.draining:
            response.force_close()
        await super()._prepare_hook(response)


class GatewayServer(Server):
    """Makes a `ClientProtocol` for each connection. `draining`: every answer is the last of its connection."""

    def __init__(self, app: web.Application, *, head_s: float, **options: Any) -> None:
        super().__init__(
            app._handle,  # type: ignore[arg-type]
            request_factory=partial(app._make_request, _cls=DrainingRequest),
            handler_cancellation=True,
        )
        self.draining = False
        self._head_s = head_s
        self._options = options

    def __call__(self) -> ClientProtocol:
        return ClientProtocol(self, loop=self._loop, head_s=self._head_s, **self._options)


class GatewayRunner(web.AppRunner):
    """In place of `web.AppRunner`. `drain_s`: how long requests in flight may take once `cleanup` is called."""

    def __init__(self, app: web.Application, *, drain_s: float = 30, head_s: float = HEAD_S) -> None:
        super().__init__(app, shutdown_timeout=1.0)
        refuse_without_c_parser()
        self._drain_s = drain_s
        self._head_s = head_s

    async def cleanup(self) -> None:
        """Stop listening, let what is in flight finish within `drain_s`, then cut the rest and clean the application up."""
        for site in list(self.sites):
            await site.stop()
        if isinstance(self._server, GatewayServer):
            await self._drain(self._server)
        await super().cleanup()

    async def _drain(self, server: GatewayServer) -> None:
        server.draining = True
        loop = asyncio.get_running_loop()
        until = loop.time() + self._drain_s
        while True:
            busy = False
            for connection in server.connections:
                if isinstance(connection, ClientProtocol) and not connection.idle:
                    busy = True
                else:
                    connection.force_close()
            if not busy or loop.time() >= until:
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _make_server(self) -> Server:
        app = self._app
        app._set_loop(asyncio.get_running_loop())
        app.on_startup.freeze()
        await app.startup()
        app.freeze()
        return GatewayServer(
            app,
            head_s=self._head_s,
            auto_decompress=False,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            max_line_size=LINE_BYTES,
            max_field_size=FIELD_BYTES,
            max_headers=HEADER_LINES,
        )


def runner(app: web.Application, *, drain_s: float = 30, head_s: float = HEAD_S) -> GatewayRunner:
    """The gateway's runner for `app`. Raises StartRefused where aiohttp came without its C parser."""
    return GatewayRunner(app, drain_s=drain_s, head_s=head_s)


def refuse_without_c_parser() -> None:
    """The pure-Python parser is where request smuggling lived (CVE-2023-47627 and its kin): without the other, no start."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise StartRefused(
            "aiohttp came without its C extensions. Install a wheel of it, or a compiler, and try again."
        )
