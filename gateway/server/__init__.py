"""Our runner and the process around it: parser errors in our shape, limits, bodies untouched, signals, drain."""

from gateway.server.process import serve
from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner", "serve"]
