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


@pytest.fixture
def advance_stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function like `advance_clock`, but the clocks do not move by themselves. For times of a few seconds: on a
    busy machine, tokens would expire.
    """
    moved = 0.0
    now, monotonic = clock.now(), clock.monotonic()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=moved))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic + moved)

    def move(seconds: float) -> None:
        nonlocal moved
        moved += seconds

    return move
