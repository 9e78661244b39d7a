"""Where the time of one request went."""

from dataclasses import dataclass


@dataclass(slots=True)
class Timing:
    """Seconds, by the monotonic clock. `gateway_s` is known once the head of the answer is about to leave."""

    began: float
    token_s: float = 0.0
    upstream_s: float = 0.0
    gateway_s: float = 0.0

    def told(self, now: float) -> str:
        """The value of ``Server-Timing`` for an answer whose head leaves at `now`, in milliseconds."""
        self.gateway_s = gateway_s = now - self.began - self.token_s - self.upstream_s
        token_ms, upstream_ms = self.token_s * 1000, self.upstream_s * 1000
        return f"gateway;dur={gateway_s * 1000:.2f}, token;dur={token_ms:.2f}, upstream;dur={upstream_ms:.2f}"
