"""plugin_host.py PORT GATEWAY_YAML: a host's aiohttp application with the gateway as a plugin, on aiohttp's own runner."""

import asyncio
import sys

from aiohttp import web

import gateway
from gateway.observe import logs
from gateway.server.serving_worker import freeze_startup_objects, loop_factory


async def serve(port: int, configuration: str) -> None:
    app = web.Application(client_max_size=2**40)
    gateway.setup(app, configuration)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=600, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    freeze_startup_objects()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logs.setup()
    with asyncio.Runner(loop_factory=loop_factory()) as running:
        running.run(serve(int(sys.argv[1]), sys.argv[2]))
