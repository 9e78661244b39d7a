"""Fixtures that move time."""

from datetime import timedelta
from typing import Any

import pytest

from gateway import clock


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets both clocks forward by a number of seconds."""
    shift = 0.0
    now, monotonic = clock.now, clock.monotonic
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=shift))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + shift)

    def move(seconds: float) -> None:
        nonlocal shift
        shift += seconds

    return move
