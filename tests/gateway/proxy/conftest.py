"""Fixtures of the proxy's tests."""

import asyncio
from typing import Any

import pytest

from gateway import clock


class _RecordingClock:
    """The clock for single modules: it records waits and does not wait. All else is `gateway.clock`."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(clock, name)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits between attempts, and do not wait.

    Only the clock of the modules that make attempts is replaced, because background tasks wait by the clock too: after
    a slow search, the delivery of events does.
    """
    recording = _RecordingClock()
    for module in ("attempts", "page_fetch"):
        monkeypatch.setattr(f"gateway.proxy.{module}.clock", recording)
    return recording.waits
