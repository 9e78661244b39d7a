"""Counts requests without a valid key, by the client's IP address: throttles such clients, and limits their log
lines."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any, Final

import structlog

from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.errors import GatewayError, TooManyRequests, Unauthorized

WINDOW_S: Final = 60.0
MAX_CLIENTS: Final = 10_000
OTHERS: Final = "others"  # the client that is logged for all further clients


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
    """Counts by client, for `WINDOW_S`, in this process. At most `MAX_CLIENTS` counts are kept; further clients share
    one."""

    def __init__(self) -> None:
        self._counts: WindowCounter[tuple[str, ...]] = WindowCounter(WINDOW_S)

    def count(self, client: str, subject: tuple[str, ...] = (), shared: tuple[str, ...] = ()) -> tuple[int, str, int]:
        """Count one request; return the count, the client it was counted for, and the seconds until the window ends.

        `subject`: what is counted separately for each client. `shared`: what is counted separately for the clients that
        share one count.
        """
        self._counts.restart_if_over()
        key = (client, *subject)
        if key not in self._counts and len(self._counts) >= MAX_CLIENTS:
            client = OTHERS
            key = (OTHERS, *shared)
        return self._counts.add(key), client, self._counts.left_s


# ── Limits how often one client may send an invalid key.
#
# Valid keys are looked up first and are never counted, so clients that share an address with an attacker (behind a load
# balancer all clients do) are not affected.

MAX_INVALID_KEYS: Final = 50

log = structlog.get_logger(__name__)


class InvalidKeyThrottle:
    """Counts invalid keys by client, for a minute, in this process. `count` is called for each invalid key."""

    def __init__(self, count_metric: Callable[[], None]) -> None:
        self._count_metric = count_metric
        self._window = ClientWindow()

    def response(self, fault: Unauthorized, client: str, request_id: str) -> GatewayError:
        """Return the error for the client `client` (`client_network`), whose key was refused with `fault`: `fault`, or
        TooManyRequests after `MAX_INVALID_KEYS` within a minute."""
        self._count_metric()
        count, client, wait_s = self._window.count(client)
        if count <= MAX_INVALID_KEYS:
            return fault
        if count == MAX_INVALID_KEYS + 1:
            log.warning("invalid_keys_throttled", client=client, for_s=wait_s, request_id=request_id)
        fix = f"Send a valid key, which is accepted at once, or try again in {wait_s} s."
        return TooManyRequests(
            "too_many_request",
            f"More than {MAX_INVALID_KEYS} requests with an invalid key came from this IP address within a minute. {fix}",
            payload={"limit": MAX_INVALID_KEYS, **rule_and_fix("key", fix)},
            retry_after_s=wait_s,
        )


# ── Log lines that anyone can cause without a key: a few a minute for each client, then one line that says so.

MAX_LINES: Final = 10
"""Maximum lines of one event, from one client and about one subject, within a minute."""


class RefusalLog:
    """Limits log lines by event, client and subject, in this process."""

    def __init__(self) -> None:
        self._window = ClientWindow()

    def info(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        """Log `event`, within the limit. `client`: the client's IP address. `subject`: counted separately and not
        logged; one of a bounded number."""
        if self._is_logged(event, client, subject):
            log.info(event, **fields)

    def warning(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        if self._is_logged(event, client, subject):
            log.warning(event, **fields)

    def _is_logged(self, event: str, address: str | None, subject: str) -> bool:
        count, client, for_s = self._window.count(client_network(address), (event, subject), (event, ""))
        if count == MAX_LINES + 1:
            log.warning("refusals_not_logged", refused=event, client=client, for_s=for_s)
        return count <= MAX_LINES
