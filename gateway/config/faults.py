"""What is wrong with a configuration, told all at once and each fault where it stands."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.config.model import Config


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is ``gateway.yaml:17``, or ``environments.dev`` in a configuration given as a mapping. Never shows a secret."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Readable:
    """What of a faulty configuration can be looked at all the same; `left_out` are the places that its faults name."""

    config: "Config"
    left_out: frozenset[tuple[str, ...]]


class Faults(Exception):
    """The configuration, or the catalog it uses, cannot be used. As text: one line a fault, in the order of the file.

    `readable` lets what lies behind a configuration be checked in the same pass; None where nothing could be read.
    """

    def __init__(self, faults: Iterable[Fault], readable: Readable | None = None) -> None:
        self.faults = tuple(faults)
        self.readable = readable
        super().__init__("\n".join(map(str, self.faults)))
