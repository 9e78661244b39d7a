"""Fixtures that set the clock forward."""

from tests.gateway.connections.conftest import later

__all__ = ["later"]
