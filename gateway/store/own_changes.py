"""Renewals that this process has written itself, so that following the change log it need not read them back."""

from collections.abc import Container
from typing import Final

from gateway.records.connection import Mark

MOST: Final = 10_000  # where nobody follows the log, as in a command


class OwnChanges:
    """By their ids in the change log. What is not noted here is merely read like another's."""

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def note(self, change_id: int, mark: Mark) -> None:
        """Committed under that id, of which nobody is told otherwise; `mark` is the row's afterwards."""
        if len(self._marks) < MOST:
            self._marks[change_id] = mark

    def of(self, change_id: int) -> Mark | None:
        """The row's mark after that change, where it was ours."""
        return self._marks.get(change_id)

    def forget(self, last_id: int, missing: Container[int] = ()) -> None:
        """What was read up to `last_id` is not read again, but for the `missing`."""
        for change_id in [one for one in self._marks if one <= last_id and one not in missing]:
            del self._marks[change_id]

    def clear(self) -> None:
        """The log is another by now."""
        self._marks.clear()
