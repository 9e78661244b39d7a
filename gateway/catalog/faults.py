"""What is wrong with catalog files, all of it at once, each as ``file:line: what, and what to do``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is ``file:line`` (or a folder). A ``fault`` stops loading; a ``warning`` is only said by `lint`."""

    where: str
    message: str
    level: Literal["fault", "warning"] = "fault"

    @property
    def line(self) -> int:
        """The line that `where` names; 0 for a folder."""
        _, _, line = self.where.rpartition(":")
        return int(line) if line.isdigit() else 0

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class CatalogFaults(Exception):
    """The catalog cannot be used as it is; `faults` names every reason, and str() gives one a line."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)
