"""Counts requests without a valid key, by the client's IP address: throttles such clients, and limits their log
lines."""

import math
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any, Final

import structlog

from gateway import clock
from gateway.access.refusals import rule_and_fix
from gateway.errors import GatewayError, TooManyRequests, Unauthorized

WINDOW_S: Final = 60.0
MOST_CLIENTS: Final = 10_000
OTHERS: Final = "others"  # further clients are counted together


def client_network(address: str | None) -> str:
    """Return ``192.0.2.1`` or ``2001:db8:1:2::/64``; empty for a client without an IP address, as on a Unix socket.

    A client with an IPv6 address usually has its whole /64, so the /64 is counted as one client.
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
    """Counts by client in this process. All counts restart `WINDOW_S` seconds after the first. At most `MOST_CLIENTS`
    counts are kept; further clients share one."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], int] = {}
        self._began_at = -math.inf

    def count(self, client: str, of: tuple[str, ...] = (), beyond: tuple[str, ...] = ()) -> tuple[int, str, int]:
        """Count one request; return the count, the client it was counted for, and the seconds until the window ends.

        `of`: what is counted separately for each client; `beyond`: the same for the clients that are counted together.
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


# ── Limits how often one client may send an invalid key.
#
# Valid keys are looked up first and are never counted, so clients that share an address with an attacker (behind a load
# balancer all clients do) are not affected.

MOST_INVALID_KEYS: Final = 50

log = structlog.get_logger(__name__)


class InvalidKeys:
    """Counts invalid keys by client, for a minute, in this process. `count` is called for each invalid key."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._window = ClientWindow()

    def response(self, fault: Unauthorized, client: str, request_id: str) -> GatewayError:
        """Return the error for the client `client` (`client_network`), whose key was refused with `fault`: `fault`, or
        TooManyRequests after `MOST_INVALID_KEYS` within a minute."""
        self._count()
        seen, client, wait_s = self._window.count(client)
        if seen <= MOST_INVALID_KEYS:
            return fault
        if seen == MOST_INVALID_KEYS + 1:
            log.warning("invalid_keys_throttled", client=client, for_s=wait_s, request_id=request_id)
        fix = f"Send a valid key, which is accepted at once, or try again in {wait_s} s."
        return TooManyRequests(
            "too_many_request",
            f"More than {MOST_INVALID_KEYS} requests with an invalid key came from this IP address within a minute. {fix}",
            payload={"limit": MOST_INVALID_KEYS, **rule_and_fix("key", fix)},
            retry_after_s=wait_s,
        )


# ── Log lines that anyone can cause without a key: a few a minute for each client, then one line that says so.

MOST_LINES: Final = 10
"""Maximum lines of one event, from one client and about one subject, within a minute."""


class RefusalLog:
    """Limits log lines by event, client and subject, in this process."""

    def __init__(self) -> None:
        self._window = ClientWindow()

    def info(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        """Log `event`, within the limit. `client`: the client's IP address. `subject`: counted separately and not
        logged; one of a bounded number."""
        if self._counted(event, client, subject):
            log.info(event, **fields)

    def warning(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        if self._counted(event, client, subject):
            log.warning(event, **fields)

    def _counted(self, event: str, address: str | None, subject: str) -> bool:
        seen, client, for_s = self._window.count(client_network(address), (event, subject), (event, ""))
        if seen == MOST_LINES + 1:
            log.warning("refusals_not_logged", refused=event, client=client, for_s=for_s)
        return seen <= MOST_LINES
