"""The proxies that the benchmark compares with the gateway: how to start each proxy, and which programs it needs.

To add a proxy, add one line to PEERS.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from bench.server import CLIENTS, Server, Target, free_port, running_server
from bench.upstream import PEERS as FILES
from bench.upstream import binary, filled

BUILD_LIMIT_S: Final = 300


class Contender(Protocol):
    """A proxy under measurement. `name` is unique; `title` and `note` appear in the table."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def note(self) -> str: ...

    def missing(self) -> str | None:
        """Return the reason why the contender cannot run here, or None if it can."""

    def version(self) -> str: ...

    def running(
        self, folder: Path, upstream: int, *, streams: bool, certificate: Path | None = None
    ) -> AbstractContextManager[Server]:
        """Return a context manager that yields a Server in front of the upstream on this port. Raises CannotRun.

        `streams`: configure the proxy for bodies of any size, if it needs a setting for them.
        """


@dataclass(frozen=True, slots=True)
class Peer:
    """Another proxy. `command` and `file` (its configuration) can contain {port}, {upstream}, {file} and {folder}."""

    name: str
    title: str
    program: str
    file: str
    command: tuple[str, ...]
    version_of: tuple[str, ...]
    note: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    build: tuple[str, ...] = ()

    def missing(self) -> str | None:
        return None if self._binary() else f"{self.program} is not installed"

    def version(self) -> str:
        """Run the program and return the first word of its output that looks like a version number."""
        result = subprocess.run([self._binary() or "", *self.version_of], capture_output=True, text=True, check=False)
        words = (result.stdout + result.stderr).replace("/", " ").split()
        return next((word.removeprefix("go").lstrip("v") for word in words if any(map(str.isdigit, word))), "")

    @contextmanager
    def running(
        self, folder: Path, upstream: int, *, streams: bool, certificate: Path | None = None
    ) -> Iterator[Server]:
        port = free_port()
        result = {"PORT": port, "UPSTREAM": upstream, "CLIENTS": CLIENTS, **_for_streams(streams)}
        result |= {"SCHEME": "https" if certificate else "http", "TRUST": _trust(certificate)}
        file = filled(self.file, folder, **result)
        places = {"port": port, "upstream": upstream, "file": file, "folder": folder, "program": self._binary() or ""}
        if self.build:
            command = [part.format(**places) for part in self.build]
            subprocess.run(
                command, check=True, cwd=folder, env={**os.environ, "GO111MODULE": "off"}, timeout=BUILD_LIMIT_S
            )
        command = [part.format(**places) for part in self.command]
        environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder), **self.environ}
        if certificate is not None:
            trusted = {"SSL_CERT_FILE": str(certificate), "NODE_EXTRA_CA_CERTS": str(certificate)}
            environ |= {"UPSTREAM_SCHEME": "https", **trusted}
        with running_server(self.title, command, Target(port), folder=folder, environ=environ) as server:
            yield server

    def _binary(self) -> str | None:
        return sys.executable if self.program == "python" else binary(self.program)


def _trust(certificate: Path | None) -> str:
    """Return the directives with which nginx verifies the upstream's certificate, or "" without a certificate."""
    if certificate is None:
        return ""
    return f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {certificate}; proxy_ssl_name localhost;"


def _for_streams(streams: bool) -> dict[str, str]:
    """Return the settings with which nginx and HAProxy forward streams without buffering."""
    if streams:
        return {"BUFFERING": "off", "NO_DELAY": "option http-no-delay"}
    return {"BUFFERING": "on", "NO_DELAY": ""}


ONE_CORE: Final = {"GOMAXPROCS": "1"}

PEERS: Final = (
    Peer(
        "nginx",
        "nginx",
        "nginx",
        "nginx.conf",
        ("{program}", "-p", "{folder}", "-c", "{file}", "-e", "stderr"),
        ("-v",),
        "C, one worker, `proxy_pass` with keep-alive; no credential work",
    ),
    Peer(
        "haproxy",
        "HAProxy",
        "haproxy",
        "haproxy.cfg",
        ("{program}", "-db", "-f", "{file}"),
        ("-v",),
        "C, one thread; no credential work",
    ),
    Peer(
        "caddy",
        "Caddy",
        "caddy",
        "Caddyfile",
        ("{program}", "run", "--config", "{file}", "--adapter", "caddyfile"),
        ("version",),
        "Go, `GOMAXPROCS=1`; no credential work",
        ONE_CORE,
    ),
    Peer(
        "go",
        "Go httputil.ReverseProxy",
        "go",
        "reverse_proxy.go",
        ("{folder}/reverse_proxy", "{port}", "{upstream}"),
        ("version",),
        "Go, `GOMAXPROCS=1`; no credential work",
        ONE_CORE,
        build=("{program}", "build", "-o", "{folder}/reverse_proxy", "{file}"),
    ),
    Peer(
        "node",
        "Node http pipe",
        "node",
        "pipe.js",
        ("{program}", "{file}", "{port}", "{upstream}"),
        ("--version",),
        "two pipes and a keep-alive agent; no credential work",
    ),
    Peer(
        "aiohttp",
        "aiohttp + ClientSession",
        "python",
        "aiohttp_session.py",
        ("{program}", "{file}", "{port}", "{upstream}"),
        ("-c", "import aiohttp; print(aiohttp.__version__)"),
        "Python with uvloop; no credential work",
    ),
)
assert FILES.is_dir()
