"""The time, in one place, so that a test can set it. Call as ``clock.now()``, never ``from gateway.clock import now``."""

import asyncio
import time
from datetime import UTC, datetime


def now() -> datetime:
    """The wall clock as an aware UTC time."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never go back, for durations and deadlines within this process."""
    return time.monotonic()


async def sleep(seconds: float) -> None:
    """Let time pass without holding up others."""
    await asyncio.sleep(seconds)
