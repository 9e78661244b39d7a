"""Listening sockets: made here, or handed over by who started us (systemd's socket activation, and the like)."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.config import ServerConfig
from gateway.errors import StartRefused

BACKLOG: Final = 2048
FIRST_FD: Final = 3  # sd_listen_fds(3)


@contextmanager
def listening(server: ServerConfig) -> Iterator[socket.socket]:
    """The public socket. Raises StartRefused."""
    public = handed_over()
    if public is None:
        public = listen(server.host, server.port, "server.port")
    with public:
        yield public


def handed_over() -> socket.socket | None:
    """The socket in LISTEN_FDS, where it is meant for this process. Raises StartRefused for what is no such socket.

    Whoever hands it over keeps it open while one gateway ends and the next one begins: no connection is refused.
    """
    meant_for, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", "")
    if meant_for != str(os.getpid()) or not count.isdecimal():
        return None
    if int(count) != 1:
        raise StartRefused(f"LISTEN_FDS hands over {count} sockets, where one is wanted: that of server.port.")
    return _socket(FIRST_FD)


def listen(host: str, port: int, key: str) -> socket.socket:
    """A listening socket. Raises StartRefused, which names the `key` to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as fault:
        sock.close()
        words = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be listened on ({fault.strerror})"
        raise StartRefused(f"{host}:{port} {words}. Set another {key} or server.host in gateway.yaml.") from fault
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
        raise StartRefused(f"{refused}: it is no listening TCP socket.")
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
