"""Ports of 127.0.0.1: one that a server can use, and one that refuses connections."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# These are below the ports that Linux gives to outgoing connections and to servers without a port of their own (32768
# and up). So none of them takes the port before its server starts, or between a stop and a start.
QUIET: Final = range(15_000, 32_000)


def free_port() -> int:
    """Return a port on which nothing listens at the moment."""
    while True:
        port = random.choice(QUIET)
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a bound port that does not listen: connections to it are refused. No other process can use it meanwhile."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        yield port
