"""``Server-Timing``: where the time of a proxied call went (W3C Server Timing, §4)."""

from typing import Final

from multidict import istr

SERVER_TIMING: Final = istr("Server-Timing")


def server_timing(gateway_ms: float, token_ms: float, upstream_ms: float) -> str:
    """The field's value; milliseconds, with two places."""
    token = f"{token_ms:.2f}" if token_ms else "0"
    return f"gateway;dur={gateway_ms:.2f}, token;dur={token}, upstream;dur={upstream_ms:.2f}"
