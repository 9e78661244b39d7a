"""A secret value: it prints as asterisks wherever it is shown."""

import hashlib
import hmac
from typing import Final, NoReturn

MASK: Final = "***"


class Secret:
    """Text that only `reveal` returns; repr, str and format show a mask, and JSON and pickle refuse it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself. To find out where secrets go, review each call of this method."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time, because one of the two values can come from a caller."""
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
    """Return the hex SHA-256 of one of the gateway's own keys or tokens, for storage.

    These keys and tokens have 256 random bits, so a slow hash would not make them safer.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
