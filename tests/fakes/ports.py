"""Ports for servers that are restarted on the same port."""

import random
import socket
from typing import Final

# These are below the ports that Linux gives to outgoing connections (32768 and up). So no such connection takes the
# port of a stopped server.
QUIET: Final = range(15_000, 32_000)


def lasting_port() -> int:
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
