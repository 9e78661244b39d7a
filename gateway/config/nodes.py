"""What a configuration file says before it means anything: scalars, lists and mappings that know their lines.

Both syntaxes, YAML and JSON, are read into these.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None


@dataclass(slots=True, eq=False)
class Scalar:
    """`text` is what the file says, `value` what that means. `plain`: written without quotes."""

    line: int
    text: str
    value: Value
    plain: bool = False


@dataclass(slots=True, eq=False)
class Sequence:
    line: int
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Mapping:
    """Entries in the order of the file, repeated keys included."""

    line: int
    entries: list[tuple["Node", "Node"]] = field(default_factory=list)


Node: TypeAlias = Scalar | Sequence | Mapping


class Unreadable(Exception):
    """The text is not YAML, not JSON, or more than a configuration can be. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
