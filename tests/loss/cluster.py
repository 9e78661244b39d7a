"""Three `gateway serve` on one PostgreSQL. Each has its own network namespace and folder, as if on its own machine."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.fakes.fronts import HOST
from tests.fakes.gateways import document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT, ServingProcess
from tests.loss.network import NODES, PROVIDER, inside, namespace

PORT: Final = 3003
FAKETIME: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
)


def faketime() -> str | None:
    """Return the path of the libfaketime library, or None if it is not installed."""
    return next((path for path in FAKETIME if Path(path).exists()), None)


class Cluster:
    """Three nodes. `addresses` (host and port) stay the same after a restart. A restarted node keeps its folder."""

    addresses: Final = tuple(f"{node}:{PORT}" for node in NODES)

    def __init__(self, folder: Path, provider_port: int, store_url: str) -> None:
        self._folder = folder
        self._running: dict[int, ServingProcess] = {}
        self._ended = list[ServingProcess]()
        url = f"http://{PROVIDER}:{provider_port}"
        write_entry(folder, "tracker", tracker_entry(url))
        self._document: dict[str, Any] = document([f"{PROVIDER}/32:{provider_port}"])
        self._document["store"]["url"] = store_url

    async def start(self, number: int, *, skew_s: int = 0) -> None:
        """Start a node and wait until it is ready. `skew_s`: how many seconds libfaketime sets its clock ahead."""
        machine = self._folder / f"machine-{number}"
        machine.mkdir(exist_ok=True)
        file = self._folder / f"node-{number}.yaml"
        server = {"host": NODES[number], "port": PORT, "public_url": f"https://{HOST}"}
        file.write_text(json.dumps({**self._document, "server": server}))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(machine)}
        if skew_s:
            library = faketime()
            assert library is not None
            environment |= {"LD_PRELOAD": library, "FAKETIME": f"{skew_s:+d}s", "NO_FAKE_STAT": "1"}
            environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        process = await asyncio.create_subprocess_exec(
            *inside(namespace(number), [sys.executable, "-m", "gateway", "serve", "-c", str(file)]),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        self._running[number] = ServingProcess(process)
        await self._running[number].ready()

    def node(self, number: int) -> ServingProcess:
        return self._running[number]

    async def serves(self, number: int) -> None:
        """Wait until `/ready` of this node responds with 200."""
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(f"http://{self.addresses[number]}/ready") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.1)

    async def restart(self, number: int, *, skew_s: int = 0) -> None:
        """Restart one node with SIGTERM. `skew_s`: how many seconds libfaketime sets its clock ahead."""
        self.node(number).signal(signal.SIGTERM)
        await self.ended(number)
        await self.start(number, skew_s=skew_s)

    async def ended(self, number: int) -> None:
        """Wait until the parent and its workers have ended."""
        node = self._running.pop(number)
        await node.ended()
        self._ended.append(node)

    def kill_all(self) -> None:
        for node in self._running.values():
            node.kill_all()

    def log(self) -> str:
        """Return the log lines of all processes since the last call. Each line is one JSON object."""
        nodes = [*self._ended, *self._running.values()]
        lines = [json.dumps({"parent": node.process.pid, **entry}) for node in nodes for entry in node.log]
        self._ended.clear()
        for node in self._running.values():
            node.log.clear()
        return "\n".join(lines)


@contextmanager
def paused(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
