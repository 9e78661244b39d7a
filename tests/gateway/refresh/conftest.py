"""Fixtures that set the clock forward."""

from tests.gateway.connections.conftest import advance_clock, advance_stopped_clock

__all__ = ["advance_clock", "advance_stopped_clock"]
