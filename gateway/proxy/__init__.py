"""Always true: a failure before the answer's first byte is an error of ours with its status; a later failure cuts the
client's connection. No body is held whole unless it must be signed or sent again.
"""

from gateway.proxy.handler import forward

__all__ = ["forward"]
