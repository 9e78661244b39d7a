"""Log lines of refusals that anybody can cause without a key: a few a minute for each client, then one that says so."""

from typing import Any, Final

import structlog

from gateway.access.client_window import ClientWindow, client_network

MOST_LINES: Final = 10
"""Of one event, from one client and about one subject, within a minute."""

log = structlog.get_logger(__name__)


class RefusalLog:
    """Counts by event, client and subject, in this process."""

    def __init__(self) -> None:
        self._window = ClientWindow()

    def info(self, event: str, client: str | None, subject: str = "", /, **fields: Any) -> None:
        """Log `event`. `client`: its address. `subject`: what it was about, one of a bounded number; in no line."""
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
