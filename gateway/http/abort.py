"""Ends a client's connection so that nobody can take a torn answer for a whole one."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Final

RESET: Final = struct.pack("ii", 1, 0)  # struct linger: on, zero seconds


def abort_connection(transport: asyncio.WriteTransport | None, *, reset: bool = True) -> None:
    """Reset it, and throw away what is still to be sent.

    A plain close ends with FIN, which is the proper end of an HTTP/1.0 answer without a length (RFC 9112 §6.3). Where
    the answer's own framing shows that it is torn, `reset` may be False: what the system has taken still arrives then.
    """
    if transport is None:
        return
    peer: socket.socket | None = transport.get_extra_info("socket")
    if reset and peer is not None:
        with suppress(OSError):  # the peer may be gone already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """How many bytes the client has not taken: those that we hold, and those that the system holds for it.

    The system may hold megabytes, so that our own shrink seldom while a slow client reads on.
    """
    held, sock = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    queued = bytearray(4)
    with suppress(OSError):  # not every system supports it
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, queued)
    return held + int.from_bytes(queued, sys.byteorder)
