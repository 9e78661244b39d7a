"""The end of PROXY: streams UPSTREAM out and the provider's answer back.

Before the answer's first byte a failure is an error of ours, with its status. After it the client's connection is cut,
so that a torn answer cannot pass for a whole one.
"""

from gateway.forward.handler import forward

__all__ = ["forward"]
