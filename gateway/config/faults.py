"""What is wrong with a configuration, told all at once and each fault where it stands."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is ``gateway.yaml:17``, or ``environments.dev`` in a configuration given as a mapping. Never shows a secret."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class Faults(Exception):
    """The configuration cannot be used. As text: one line a fault, in the order of the file."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))
