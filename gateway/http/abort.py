"""Aborts a client's connection so that the client cannot take an incomplete response for a complete one."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Final

LINGER_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close discards unsent bytes and resets


def abort_connection(transport: asyncio.WriteTransport | None, *, reset: bool = True) -> None:
    """Reset the connection and discard the bytes that are not sent yet.

    An ordinary close sends FIN. FIN is the correct end of an HTTP/1.0 response without a length (RFC 9112 §6.3), so the
    client would take the response for complete.

    `reset`: False lets the bytes in the socket buffer still arrive. Use False only if the framing already shows that
    the response is incomplete.
    """
    if transport is None:
        return
    peer: socket.socket | None = transport.get_extra_info("socket")
    if reset and peer is not None:
        with suppress(OSError):  # the peer may have closed the connection already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    transport.abort()


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Return how many bytes the client has not read yet: the bytes in the transport's buffer and in the socket buffer.

    The transport's buffer alone does not show whether a slow client reads. The socket buffer can contain megabytes, and
    the transport's buffer shrinks only when the socket buffer has room again.
    """
    buffered, sock = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    socket_queue_size = bytearray(4)
    # Not every system supports this request. The socket of a closed transport has no valid descriptor.
    with suppress(OSError, ValueError):
        if sock is not None:
            fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, socket_queue_size)
    return buffered + int.from_bytes(socket_queue_size, sys.byteorder)


def bytes_held_up(transport: asyncio.WriteTransport) -> int:
    """Return how many sent bytes the client must read before the rest of the response can be sent; 0 if no byte waits.

    While this number shrinks, the client is reading, even if the gateway can send no further byte for minutes.
    """
    return unread_bytes(transport) if transport.get_write_buffer_size() else 0
