"""Opens listening sockets, or takes over sockets that a supervisor has opened (for example systemd socket
activation)."""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, NamedTuple, Protocol

from gateway.errors import StartRefused

BACKLOG: Final = 2048
FIRST_FD: Final = 3  # number of the first descriptor that systemd passes (sd_listen_fds(3))
ADMIN: Final = "admin"  # name of server.admin_port's descriptor in LISTEN_FDNAMES
CONSOLE: Final = "console"  # name of console.port's descriptor

_SO_ATTACH_FILTER: Final = 26  # Linux, socket(7)
# A classic BPF program that reads the TCP header. Each line is a struct sock_filter: code, jump if true, jump if false,
# operand.
_DROP_SYN: Final = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte with the flags
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # if only SYN is set, go on; otherwise skip the next line
        (0x06, 0, 0, 0),  # drop the packet
        (0x06, 0, 0, 0x40000),  # let the packet pass
    )
)


class PortInUse(StartRefused):
    """Another process, perhaps another gateway, already listens on `server.port`."""


class ListenAddresses(Protocol):
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


class ListeningSockets(NamedTuple):
    """The open listening sockets. `admin`, `console`: None if this port is not configured."""

    public: socket.socket
    admin: socket.socket | None
    console: socket.socket | None

    def close_ends_listening(self) -> list[bool]:
        """Return for each socket whether no supervisor keeps it open, so that a close ends the listening.

        The list has a value for the public socket and, if configured, a value for the console's socket.
        """
        return [not isinstance(sock, PassedSocket) for sock in (self.public, self.console) if sock is not None]

    def close_to_clients(self) -> None:
        """Close the public socket and the console's socket. The admin port stays open."""
        for sock in (self.public, self.console):
            if sock is not None:
                sock.close()


@contextmanager
def listening_sockets(server: ListenAddresses) -> Iterator[ListeningSockets]:
    """Yield the public socket and, if configured, the sockets of the admin port and the console's port.

    The sockets are closed at the end of the context. Raises StartRefused.
    """
    with ExitStack() as stack:
        public, named_sockets = inherited_sockets(stack)
        if public is None:
            public = stack.enter_context(listen(server.host, server.port, "server.port"))
        for name, host, port, key in (
            (ADMIN, server.metrics_host, server.admin_port, "server.admin_port"),
            (CONSOLE, server.console_host, server.console_port, "console.port"),
        ):
            if name not in named_sockets and port is not None:
                named_sockets[name] = stack.enter_context(listen(host, port, key))
        yield ListeningSockets(public, named_sockets.get(ADMIN), named_sockets.get(CONSOLE))


def inherited_sockets(stack: ExitStack) -> tuple[socket.socket | None, dict[str, socket.socket]]:
    """Return the sockets in LISTEN_FDS: the public socket or None, and the other sockets by name.

    systemd, or a similar supervisor, keeps these sockets open between two gateway processes, so that no connection is
    refused. LISTEN_PID says for which process the sockets are. Raises StartRefused if a descriptor in LISTEN_FDS is not
    a listening TCP socket.
    """
    listen_pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    if listen_pid != str(os.getpid()) or not count.isdecimal():
        return None, {}
    public, named_sockets = None, dict[str, socket.socket]()
    for index in range(int(count)):
        name = names[index] if index < len(names) else ""
        if name in (ADMIN, CONSOLE):
            named_sockets[name] = stack.enter_context(_passed_socket(FIRST_FD + index))
        elif public is None:
            public = stack.enter_context(_passed_socket(FIRST_FD + index))
        else:
            raise StartRefused(
                f"LISTEN_FDS passes {count} sockets. Pass one public socket; name others '{ADMIN}' or '{CONSOLE}'."
            )
    return public, named_sockets


def listen(host: str, port: int, key: str) -> socket.socket:
    """Return a new listening socket. Raises StartRefused with the name of the setting `key`, which must be changed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as fault:
        sock.close()
        reason = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be listened on ({fault.strerror})"
        other_step = ", and update server.public_url if it contains the port" if key == "server.port" else ""
        host_key = {"server.port": "server.host", "console.port": "console.host"}.get(key, "server.admin_host")
        error_class = PortInUse if fault.errno == errno.EADDRINUSE and key == "server.port" else StartRefused
        raise error_class(f"{host}:{port} {reason}. Change {key} or {host_key} in gateway.yaml{other_step}.") from fault
    sock.setblocking(False)
    return sock


def ignore_new_connections(listener: socket.socket) -> None:
    """Let the kernel ignore new attempts to connect to this listening socket. Do nothing if the system is not Linux.

    Handshakes that have begun are completed, and their connections wait to be accepted. If an attempt is ignored, the
    client repeats it after a second (RFC 6298 §2.1), and is refused if the socket is closed by then.
    """
    program = ctypes.create_string_buffer(_DROP_SYN, len(_DROP_SYN))
    option = struct.pack("HP", len(_DROP_SYN) // 8, ctypes.addressof(program))
    with suppress(OSError):  # a kernel without socket filters
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)


class PassedSocket(socket.socket):
    """A listening socket that a supervisor has passed to this process and keeps open."""


def _passed_socket(descriptor: int) -> PassedSocket:
    problem = f"LISTEN_FDS hands over descriptor {descriptor}, which cannot be used"
    try:
        sock = PassedSocket(fileno=descriptor)
    except OSError as fault:
        raise StartRefused(f"{problem}: {fault.strerror}.") from fault
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or sock.family == socket.AF_UNIX:
        sock.close()
        raise StartRefused(f"{problem}: it is not a listening TCP socket.")
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
