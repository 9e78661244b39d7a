"""A value that must not be seen: it prints as asterisks wherever it ends up."""

import hashlib
import hmac
from typing import Final, NoReturn

MASK: Final = "***"


class Secret:
    """Text that only `reveal` gives out; repr, str and format show a mask, and neither JSON nor pickle takes it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Every call is a place to look at when asking where secrets go."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time, since one side may come from outside."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(
            self._text.encode("utf-8", "surrogatepass"), other._text.encode("utf-8", "surrogatepass")
        )

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


def digest(text: str) -> str:
    """Hex SHA-256, under which keys and tokens of ours are kept: they have 256 random bits, so a slow hash adds nothing."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
