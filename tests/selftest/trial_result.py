"""The result of one trial: a line of the table that `make selftest` prints."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial. `outcome`: as text. `lost`: losses, reported or not. `fine`: whether the result is as
    required.
    """

    trial: str
    outcome: str
    lost: int
    fine: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
