"""Counts what clients without a key do within a minute, in this process; and who counts as one client."""

import math
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final

from gateway import clock

WINDOW_S: Final = 60.0
MOST_CLIENTS: Final = 10_000
OTHERS: Final = "others"  # clients beyond that count together


def client_network(address: str | None) -> str:
    """``192.0.2.1``, ``2001:db8:1:2::/64``; empty for a client without an address, as on a Unix socket.

    Who has one IPv6 address has all of its /64, so these count together.
    """
    if not address:
        return ""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(ip, IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(IPv6Network((int(ip) >> 64 << 64, 64)))


class ClientWindow:
    """All counts begin again when `WINDOW_S` have passed since the first. At most `MOST_CLIENTS` have one of their own."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], int] = {}
        self._began_at = -math.inf

    def count(self, client: str, of: tuple[str, ...] = (), beyond: tuple[str, ...] = ()) -> tuple[int, str, int]:
        """How many there have been, for whom they were counted, and for how many seconds the window lasts.

        `of`: what is counted apart for each client; `beyond`: the same for the clients that count together.
        """
        now = clock.monotonic()
        if now - self._began_at >= WINDOW_S:
            self._began_at = now
            self._seen.clear()
        counted = (client, *of)
        if counted not in self._seen and len(self._seen) >= MOST_CLIENTS:
            client = OTHERS
            counted = (OTHERS, *beyond)
        seen = self._seen[counted] = self._seen.get(counted, 0) + 1
        return seen, client, max(1, math.ceil(self._began_at + WINDOW_S - now))
