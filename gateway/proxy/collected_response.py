"""The whole response to a call that begins in this process."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

Room = Callable[[int], Awaitable[None]]
"""Waits for memory, when a response has grown to this many bytes."""


@dataclass(frozen=True, slots=True)
class CollectedResponse:
    """The response that a caller of ``/proxy`` would have received.

    `complete`: all of it has arrived. Otherwise it broke off, or it was `too_large` to be held.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True
    too_large: bool = False
