"""A filter that several stores use: one value, or any value."""

from typing import TypeVar

T = TypeVar("T")


def single_or_any_set(value: T | None) -> frozenset[T]:
    """Return a set with only `value`. For None, return the empty set, which matches any value."""
    return frozenset() if value is None else frozenset((value,))
