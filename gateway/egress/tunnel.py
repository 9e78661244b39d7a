"""CONNECT: a way through the outbound proxy (RFC 9110 §9.3.6)."""

import asyncio
import base64
import socket
from typing import Final, cast

from yarl import URL

from gateway.egress.errors import EgressError
from gateway.wire.answer_head import Malformed, parse_head

HEAD_BYTES: Final = 16_384


class _Asking(asyncio.Protocol):
    """Reads the proxy's answer, and nothing behind it: the first word inside a tunnel is ours."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if self.status.done() or (end < 0 and len(self._held) <= HEAD_BYTES):
            return
        try:
            status = parse_head(self._held[: max(end, 0)]).status
        except Malformed:
            status = 0
        if status < 200 and status:
            self._held = self._held[end + 4 :]
            self.data_received(b"")
            return
        self.status.set_result(0 if len(self._held) > end + 4 else status)
        self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (any end is a no)
        if not self.status.done():
            self.status.set_result(0)


async def ask_for_tunnel(sock: socket.socket, target: str, proxy: URL, refused: str) -> asyncio.Transport:
    """The transport of a tunnel to `target`, reading paused. Raises EgressError ``unreachable``, saying `refused`."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        credentials = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}")
    try:
        transport, asking = await asyncio.get_running_loop().create_connection(_Asking, sock=sock)
    except BaseException:
        sock.close()
        raise
    try:
        transport.write("\r\n".join([*lines, "", ""]).encode())
        if not 200 <= await asking.status < 300:
            raise EgressError("unreachable", refused)
    except BaseException:
        transport.abort()
        raise
    return transport
