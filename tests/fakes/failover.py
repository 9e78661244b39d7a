"""A PostgreSQL primary and an asynchronous standby behind one port, with a failover that loses the last commits."""

import asyncio
import contextlib
import time

from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PASSWORD, PostgresServer


class Cluster:
    """A primary and a standby. `url(database)` connects to the primary, and after `fail_over` to the standby.

    `like`: a server whose programs and initial files the primary and the standby use.
    """

    def __init__(self, like: PostgresServer) -> None:
        self.primary = PostgresServer(like=like)
        self.standby: PostgresServer | None = None
        self._target = self.primary
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.StreamWriter]()
        self._serving = set[asyncio.Task[None]]()

    async def start(self) -> None:
        await asyncio.to_thread(self.primary.launch)
        await self.primary.responses()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def url(self, database: str) -> str:
        return f"postgresql://gateway:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    async def replicate(self) -> None:
        """Create a standby that has everything committed so far. The standby does not receive later commits."""
        port = self.primary.port
        self.standby = await asyncio.to_thread(lambda: PostgresServer(copied_from=port, like=self.primary))

    async def fail_over(self) -> None:
        """Kill the primary and promote the standby, which starts a new timeline."""
        assert self.standby is not None
        await asyncio.to_thread(self.primary.kill)
        await self._abort_connections()
        await asyncio.to_thread(self.standby.launch)
        await self.standby.responses()
        await self.standby.run("SELECT pg_promote()")
        deadline = time.monotonic() + PATIENCE_S
        while (await self.standby.run("SELECT pg_is_in_recovery()"))[0][0]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        self._target = self.standby

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._abort_connections()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for server in filter(None, (self.primary, self.standby)):
            await asyncio.to_thread(server.remove)

    async def _abort_connections(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError):
                upstream, sink = await asyncio.open_connection("127.0.0.1", self._target.port)
                self._open.add(sink)
                await asyncio.gather(_copy(reader, sink), _copy(upstream, writer))
                self._open.discard(sink)
        finally:
            writer.transport.abort()
            self._open.discard(writer)
            self._serving.discard(task)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()
