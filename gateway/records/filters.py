"""A filter of several stores: one value, or any value."""

from typing import TypeVar

T = TypeVar("T")


def single_or_any_set(value: T | None) -> frozenset[T]:
    """Return the set of one value; for None the empty set, which matches any value."""
    return frozenset() if value is None else frozenset((value,))
