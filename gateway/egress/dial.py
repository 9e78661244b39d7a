"""From an origin to an open connection: look up, admit, connect to an admitted address, TLS, all within one limit."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aiohappyeyeballs import start_connection
from yarl import URL

from gateway.egress.connection import Connection
from gateway.egress.errors import AddressRefused, EgressError
from gateway.egress.guard import Guard, Scheme, SocketAddress
from gateway.egress.names import Names
from gateway.egress.tls import reason
from gateway.egress.tunnel import ask_for_tunnel
from gateway.wire.origin import DEFAULT_PORTS, bracketed
from gateway.wording import unconnected

SocketFactory = Callable[[Any], socket.socket]

STAGGER_S: Final = 0.25  # RFC 8305 §5


class Dialler:
    """`proxy`: the operator's outbound proxy, which https goes through; what it is told is an address that was checked."""

    def __init__(self, guard: Guard, names: Names, connect_s: float, proxy: URL | None = None) -> None:
        self._guard = guard
        self._names = names
        self._connect_s = connect_s
        self._proxy = proxy

    async def dial(
        self, scheme: Scheme, host: str, port: int, connection: Connection, tls: ssl.SSLContext | None
    ) -> None:
        """Open `connection` to the origin, over `tls` if that is https. Raises EgressError."""
        origin = f"{scheme}://{bracketed(host)}:{port}"
        try:
            async with asyncio.timeout(self._connect_s):
                await self._dial(scheme, host, port, connection, tls)
        except TimeoutError:
            raise EgressError("timeout", f"No connection to {origin} came about in time.") from None
        except AddressRefused as fault:
            raise EgressError("refused", f"{origin} is refused: {fault}.") from fault
        except ssl.SSLError as fault:
            raise EgressError("tls", f"TLS with {origin} failed: {reason(fault)}.") from fault
        except OSError as fault:
            raise EgressError("unreachable", f"{origin} could not be reached: {unconnected(fault)}.") from fault

    async def _dial(
        self, scheme: Scheme, host: str, port: int, connection: Connection, tls: ssl.SSLContext | None
    ) -> None:
        addresses = await self._addresses(host, port)
        self._guard.admit(scheme, host, port, addresses)
        if scheme == "https" and self._proxy is not None:
            await self._tunnel(self._proxy, addresses[0], host, port, connection, tls)
            return
        sock = await _connected(addresses, port, partial(self._guard.socket, scheme))
        loop = asyncio.get_running_loop()
        name = host if scheme == "https" else None
        try:
            await loop.create_connection(lambda: connection, sock=sock, ssl=tls if name else None, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Those of a name; an address that is written out stands for itself."""
        if ":" in host or host.replace(".", "").isdigit():
            return [host]
        return await self._names.addresses(host, port)

    async def _tunnel(
        self, proxy: URL, address: str, host: str, port: int, connection: Connection, tls: ssl.SSLContext | None
    ) -> None:
        """TLS with `host` inside a tunnel to `address` (RFC 9110 §9.3.6). Only the proxy itself is dialled here."""
        origin = f"https://{bracketed(host)}:{port}"
        refused = f"The outbound proxy did not open a way to {origin}."
        proxy_host, proxy_port = proxy.host or "", proxy.port or DEFAULT_PORTS["http"]
        try:
            found = await self._addresses(proxy_host, proxy_port)
            sock = await _connected(found, proxy_port, _plain_socket)
        except (OSError, EgressError) as fault:
            raise EgressError("unreachable", refused) from fault
        transport = await ask_for_tunnel(sock, f"{bracketed(address)}:{port}", proxy, refused)
        assert tls is not None  # only https goes through a proxy
        try:
            inside = await asyncio.get_running_loop().start_tls(transport, connection, tls, server_hostname=host)
        except BaseException:
            transport.abort()
            raise
        if inside is None:
            raise EgressError("unreachable", refused)
        connection.connection_made(inside)


async def _connected(addresses: list[str], port: int, make: SocketFactory) -> socket.socket:
    """The first of these addresses that answers; IPv6 and IPv4 in turns (RFC 8305)."""
    candidates: list[SocketAddress] = [
        (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
        for address in addresses
    ]
    sock = await start_connection(candidates, happy_eyeballs_delay=STAGGER_S, interleave=1, socket_factory=make)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _plain_socket(address: SocketAddress) -> socket.socket:
    family, kind, protocol, _, _ = address
    return socket.socket(family, kind, protocol)
