"""Listening sockets: opened here, or passed by the process that started us (systemd's socket activation,
for example)."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple, Protocol

from gateway.errors import StartRefused

BACKLOG: Final = 2048
FIRST_FD: Final = 3  # sd_listen_fds(3)
ADMIN: Final = "admin"  # name of server.admin_port's descriptor in LISTEN_FDNAMES
CONSOLE: Final = "console"  # name of console.port's descriptor


class PortInUse(StartRefused):
    """Another process, or another gateway process, listens on server.port."""


class Addresses(Protocol):
    """Hosts and ports to listen on, from the sections `server` and `console`."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def metrics_host(self) -> str: ...
    @property
    def admin_port(self) -> int | None: ...
    @property
    def console_host(self) -> str: ...
    @property
    def console_port(self) -> int | None: ...


class Listening(NamedTuple):
    """The open sockets. `admin`, `console`: None if no such port is configured."""

    public: socket.socket
    admin: socket.socket | None
    console: socket.socket | None

    def close_to_clients(self) -> None:
        """Close the public and the console's socket; the admin port stays open."""
        for sock in (self.public, self.console):
            if sock is not None:
                sock.close()


@contextmanager
def listening(server: Addresses) -> Iterator[Listening]:
    """Yield the public socket, and those of the admin port and the console's port if configured.
    Raises StartRefused."""
    with ExitStack() as held:
        public, named = handed_over(held)
        if public is None:
            public = held.enter_context(listen(server.host, server.port, "server.port"))
        for name, host, port, key in (
            (ADMIN, server.metrics_host, server.admin_port, "server.admin_port"),
            (CONSOLE, server.console_host, server.console_port, "console.port"),
        ):
            if name not in named and port is not None:
                named[name] = held.enter_context(listen(host, port, key))
        yield Listening(public, named.get(ADMIN), named.get(CONSOLE))


def handed_over(held: ExitStack) -> tuple[socket.socket | None, dict[str, socket.socket]]:
    """Return the sockets in LISTEN_FDS that are meant for this process: the public one, and others by name. Raises
    StartRefused for anything that is not such a socket.

    systemd, or a similar supervisor, keeps them open between two gateway processes, so no connection is refused.
    """
    meant_for, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    if meant_for != str(os.getpid()) or not count.isdecimal():
        return None, {}
    public, named = None, dict[str, socket.socket]()
    for number in range(int(count)):
        name = names[number] if number < len(names) else ""
        if name in (ADMIN, CONSOLE):
            named[name] = held.enter_context(_socket(FIRST_FD + number))
        elif public is None:
            public = held.enter_context(_socket(FIRST_FD + number))
        else:
            raise StartRefused(
                f"LISTEN_FDS passes {count} sockets. Pass one public socket; name others '{ADMIN}' or '{CONSOLE}'."
            )
    return public, named


def listen(host: str, port: int, key: str) -> socket.socket:
    """Return a listening socket. Raises StartRefused, which names the `key` to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as fault:
        sock.close()
        reason = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be listened on ({fault.strerror})"
        besides = ", and update server.public_url if it contains the port" if key == "server.port" else ""
        host_key = {"server.port": "server.host", "console.port": "console.host"}.get(key, "server.admin_host")
        kind = PortInUse if fault.errno == errno.EADDRINUSE and key == "server.port" else StartRefused
        raise kind(f"{host}:{port} {reason}. Change {key} or {host_key} in gateway.yaml{besides}.") from fault
    sock.setblocking(False)
    return sock


def _socket(descriptor: int) -> socket.socket:
    refused = f"LISTEN_FDS hands over descriptor {descriptor}, which cannot be used"
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as fault:
        raise StartRefused(f"{refused}: {fault.strerror}.") from fault
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or sock.family == socket.AF_UNIX:
        sock.close()
        raise StartRefused(f"{refused}: it is not a listening TCP socket.")
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
