"""Notices that pages go round in a circle, however large, while remembering one of them (Brent's algorithm)."""


class Circle:
    """A provider that does not understand its own cursor, or ours, gives the same pages again and again."""

    __slots__ = ("_kept", "_left", "_power")

    def __init__(self) -> None:
        self._kept: str | None = None
        self._power = self._left = 1

    def closed(self, key: str) -> bool:
        """Whether this page has been seen; told after at most three rounds, at once if it is the one before."""
        if key == self._kept:
            return True
        self._left -= 1
        if self._left == 0:
            self._kept = key
            self._power *= 2
            self._left = self._power
        return False
