"""The upstream of all proxies: nginx with a body of 1.3 kB in memory for requests, and `bench.stream_server` for
streams.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.server import CannotRun, Server, Target, free_port, running_server

PEERS: Final = Path(__file__).parent / "peers"
ROOT: Final = Path(__file__).parent.parent
_ISSUES: Final = ",".join(f'{{"key":"ACME-{number}","summary":"{"x" * 90}"}}' for number in range(1, 11))
SMALL: Final = f'{{"issues":[{_ISSUES}'.ljust(1298) + "]}"


def binary(name: str) -> str | None:
    """Return the path of a program. Debian installs servers in folders that are not in an ordinary user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def filled(name: str, folder: Path, **values: object) -> Path:
    """Write the file `name` of peers/ to `folder`, and replace each @NAME@ in it. Return its path."""
    text = (PEERS / name).read_text()
    root = "user root;" if os.geteuid() == 0 else ""
    for key, value in {"USER": root, **values}.items():
        text = text.replace(f"@{key}@", str(value))
    made = folder / name
    made.write_text(text)
    return made


@contextmanager
def small(folder: Path) -> Iterator[Server]:
    """Run an upstream that responds to every GET with SMALL. It is nginx if nginx is installed, otherwise
    `bench.stream_server`.
    """
    nginx = binary("nginx")
    if nginx is None:
        with streams(folder) as server:
            yield server
        return
    port = free_port()
    configuration = filled("small_file.conf", folder, PORT=port, BODY=SMALL)
    command = [nginx, "-p", str(folder), "-c", str(configuration), "-e", "stderr"]
    with running_server("the upstream", command, Target(port), folder=folder) as server:
        yield server


@contextmanager
def streams(folder: Path) -> Iterator[Server]:
    """Run `bench.stream_server`, which sends and receives bodies of any size, and sends events that contain their send
    time.
    """
    port = free_port()
    command = [sys.executable, "-m", "bench.stream_server", str(port)]
    environ = {"PYTHONPATH": str(ROOT)}
    with running_server("the upstream of streams", command, Target(port), folder=folder, environ=environ) as server:
        yield server


@contextmanager
def tls(folder: Path) -> Iterator[tuple[Server, Path]]:
    """Run the TLS upstream of the shapes. Yield the upstream with the certificate to trust.

    Raises CannotRun without nginx and openssl.
    """
    nginx, openssl = binary("nginx"), binary("openssl")
    if nginx is None or openssl is None:
        raise CannotRun("the TLS upstream needs nginx and openssl")
    key, certificate, port = folder / "key.pem", folder / "certificate.pem", free_port()
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    made = [openssl, "req", "-x509", *curve, *names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    (folder / "events").mkdir()
    with streams(folder / "events") as events:
        values = {"PORT": port, "BODY": SMALL, "CERTIFICATE": certificate, "KEY": key, "EVENTS": events.target.port}
        configuration = filled("tls_upstream.conf", folder, **values)
        command = [nginx, "-p", str(folder), "-c", str(configuration), "-e", "stderr"]
        target = Target(port, certificate=certificate)
        with running_server("the TLS upstream", command, target, folder=folder) as server:
            yield server, certificate
