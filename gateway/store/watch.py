"""How a process learns that another one has changed something: the part that differs by database."""

from collections.abc import Hashable
from typing import Protocol


class Watch(Protocol):
    timeline: str | None
    """Names the history that the database goes by, which a failover to a standby changes; None where that is not known."""
    timeline_sql: str | None
    """The SQL expression for that name."""

    async def moved(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after so many seconds. Never raises."""

    async def version(self) -> Hashable:
        """What differs from last time if something was committed since. Raises Unavailable, ChangesMissed."""

    async def close(self) -> None: ...
