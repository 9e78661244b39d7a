"""Fixtures that move time."""

from tests.gateway.connections.conftest import advance_clock

__all__ = ["advance_clock"]
