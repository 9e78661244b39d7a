"""What came of a field on its way into our format, told per entry and field."""

from dataclasses import dataclass, field
from typing import Literal

Place = tuple[str | int, ...]
Kind = Literal["lost", "changed", "refused"]


@dataclass(frozen=True, slots=True)
class Note:
    """`place` is the field's in the file that was read. ``lost``: we cannot say it; ``changed``: said in another way;
    ``refused``: without it the entry could not work, so there is no entry."""

    kind: Kind
    place: Place
    message: str


@dataclass(slots=True)
class Notes:
    """Those of one entry."""

    all: list[Note] = field(default_factory=list)

    def lost(self, place: Place, message: str) -> None:
        self._add("lost", place, message)

    def changed(self, place: Place, message: str) -> None:
        self._add("changed", place, message)

    def refused(self, place: Place, message: str) -> None:
        self._add("refused", place, message)

    def _add(self, kind: Kind, place: Place, message: str) -> None:
        note = Note(kind, place, message)
        if note not in self.all:
            self.all.append(note)

    @property
    def is_refused(self) -> bool:
        return any(note.kind == "refused" for note in self.all)
