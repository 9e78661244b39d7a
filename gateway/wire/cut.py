"""Ends a client's connection so that nobody can take a torn answer for a whole one."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

RESET: Final = struct.pack("ii", 1, 0)  # struct linger: on, zero seconds


def cut(transport: asyncio.WriteTransport | None) -> None:
    """Reset it, and throw away what is still to be sent.

    A plain close ends with FIN, which is the proper end of an HTTP/1.0 answer without a length (RFC 9112 §6.3).
    """
    if transport is None:
        return
    peer: socket.socket | None = transport.get_extra_info("socket")
    if peer is not None:
        with suppress(OSError):  # the peer may be gone already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()
