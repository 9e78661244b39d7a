"""Runs nginx and HAProxy with the configurations of deploy/. Only ports and file names in the configurations are
replaced.
"""

import asyncio
import contextlib
import os
import re
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fakes.certificate import tls_contexts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
HOST: Final = "gateway.example.com"


@dataclass(frozen=True, slots=True)
class Ports:
    """The balancer's ports for HTTPS and plain HTTP. `nodes`: the address of each node, as ``host:port``."""

    https: int
    plain: int
    nodes: tuple[str, ...]


@dataclass(slots=True)
class Balancer:
    """A running balancer. `tls` is a client context that trusts its certificate. `log` is all output of the balancer so
    far.
    """

    name: str
    ports: Ports
    tls: ssl.SSLContext
    process: asyncio.subprocess.Process
    logged: Path

    @property
    def log(self) -> str:
        return self.logged.read_text()


def program(name: str) -> str | None:
    """Return the program's path. Debian installs daemons outside of most users' PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def nginx_conf(folder: Path, certificate: Path, ports: Ports) -> list[str]:
    """Write deploy/nginx.conf for these ports into `folder`. Return the command to run. Append ``-t`` to only check the
    file.
    """
    text = (DEPLOY / "nginx.conf").read_text()
    text = replace_exactly(text, r"/etc/nginx/tls/(fullchain|privkey)\.pem", str(certificate), 2)
    text = replace_exactly(text, r"listen 443 ", f"listen 127.0.0.1:{ports.https} ", 1)
    text = replace_exactly(text, r"listen 80;", f"listen 127.0.0.1:{ports.plain};", 1)
    text = replace_exactly(text, r"pid /run/nginx\.pid;", f"pid {folder}/nginx.pid;", 1)
    for number, node in enumerate(ports.nodes, 1):
        text = replace_exactly(text, rf"172\.30\.30\.1{number}:3003", node, 1)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    # not every user can write to the default paths of nginx
    scratch = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    path = folder / "nginx.conf"
    path.write_text(replace_exactly(text, r"^http \{\n", "http {\n" + scratch, 1))
    return [str(program("nginx")), "-e", "stderr", "-p", str(folder), "-c", str(path)]


def haproxy_cfg(folder: Path, certificate: Path, ports: Ports) -> list[str]:
    """Write deploy/haproxy.cfg for these ports into `folder`. Return the command to run. Append ``-c`` to only check
    the file.
    """
    text = (DEPLOY / "haproxy.cfg").read_text()
    text = replace_exactly(text, r"/etc/haproxy/tls/gateway\.pem", str(certificate), 1)
    text = replace_exactly(text, r"bind :443 ", f"bind 127.0.0.1:{ports.https} ", 1)
    text = replace_exactly(text, r"bind :80 ", f"bind 127.0.0.1:{ports.plain} ", 1)
    for number, node in enumerate(ports.nodes, 1):
        text = replace_exactly(text, rf"172\.30\.30\.1{number}:3003", node, 2)
    path = folder / "haproxy.cfg"
    path.write_text(text)
    return [str(program("haproxy")), "-f", str(path)]


def replace_exactly(text: str, pattern: str, replacement: str, times: int) -> str:
    """Replace `pattern` by `replacement`. Raises AssertionError unless `pattern` matches exactly `times` times."""
    text, found = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE)
    assert found == times, (pattern, found)
    return text


COMMANDS: Final[dict[str, tuple[Callable[[Path, Path, Ports], list[str]], list[str]]]] = {
    "nginx": (nginx_conf, ["-g", "daemon off;"]),
    "haproxy": (haproxy_cfg, ["-db"]),
}


@asynccontextmanager
async def start_balancer(name: str, folder: Path, nodes: Sequence[str]) -> AsyncIterator[Balancer]:
    """Run the balancer `name` in front of `nodes`. Yield it as soon as it accepts connections."""
    _, trusting = tls_contexts(HOST, folder)
    write, in_foreground = COMMANDS[name]
    ports = Ports(free_port(), free_port(), tuple(nodes))
    command = write(folder, folder / "certificate.pem", ports)
    logged = folder / f"{name}.log"
    with logged.open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, *in_foreground, stdout=log, stderr=log)
    made = Balancer(name, ports, trusting, process, logged)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _is_listening(ports.https):
                assert process.returncode is None, made.log
                await asyncio.sleep(0.02)
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
