"""How often one client may send an invalid key; who counts as one client.

Valid keys are looked up first and never come here, so those who share an address with a guesser (behind a load balancer
everybody does) are not affected.
"""

import math
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final

import structlog

from gateway import clock
from gateway.access.refusals import rule_and_fix
from gateway.errors import GatewayError, TooManyRequests, Unauthorized

# ── Who is counted as one client where no key says who it is: an IPv4 address, or an IPv6 network of 64 bits.


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


WINDOW_S: Final = 60.0
MOST: Final = 50
MOST_CLIENTS: Final = 10_000
OTHERS: Final = "others"  # clients beyond that count together

log = structlog.get_logger(__name__)


class InvalidKeys:
    """Counts by client, for a minute, in this process. `count` is called for each."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._seen: dict[str, int] = {}
        self._began_at = -math.inf

    def answer(self, fault: Unauthorized, client: str, request_id: str) -> GatewayError:
        """What to answer `client`, an address, whose key was refused with `fault`."""
        self._count()
        now = clock.monotonic()
        if now - self._began_at >= WINDOW_S:
            self._began_at = now
            self._seen.clear()
        if client not in self._seen and len(self._seen) >= MOST_CLIENTS:
            client = OTHERS
        seen = self._seen[client] = self._seen.get(client, 0) + 1
        if seen <= MOST:
            return fault
        wait_s = max(1, math.ceil(self._began_at + WINDOW_S - now))
        if seen == MOST + 1:
            log.warning("invalid_keys_throttled", client=client, for_s=wait_s, request_id=request_id)
        fix = f"Send a valid key, which is accepted at once, or try again in {wait_s} s."
        return TooManyRequests(
            "too_many_request",
            f"Invalid key, and more than {MOST} requests with one came from this address within a minute. {fix}",
            payload={"limit": MOST, **rule_and_fix("key", fix)},
            retry_after_s=wait_s,
        )
