"""Where the time of one proxied call went."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gateway import clock


@dataclass(slots=True)
class Timing:
    """Seconds, by the monotonic clock; whoever waits for something adds what it took.

    `token_s`: for the store and for token endpoints. `upstream_s`: for the provider, from the first attempt to the head of
    the answer that is passed on, waits between attempts and the caller's own body included. `head_at`: when the head of
    our answer left, None while it has not. `proxied`: on the way to a provider, its key accepted.
    """

    began: float
    token_s: float = 0.0
    upstream_s: float = 0.0
    head_at: float | None = None
    proxied: bool = False

    @contextmanager
    def waiting_for_token(self) -> Iterator[None]:
        """What the block takes is added to `token_s`, and is none of `upstream_s` where that is being measured."""
        began = clock.monotonic()
        try:
            yield
        finally:
            self.token_s += clock.monotonic() - began

    @contextmanager
    def waiting_for_upstream(self) -> Iterator[None]:
        """What the block takes is added to `upstream_s`, less what was waited for a token meanwhile."""
        began, token_s = clock.monotonic(), self.token_s
        try:
            yield
        finally:
            self.upstream_s += clock.monotonic() - began - (self.token_s - token_s)

    def gateway_s(self, now: float) -> float:
        """What the gateway itself took until the head of the answer, or until `now` where none has left."""
        until = now if self.head_at is None else self.head_at
        return max(0.0, until - self.began - self.token_s - self.upstream_s)
