"""Log lines of refusals that anybody can cause without a key: a few a minute for each client, then one that says so."""

import math
from typing import Any, Final

import structlog

from gateway import clock
from gateway.access.invalid_keys import MOST_CLIENTS, OTHERS, WINDOW_S, client_network

MOST_LINES: Final = 10
"""Of one event, from one client and about one subject, within a minute."""

log = structlog.get_logger(__name__)


class RefusalLog:
    """Counts by event, client and subject, in this process."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], int] = {}
        self._began_at = -math.inf

    def info(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        """Log `event`. `client`: its address. `subject`: what it was about, one of a bounded number; in no line."""
        if self._counted(event, client, subject):
            log.info(event, **fields)

    def warning(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        if self._counted(event, client, subject):
            log.warning(event, **fields)

    def _counted(self, event: str, address: str | None, subject: str) -> bool:
        now, client = clock.monotonic(), client_network(address)
        if now - self._began_at >= WINDOW_S:
            self._began_at = now
            self._seen.clear()
        counted = (event, client, subject)
        if counted not in self._seen and len(self._seen) >= MOST_CLIENTS:
            client = OTHERS
            counted = (event, OTHERS, "")
        seen = self._seen[counted] = self._seen.get(counted, 0) + 1
        if seen == MOST_LINES + 1:
            for_s = max(1, math.ceil(self._began_at + WINDOW_S - now))
            log.warning("refusals_not_logged", refused=event, client=client, for_s=for_s)
        return seen <= MOST_LINES
