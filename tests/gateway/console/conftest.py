"""Time that a test of the API moves."""

from tests.gateway.connections.conftest import later

__all__ = ["later"]
