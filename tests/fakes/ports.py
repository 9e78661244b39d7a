"""Ports for servers that come back to the one they had."""

import random
import socket
from typing import Final

# Below what Linux gives to outgoing connections (32768 and up), so that none of them takes it while its server is away.
QUIET: Final = range(15_000, 32_000)


def lasting_port() -> int:
    """Return a port on which nothing listens now."""
    while True:
        port = random.choice(QUIET)
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
