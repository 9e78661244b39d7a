"""Counts requests without a valid key by the client's IP address, to throttle clients and to limit their log lines."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any, Final

import structlog

from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.errors import GatewayError, TooManyRequests, Unauthorized

WINDOW_S: Final = 60.0
MAX_CLIENTS: Final = 10_000
OTHERS: Final = "others"  # the name in the log for all clients beyond `MAX_CLIENTS`


def client_network(address: str | None) -> str:
    """Return the client's IPv4 address or IPv6 network: ``192.0.2.1`` or ``2001:db8:1:2::/64``.

    Return an empty text for a client without an IP address, for example on a Unix socket. A client with an IPv6 address
    usually controls all addresses of its /64 network, so the network counts as one client.
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
    """Counts requests by client for `WINDOW_S` seconds, in this process.

    Keeps at most `MAX_CLIENTS` counts; all further clients share one count.
    """

    def __init__(self) -> None:
        self._counts: WindowCounter[tuple[str, ...]] = WindowCounter(WINDOW_S)

    def count(
        self, client: str, subject: tuple[str, ...] = (), shared_subject: tuple[str, ...] = ()
    ) -> tuple[int, str, int]:
        """Count one request; return the new count, the client that it belongs to, and the seconds to the window's end.

        `subject`: each client has a separate count for each subject. `shared_subject`: the subject for the clients that share
        one count, in place of `subject`.
        """
        self._counts.restart_if_over()
        key = (client, *subject)
        if key not in self._counts and len(self._counts) >= MAX_CLIENTS:
            client = OTHERS
            key = (OTHERS, *shared_subject)
        return self._counts.add(key), client, self._counts.left_s


# ── Limits how often one client can send an invalid key. Valid keys are never counted. So a client with a valid key is
# not affected, even if it has the same address as an attacker: behind a load balancer, all clients have the same
# address.

MAX_INVALID_KEYS: Final = 50

log = structlog.get_logger(__name__)


class InvalidKeyThrottle:
    """Counts invalid keys by client within a minute, in this process. `count_metric`: called for each invalid key."""

    def __init__(self, count_metric: Callable[[], None]) -> None:
        self._count_metric = count_metric
        self._window = ClientWindow()

    def response(self, fault: Unauthorized, client: str, request_id: str) -> GatewayError:
        """Return the error for a client that sent an invalid key: `fault`, or TooManyRequests.

        Return TooManyRequests after `MAX_INVALID_KEYS` invalid keys within a minute. `client`: the result of
        `client_network`.
        """
        self._count_metric()
        count, client, wait_s = self._window.count(client)
        if count <= MAX_INVALID_KEYS:
            return fault
        if count == MAX_INVALID_KEYS + 1:
            log.warning("invalid_keys_throttled", client=client, for_s=wait_s, request_id=request_id)
        fix = f"Send a valid key, which is accepted immediately, or try again in {wait_s} s."
        return TooManyRequests(
            "too_many_request",
            f"More than {MAX_INVALID_KEYS} requests with an invalid key came from this IP address within a minute. {fix}",
            payload={"limit": MAX_INVALID_KEYS, **rule_and_fix("key", fix)},
            retry_after_s=wait_s,
        )


# ── Limits the log lines that anyone can cause without a key. In each minute, a client causes a few lines, then one
# line that says that further lines are left out.

MAX_LINES: Final = 10
"""Maximum number of log lines within a minute for one event, one client and one subject."""


class RefusalLog:
    """Limits log lines by event, client and subject, in this process."""

    def __init__(self) -> None:
        self._window = ClientWindow()

    def info(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        """Log `event`, unless the limit is reached.

        `client`: the client's IP address. `subject`: lines with different subjects have separate limits. The subject is
        not logged. The caller must limit the number of different subjects, because each needs memory.
        """
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
