"""Accepts connections in batches.

uvloop accepts one connection a turn of the loop. Beside a thousand busy clients a turn takes a tenth of a second, so a hundred
new connections, health checks among them, would wait ten seconds.
"""

import asyncio
import errno
import socket
from typing import Final

import structlog
from aiohttp import web

AT_ONCE: Final = 16  # a turn; not more, so that several workers on one socket share a burst
PAUSE_S: Final = 1.0  # where no descriptor or memory is left for a connection
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = structlog.get_logger(__name__)


class BatchSite(web.BaseSite):
    """In place of `web.SockSite`, for a listening socket that does not block; the caller closes that."""

    def __init__(self, runner: web.BaseRunner, listener: socket.socket) -> None:
        super().__init__(runner)
        assert runner.server is not None, "the runner is set up"
        self._make_protocol = runner.server
        self._listener = listener
        self._opening = set[asyncio.Task[object]]()
        self._resumption: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        host, port, *_ = self._listener.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        await super().start()
        self._resume()

    async def stop(self) -> None:
        """Accept nothing more. What was accepted has its protocol when this returns."""
        if self._resumption is not None:
            self._resumption.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.gather(*self._opening, return_exceptions=True)
        await super().stop()

    def _resume(self) -> None:
        self._resumption = None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in EXHAUSTED:
                    raise
                log.error("connections_not_accepted", detail=fault.strerror, again_in_s=PAUSE_S)
                loop.remove_reader(self._listener)
                self._resumption = loop.call_later(PAUSE_S, self._resume)
                return
            client.setblocking(False)
            opening = loop.create_task(_opened(loop, self._make_protocol, client), name="accept")
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)


async def _opened(loop: asyncio.AbstractEventLoop, make_protocol: web.Server, client: socket.socket) -> None:
    try:
        await loop.connect_accepted_socket(make_protocol, client)
    except OSError:  # the client has gone
        client.close()
