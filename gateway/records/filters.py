"""A value that filters of several stores take: one, or any."""

from typing import TypeVar

T = TypeVar("T")


def one_or_any(value: T | None) -> frozenset[T]:
    """Return the set of one value; empty, which stands for any, where there is none."""
    return frozenset() if value is None else frozenset((value,))
