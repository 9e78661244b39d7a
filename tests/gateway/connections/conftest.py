"""Time that a test moves."""

from datetime import timedelta
from typing import Any

import pytest

from gateway import clock


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Moves both clocks on by so many seconds."""
    shift = 0.0
    now, monotonic = clock.now, clock.monotonic
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=shift))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + shift)

    def move(seconds: float) -> None:
        nonlocal shift
        shift += seconds

    return move
