"""The answer to a call that begins in this process, held as a whole."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

Room = Callable[[int], Awaitable[None]]
"""Waits until there is memory for an answer that has grown to this many bytes."""


@dataclass(frozen=True, slots=True)
class CollectedResponse:
    """The answer that a caller of ``/proxy`` would have received.

    `whole`: it is complete; otherwise it broke off, or was `too_large` to be held.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True
    too_large: bool = False
