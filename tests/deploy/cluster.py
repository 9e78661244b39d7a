"""Three `gateway serve` processes on fixed ports, which can be restarted one by one."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.fakes.ports import free_port
from tests.fakes.processes import Files, NodeFile, ServingProcess, serving

COUNT: Final = 3
DRAIN_S: Final = 20


class Cluster:
    """Three nodes. `ports` stay the same when nodes are restarted."""

    def __init__(self, folder: Path, provider_port: int, store_url: str) -> None:
        self.ports = tuple(free_port() for _ in range(COUNT))
        self._files = []
        for port in self.ports:
            files = Files(folder, provider_port, port=port, drain_s=DRAIN_S)
            files.document["store"]["url"] = store_url
            files.path = folder / f"node-{port}.yaml"
            files.write()
            self._files.append(NodeFile(files.path))
        self._running: list[tuple[AbstractAsyncContextManager[ServingProcess], ServingProcess]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Cluster"]:
        self._running = list(await asyncio.gather(*map(_start_node, self._files)))
        await self._running[0][1].connect()
        try:
            yield self
        finally:
            for context, _ in self._running:
                await context.__aexit__(None, None, None)

    def node(self, number: int) -> ServingProcess:
        return self._running[number][1]

    async def stop(self, number: int, stop_signal: signal.Signals = signal.SIGTERM) -> int:
        """Stop a node and return its exit code. SIGKILL also kills its workers, as when its machine fails."""
        context, node = self._running[number]
        if stop_signal is signal.SIGKILL:
            node.kill_all()
        else:
            node.signal(stop_signal)
        code = await node.ended()
        await context.__aexit__(None, None, None)
        return code

    async def start(self, number: int) -> None:
        """Start a node and wait until it is ready."""
        self._running[number] = await _start_node(self._files[number])


async def _start_node(file: NodeFile) -> tuple[AbstractAsyncContextManager[ServingProcess], ServingProcess]:
    context = serving(file)
    return context, await context.__aenter__()
