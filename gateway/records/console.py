"""The people who use the console, and their roles."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

ConsoleRole = Literal["viewer", "operator"]
ROLES: Final[tuple[ConsoleRole, ...]] = get_args(ConsoleRole)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A person's session at the console until `expires_at`. `name`: the person's name, as logs show it. A person with
    the role ``viewer`` cannot change anything."""

    name: str
    role: ConsoleRole
    expires_at: datetime
