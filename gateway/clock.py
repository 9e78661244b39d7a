"""The time, in one place, so that a test can set it. Call as ``clock.now()``, never ``from gateway.clock import now``."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

monotonic: Callable[[], float] = time.monotonic
"""Seconds that never go back, for durations and deadlines within this process. Asked several times a request: no wrapper."""


def now() -> datetime:
    """The wall clock as an aware UTC time."""
    return datetime.now(UTC)


async def sleep(seconds: float) -> None:
    """Let time pass without holding up others."""
    await asyncio.sleep(seconds)


async def give_way() -> None:
    """Let what is ready go first: between the parts of work that would hold up others for a millisecond."""
    await asyncio.sleep(0)
