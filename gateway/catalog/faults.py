"""What is wrong with catalog files, all of it at once, each as ``file:line: what, and what to do``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gateway.config import faults as config_faults

if TYPE_CHECKING:
    from gateway.catalog.load import Catalog


@dataclass(frozen=True, slots=True)
class Fault(config_faults.Fault):
    """`where` is ``file:line`` (or a folder). A ``fault`` stops loading; a ``warning`` is only said by `lint`."""

    level: Literal["fault", "warning"] = "fault"

    @property
    def line(self) -> int:
        """The line that `where` names; 0 for a folder."""
        _, _, line = self.where.rpartition(":")
        return int(line) if line.isdigit() else 0


class CatalogFaults(config_faults.Faults):
    """The catalog cannot be used as it is; `faults` names every reason, `catalog` holds what is right in it."""

    faults: tuple[Fault, ...]

    def __init__(self, faults: Sequence[Fault], catalog: "Catalog") -> None:
        super().__init__(faults)
        self.catalog = catalog
