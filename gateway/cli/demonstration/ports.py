"""Ports of the loopback address: whether one is free, and which one is."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.cli.demonstration import DemoFailed
from gateway.sandbox.app import HOST


@contextmanager
def held(port: int, flag: str) -> Iterator[int]:
    """Keep a port from others until the end of the block, so that it is free for a child then; 0 picks one.

    Raises DemoFailed, which names the flag that chooses another.
    """
    try:
        listening = socket.create_server((HOST, port))
    except OSError as fault:
        reason = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be used ({fault.strerror})"
        raise DemoFailed(f"port {port} {reason}; choose another one with {flag} (0 picks a free one)") from fault
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()
