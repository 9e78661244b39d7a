"""`gateway serve` processes with one integration, whose provider is a `tests.fakes.load.Upstream`."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.fakes.gateways import SECRET_KEY, document, write_entry
from tests.fakes.migrated import create_database
from tests.fakes.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
SKEWED = Path(__file__).parent / "skewed"
CONNECTION = {"Provider-Config-Key": "up", "Connection-Id": "c1"}
# Passes a socket to a command as systemd does for a socket unit: as file descriptor 3, with the process ID in the
# environment.
HAND_OVER = (
    "import os, sys; fd = int(sys.argv[1]); os.dup2(fd, 3); os.set_inheritable(3, True); "
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
    "os.execv(sys.executable, [sys.executable, '-m', 'gateway', *sys.argv[2:]])"
)


def head(path: str, key: str = SECRET_KEY) -> bytes:
    """Return the head of a proxied request to the test connection."""
    fields = {"Host": "gw", "Authorization": f"Bearer {key}", **CONNECTION}
    return (
        f"GET /proxy{path} HTTP/1.1\r\n{''.join(f'{n}: {v}{chr(13)}{chr(10)}' for n, v in fields.items())}\r\n".encode()
    )


class Files:
    """A configuration file. `write` writes `document` to it. An empty database is in the same folder, unless one
    already exists.
    """

    def __init__(self, folder: Path, upstream_port: int, **server: Any) -> None:
        self.path = folder / "gateway.yaml"
        self.document = document([f"127.0.0.1/32:{upstream_port}"], up={"provider": "up"})
        del self.document["environments"]["dev"]["integrations"]["tracker"]
        self.document["server"].update(server)
        entry = {
            "display_name": "Up",
            "categories": ["other"],
            "docs": "https://docs.example.com",
            "auth_mode": "API_KEY",
            "proxy": {"base_url": f"http://127.0.0.1:{upstream_port}", "headers": {"x-api-key": "${apiKey}"}},
        }
        write_entry(folder, "up", entry)
        create_database(folder / "gateway.db")
        self.write()

    def write(self) -> None:
        """Replace the file atomically, as an editor or a deployment does."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(self.document))
        fresh.replace(self.path)


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A configuration file that was written by another fixture."""

    path: Path


class ServingProcess:
    """A running process. `port` and `metrics_url` are set when the process is ready. `log`: its log entries so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0
        self.metrics_url = ""
        self.log: list[dict[str, Any]] = []
        self._silent = False
        self._logged = asyncio.Condition()
        self.listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._logged:
                try:
                    self.log.append(json.loads(line))
                # the line is a message for the operator, or another worker wrote into the middle of it
                except ValueError:
                    self.log.append({"event": line.decode().rstrip()})
                self._logged.notify_all()
        async with self._logged:
            self._silent = True
            self._logged.notify_all()

    async def ready(self) -> None:
        """Wait for the line that the process prints when it is ready."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await self.process.stdout.readline()).decode()
        found = re.fullmatch(r"gateway ready on http://[\d.]+:(\d+)\n", line)
        assert found, (line, self.log)
        self.port = int(found[1])
        self.metrics_url = (await self.logged("ready"))[0].get("metrics") or ""

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def logged(self, event: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait until the event was logged `times` times, and return its log entries."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._logged:
                await self._logged.wait_for(lambda: self._silent or len(self.entries(event)) >= times)
        found = self.entries(event)
        assert len(found) >= times, f"{event} was logged {len(found)} times, not {times}: {self.log}"
        return found

    def entries(self, event: str) -> list[dict[str, Any]]:
        """Return the log entries of this event so far."""
        return [entry for entry in self.log if entry["event"] == event]

    async def ended(self) -> int:
        """Wait until the process and its workers have ended. Return the exit code of the process."""
        async with asyncio.timeout(PATIENCE_S):
            code = await self.process.wait()
            await self.listening
        return code

    def workers(self) -> list[int]:
        """Return the IDs of the child processes that any thread of the process started. Empty after its exit."""
        pids = list[int]()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        return sorted(pids)

    def kill_all(self) -> None:
        """Kill the parent and its workers at the same time, as when the machine fails."""
        workers = self.workers()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def connect(self) -> None:
        """Create the connection to which `head` sends requests."""
        body = {
            "provider_config_key": "up",
            "connection_id": "c1",
            "credentials": {"type": "API_KEY", "apiKey": "k" * 20},
        }
        url = f"http://127.0.0.1:{self.port}/connections"
        headers = {"Authorization": f"Bearer {SECRET_KEY}"}
        async with aiohttp.ClientSession(headers=headers) as http, http.post(url, json=body) as response:
            assert response.status == 201, await response.text()

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as http, http.get(self.metrics_url) as response:
            assert response.status == 200
            assert response.content_type == "text/plain"
            return await response.text()


@asynccontextmanager
async def serving(
    files: "Files | NodeFile", listener: socket.socket | None = None, *, skew_s: float = 0.0, folder: Path | None = None
) -> AsyncIterator[ServingProcess]:
    """Start a process and yield it when it is ready. `listener`: a socket on which the process serves; None: its own.

    `skew_s`: how many seconds the clock of the process and its children is ahead. `folder`: of its simulated machine,
    for temporary files.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if skew_s:
        environment["PYTHONPATH"] = os.pathsep.join((str(SKEWED), str(ROOT)))
        environment["PYTHON_TEST_SKEW_S"] = str(skew_s)
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    command = [sys.executable, "-m", "gateway"]
    if listener is not None:
        command = [sys.executable, "-c", HAND_OVER, str(listener.fileno())]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("serve", "-c", str(files.path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=[listener.fileno()] if listener is not None else [],
        env=environment,
    )
    gateway = ServingProcess(process)
    try:
        await gateway.ready()
        yield gateway
    finally:
        gateway.kill_all()  # after a failed test, workers without a parent would continue until the drain time ends
        assert process.stdout is not None
        await process.stdout.read()  # workers can run a moment longer than their parent, and keep the pipe open
        await process.wait()
        await gateway.listening
