"""Stored secrets that do not open although their key is there: counted, and logged where they lie."""

from collections import Counter
from typing import Final

import structlog

from gateway import clock
from gateway.errors import CredentialUnreadable
from gateway.records.connection import Sealed

LOGGED_EVERY_S: Final = 60.0  # of each place, however many ask for it
MOST_PLACES: Final = 1000  # remembered for that
FIX: Final = "restore a backup (gateway restore), or let the end user authorize again"

log = structlog.get_logger(__name__)


class UnreadableSecrets:
    """`counts`: how often, by environment and table."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()
        self._logged: dict[tuple[str, str, str], float] = {}  # table, row, column ▸ when (monotonic)

    def note(self, sealed: Sealed) -> None:
        """`sealed` was changed, moved, or names a data key that there is not."""
        self.counts[sealed.environment, sealed.table] += 1
        place, now = (sealed.table, sealed.row, sealed.column), clock.monotonic()
        if place in self._logged and now - self._logged[place] < LOGGED_EVERY_S:
            return
        if len(self._logged) >= MOST_PLACES:
            self._logged.clear()
        self._logged[place] = now
        whose = {"integration": sealed.of.integration_id, "connection_id": sealed.of.connection_id} if sealed.of else {}
        log.error(
            "stored_secret_unreadable",
            environment=sealed.environment,
            **whose,
            table=sealed.table,
            row=sealed.row,
            column=sealed.column,
            detail="it was changed, moved or damaged since it was stored",
            fix=FIX,
        )


def unreadable(sealed: Sealed) -> CredentialUnreadable:
    """The error for a caller."""
    place = f"{sealed.table}.{sealed.column}"
    whose = f" of connection '{sealed.of.connection_id}'" if sealed.of else ""
    payload = {"environment": sealed.environment, "table": sealed.table, "column": sealed.column}
    if sealed.of is not None:
        payload |= {"provider_config_key": sealed.of.integration_id, "connection_id": sealed.of.connection_id}
    return CredentialUnreadable(
        "credential_unreadable",
        f"The secret stored in {place}{whose} was changed or damaged and cannot be opened. Restore a backup with "
        "`gateway restore`, or let the end user authorize again.",
        payload=payload,
    )
