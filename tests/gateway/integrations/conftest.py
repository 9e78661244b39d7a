"""Time that a test moves."""

from tests.gateway.connections.conftest import later

__all__ = ["later"]
