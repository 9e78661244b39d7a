"""The people who work at the console, and what they may do."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

ConsoleRole = Literal["viewer", "operator"]
ROLES: Final[tuple[ConsoleRole, ...]] = get_args(ConsoleRole)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """Somebody at the console until `expires_at`. `name`: whom a log shows. A `viewer` changes nothing."""

    name: str
    role: ConsoleRole
    expires_at: datetime
