"""Our runner and the worker around it: parser errors in our shape, limits, bodies untouched, drain."""

from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner"]
