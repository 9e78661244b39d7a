"""A listening socket that the process opens itself, or that a service manager passes to it."""

import fcntl
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gateway.errors import StartRefused
from gateway.process import sockets


def server(port: int = 0, **others: int) -> SimpleNamespace:
    return SimpleNamespace(
        host="127.0.0.1",
        port=port,
        metrics_host="127.0.0.1",
        console_host="127.0.0.1",
        **{"admin_port": None, "console_port": None, **others},
    )


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def hand_over(monkeypatch: pytest.MonkeyPatch, descriptor: int, *, count: str = "1", pid: int | None = None) -> None:
    monkeypatch.setattr(sockets, "FIRST_FD", descriptor)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() if pid is None else pid))
    monkeypatch.setenv("LISTEN_FDS", count)


def test_passed_socket_is_used(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    hand_over(monkeypatch, os.dup(listener.fileno()))
    with sockets.listening_sockets(server(port=1)) as (public, admin, _):
        assert admin is None
        assert public.getsockname() == listener.getsockname()
        assert not public.get_inheritable()
        assert public.gettimeout() == 0
        assert "LISTEN_FDS" not in os.environ  # so that child processes do not use it
    socket.create_connection(listener.getsockname()).close()  # the service manager keeps it open


def test_socket_for_another_process_is_ignored(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    hand_over(monkeypatch, listener.fileno(), pid=os.getpid() + 1)
    with sockets.listening_sockets(server()) as (public, _, _):
        assert public.getsockname() != listener.getsockname()


@pytest.mark.parametrize("kind", ["closed", "not listening", "unix"])
def test_descriptor_that_is_not_a_listening_socket_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: str, listener: socket.socket
) -> None:
    with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as sock:
        descriptor = 999_999 if kind == "closed" else os.dup(sock.fileno())
        hand_over(monkeypatch, descriptor)
        with (
            pytest.raises(StartRefused, match=f"LISTEN_FDS hands over descriptor {descriptor}, which cannot be used"),
            sockets.listening_sockets(server()),
        ):
            pass


@pytest.fixture
def two_sockets() -> Iterator[tuple[socket.socket, int]]:
    """Yield two listening sockets on neighbouring descriptors: the second socket, and the descriptor of the first."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        free = fcntl.fcntl(one, fcntl.F_DUPFD, 500)
        os.dup2(other.fileno(), free + 1)
        yield other, free


def test_admin_socket_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, two_sockets: tuple[socket.socket, int]
) -> None:
    other, first = two_sockets
    hand_over(monkeypatch, first, count="2")
    monkeypatch.setenv("LISTEN_FDNAMES", "gateway.socket:admin")
    with sockets.listening_sockets(server()) as (public, admin, _):
        assert admin is not None
        assert admin.getsockname() == other.getsockname() != public.getsockname()


def test_a_socket_that_a_supervisor_keeps_open_continues_to_listen(
    monkeypatch: pytest.MonkeyPatch, two_sockets: tuple[socket.socket, int]
) -> None:
    """The supervisor's next gateway process gets the same socket, so this process must not end the listening."""
    hand_over(monkeypatch, two_sockets[1], count="1")
    with sockets.listening_sockets(server(console_port=0)) as found:
        assert found.close_ends_listening() == [False, True]
    os.close(two_sockets[1] + 1)


def test_too_many_passed_sockets_are_refused(
    monkeypatch: pytest.MonkeyPatch, two_sockets: tuple[socket.socket, int]
) -> None:
    _, first = two_sockets
    hand_over(monkeypatch, first, count="2")
    with pytest.raises(StartRefused, match="LISTEN_FDS passes 2 sockets"), sockets.listening_sockets(server()):
        pass
    os.close(first + 1)


async def test_the_admin_port_is_opened_in_addition_to_the_public_port() -> None:
    with sockets.listening_sockets(server(admin_port=0)) as (public, admin, _):
        assert admin is not None
        assert admin.getsockname() != public.getsockname()
    assert public.fileno() == admin.fileno() == -1


def test_each_port_listens_on_its_own_host() -> None:
    addresses = server(admin_port=0, console_port=0)
    addresses.host, addresses.metrics_host, addresses.console_host = "127.0.0.2", "127.0.0.3", "127.0.0.4"
    with sockets.listening_sockets(addresses) as found:
        hosts = [sock.getsockname()[0] for sock in found if sock is not None]
    assert hosts == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_console_socket_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, two_sockets: tuple[socket.socket, int]
) -> None:
    other, first = two_sockets
    hand_over(monkeypatch, first, count="2")
    monkeypatch.setenv("LISTEN_FDNAMES", "gateway.socket:console")
    with sockets.listening_sockets(server()) as (public, admin, console):
        assert (admin, console is None) == (None, False)
        assert console is not None
        assert console.getsockname() == other.getsockname() != public.getsockname()


def test_the_consoles_own_port_is_opened_if_one_is_named(listener: socket.socket) -> None:
    with sockets.listening_sockets(server(console_port=0)) as found:
        assert found.console is not None
        assert found.console.getsockname() != found.public.getsockname()
        found.close_to_clients()
        assert found.public.fileno() == found.console.fileno() == -1
    port = listener.getsockname()[1]
    refused = pytest.raises(StartRefused, match=r"Change console\.port or console\.host")
    with refused, sockets.listening_sockets(server(console_port=port)):
        pass
