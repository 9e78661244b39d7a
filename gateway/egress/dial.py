"""Opens connections to origins: name look-up, guard, TCP, outbound proxy and TLS, within one time limit."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast

from aiohappyeyeballs import start_connection
from yarl import URL

from gateway.egress.egress_errors import AddressRefused, EgressError
from gateway.egress.guard import Guard, Scheme, SocketAddress
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.tls import handshake_failure
from gateway.http.response_head import MalformedMessage, parse_head
from gateway.origin import DEFAULT_PORTS, bracketed, origin_of
from gateway.text import connect_failure

# ── Resolves host names in threads, within a time limit. Concurrent callers share the look-up of a name.

LIMIT_S: Final = 5.0
_THREADS: Final = 16


class NameResolver:
    """Resolves names with the system's resolver.

    The resolver has its own threads, so that a name server that does not respond delays only look-ups.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None  # made at the first look-up
        self._pending: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the IP addresses of a name, in the system's order. Raises EgressError ``unreachable``, ``timeout``."""
        try:
            async with asyncio.timeout(LIMIT_S):
                addresses = await asyncio.shield(self._shared_look_up(host, port))
        except TimeoutError:
            raise EgressError("timeout", f"The look-up of {host} took more than {LIMIT_S:g} s.") from None
        except (OSError, UnicodeError) as fault:
            raise EgressError("unreachable", f"The name {host} has no address.") from fault
        if not addresses:
            raise EgressError("unreachable", f"The name {host} has no address.")
        return addresses

    def _shared_look_up(self, host: str, port: int) -> asyncio.Future[list[str]]:
        """Return the look-up of `host`, which all concurrent callers share; await it with `asyncio.shield`."""
        key = (host, port)
        look_up = self._pending.get(key)
        if look_up is None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
            look_up = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
            self._pending[key] = look_up
            look_up.add_done_callback(lambda done: self._look_up_ended(key, done))
        return look_up

    def _look_up_ended(self, key: tuple[str, int], look_up: asyncio.Future[list[str]]) -> None:
        del self._pending[key]
        if not look_up.cancelled():
            look_up.exception()  # avoids the "never retrieved" warning; callers that still wait get the exception

    def close(self) -> None:
        """End the threads, and cancel look-ups that have not started. A later look-up makes new threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str, port: int) -> list[str]:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in addresses))


# ── Opens a tunnel through the outbound proxy with CONNECT (RFC 9110 §9.3.6).

MAX_HEAD_BYTES: Final = 16_384


class _TunnelHandshake(asyncio.Protocol):
    """Reads the proxy's response to CONNECT.

    Bytes after the response's head are treated as a refusal, because the gateway sends the first byte in a tunnel.
    `status`: status of the response; 0 without a valid response.
    """

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not derive from it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if self.status.done() or (end < 0 and len(self._buffer) <= MAX_HEAD_BYTES):
            return
        try:
            status = parse_head(self._buffer[: max(end, 0)]).status
        except MalformedMessage:
            status = 0
        if status < 200 and status:
            self._buffer = self._buffer[end + 4 :]
            self.data_received(b"")
            return
        self.status.set_result(0 if len(self._buffer) > end + 4 else status)
        self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (any end means refusal)
        if not self.status.done():
            self.status.set_result(0)


async def open_tunnel(sock: socket.socket, target: str, proxy: URL, refusal_message: str) -> asyncio.Transport:
    """Return the transport of a tunnel to `target`, with reading paused.

    Raises EgressError ``unreachable`` with the message `refusal_message`.
    """
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        credentials = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}")
    try:
        transport, handshake = await asyncio.get_running_loop().create_connection(_TunnelHandshake, sock=sock)
    except BaseException:
        sock.close()
        raise
    try:
        transport.write("\r\n".join([*lines, "", ""]).encode())
        if not 200 <= await handshake.status < 300:
            raise EgressError("unreachable", refusal_message)
    except BaseException:
        transport.abort()
        raise
    return transport


SocketFactory = Callable[[Any], socket.socket]

STAGGER_S: Final = 0.25  # delay between two connection attempts (RFC 8305 §5)


class Dialler:
    """Opens connections to origins.

    `connect_s`: time limit for opening a connection, in seconds. `proxy`: the operator's outbound proxy for https, or
    None. The proxy gets a checked IP address instead of the host name.
    """

    def __init__(self, guard: Guard, names: NameResolver, connect_s: float, proxy: URL | None = None) -> None:
        self._guard = guard
        self._names = names
        self._connect_s = connect_s
        self._proxy = proxy

    async def dial(
        self, scheme: Scheme, host: str, port: int, connection: ProviderConnection, tls: ssl.SSLContext | None
    ) -> None:
        """Open `connection` to the origin. `tls`: the context for https; None for http. Raises EgressError."""
        origin = origin_of(scheme, host, port)
        try:
            async with asyncio.timeout(self._connect_s):
                await self._dial(scheme, host, port, connection, tls)
        except TimeoutError:
            raise EgressError("timeout", f"Connecting to {origin} timed out.") from None
        except AddressRefused as fault:
            raise EgressError("refused", f"{origin} is refused: {fault}.") from fault
        except ssl.SSLError as fault:
            raise EgressError("tls", f"TLS with {origin} failed: {handshake_failure(fault)}.") from fault
        except OSError as fault:
            raise EgressError("unreachable", f"{origin} could not be reached: {connect_failure(fault)}.") from fault

    async def _dial(
        self, scheme: Scheme, host: str, port: int, connection: ProviderConnection, tls: ssl.SSLContext | None
    ) -> None:
        addresses = await self._addresses(host, port)
        self._guard.admit(scheme, host, port, addresses)
        if scheme == "https" and self._proxy is not None:
            await self._tunnel(self._proxy, addresses[0], host, port, connection, tls)
            return
        sock = await _connect_socket(addresses, port, partial(self._guard.socket, scheme))
        loop = asyncio.get_running_loop()
        name = host if scheme == "https" else None
        try:
            await loop.create_connection(lambda: connection, sock=sock, ssl=tls if name else None, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Return the IP addresses of a host name, or `host` itself if it is an IP address. Raises EgressError."""
        if ":" in host or host.replace(".", "").isdigit():
            return [host]
        return await self._names.addresses(host, port)

    async def _tunnel(
        self, proxy: URL, address: str, host: str, port: int, connection: ProviderConnection, tls: ssl.SSLContext | None
    ) -> None:
        """Open TLS with `host` in a tunnel to `address` (RFC 9110 §9.3.6).

        The guard does not check the address of the proxy.
        """
        origin = origin_of("https", host, port)
        refusal_message = f"The outbound proxy did not open a tunnel to {origin}."
        proxy_host, proxy_port = proxy.host or "", proxy.port or DEFAULT_PORTS["http"]
        try:
            addresses = await self._addresses(proxy_host, proxy_port)
            sock = await _connect_socket(addresses, proxy_port, _unguarded_socket)
        except (OSError, EgressError) as fault:
            raise EgressError("unreachable", refusal_message) from fault
        transport = await open_tunnel(sock, f"{bracketed(address)}:{port}", proxy, refusal_message)
        assert tls is not None  # only https goes through a proxy
        try:
            tls_transport = await asyncio.get_running_loop().start_tls(transport, connection, tls, server_hostname=host)
        except BaseException:
            transport.abort()
            raise
        if tls_transport is None:
            raise EgressError("unreachable", refusal_message)
        connection.connection_made(tls_transport)


async def _connect_socket(addresses: list[str], port: int, socket_factory: SocketFactory) -> socket.socket:
    """Return a socket that is connected to one of `addresses`. Try IPv6 and IPv4 addresses alternately (RFC 8305)."""
    candidates: list[SocketAddress] = [
        (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
        for address in addresses
    ]
    sock = await start_connection(
        candidates, happy_eyeballs_delay=STAGGER_S, interleave=1, socket_factory=socket_factory
    )
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _unguarded_socket(address: SocketAddress) -> socket.socket:
    family, kind, protocol, _, _ = address
    return socket.socket(family, kind, protocol)
