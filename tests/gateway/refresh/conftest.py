"""Fixtures that move time."""

from tests.gateway.connections.conftest import later

__all__ = ["later"]
