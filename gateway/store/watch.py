"""How a process learns that another one has changed something: the part that differs by database."""

from collections.abc import Hashable
from typing import Protocol


class Watch(Protocol):
    async def moved(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after so many seconds. Never raises."""

    async def version(self) -> Hashable:
        """What differs from last time if something was committed since. Raises Unavailable, ChangesMissed."""

    async def close(self) -> None: ...
