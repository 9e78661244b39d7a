"""The former names of `gateway.runtime`, for host applications that use them."""

from gateway.runtime import RUNTIME as SERVICES
from gateway.runtime import Runtime as Services

__all__ = ["SERVICES", "Services"]
