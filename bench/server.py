"""A server under measurement: started on a free port, measured through /proc, and stopped."""

import http.client
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import proc

HOST: Final = "127.0.0.1"
START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 15.0
_LOOK_EVERY_S: Final = 0.004
_PORTS: Final = (12_000, 32_000)
_FILES: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# a proxied client can need two open files
CLIENTS: Final = 12_000 if _FILES == resource.RLIM_INFINITY else min(12_000, _FILES // 2 - 100)


class CannotRun(Exception):
    """A server did not start or sent a wrong response. The text names the server and its last output."""


@dataclass(slots=True)
class Target:
    """Where load is sent. `path`: prepended to each request's path. `headers`: sent with each request."""

    port: int
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: Path | None = None  # the certificate to trust for TLS; None: plain HTTP


@dataclass(slots=True)
class Server:
    """A running server. `start_s`: seconds from its start to its first correct response. `start_cpu_s`: CPU seconds in
    this time.
    """

    name: str
    target: Target
    process: subprocess.Popen[bytes]
    start_s: float = 0.0
    start_cpu_s: float = 0.0
    other_targets: dict[str, Target] = field(default_factory=dict)  # other targets of this server, by name

    def pids(self) -> list[int]:
        """Return the process IDs of the server and of all its workers. The server leads its session."""
        return proc.members(self.process.pid)


@contextmanager
def running_server(
    name: str,
    command: Sequence[str],
    target: Target,
    *,
    folder: Path,
    environ: Mapping[str, str] | None = None,
    probe: str = "/small",
) -> Iterator[Server]:
    """Run a server for the duration of the block. Its output is in `folder`. Raises CannotRun."""
    log = folder / "output.log"
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
    server = Server(name, target, process)
    try:
        _await_response(server, probe, log)
        server.start_s = time.monotonic() - began
        server.start_cpu_s = proc.cpu_s(server.pids())
        yield server
    finally:
        _stop(process)


def get(target: Target, path: str) -> tuple[int, bytes]:
    """Send one request on a new connection. Return status and body. Raises OSError or HTTPException."""
    connection = http.client.HTTPConnection(HOST, target.port, timeout=10)
    if target.certificate is not None:
        trust = ssl.create_default_context(cafile=str(target.certificate))
        connection = http.client.HTTPSConnection(HOST, target.port, timeout=10, context=trust)
    try:
        connection.request("GET", target.path + path, headers=dict(target.headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows. Servers that are started later inherit the limit."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def free_port() -> int:
    """Return a free port below the system's ephemeral ports, so that no outgoing connection takes the port."""
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


def _await_response(server: Server, probe: str, log: Path) -> None:
    until = time.monotonic() + START_LIMIT_S
    text = "nothing listened"
    while time.monotonic() < until:
        if server.process.poll() is not None:
            raise CannotRun(f"{server.name} exited with code {server.process.returncode}: {_last_words(log)}")
        with suppress(OSError, http.client.HTTPException):
            status, body = get(server.target, probe)
            if status == 200:
                return
            text = f"the last response was {status} {body[:300].decode(errors='replace')}"
        time.sleep(_LOOK_EVERY_S)
    raise CannotRun(
        f"{server.name} sent no correct response within {START_LIMIT_S:g} s: {text}. Last output: {_last_words(log)}"
    )


def _last_words(log: Path) -> str:
    """Return the last line of the log, without the path of its folder, which differs in each run."""
    lines = log.read_text(errors="replace").replace(f"{log.parent}/", "").strip().splitlines()
    return lines[-1] if lines else "(no output)"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM. If the server does not end in time, send SIGKILL to its whole session."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in proc.members(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
