"""The result of one trial, in the words of the table that `make selftest` prints."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """`lost`: what is gone, told or not. `fine`: whether all of it is as it must be."""

    trial: str
    outcome: str
    lost: int
    fine: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
