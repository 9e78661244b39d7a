"""What signs requests one by one, for modes whose proof depends on method, address or body."""

from typing import Protocol

from gateway.records.upstream import UpstreamRequest


class Signer(Protocol):
    """Signs what is really sent, anew for each attempt: nonces and times are used once."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Lower-case names of the header fields it writes, over anything that stands there."""

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Names of the query parameters it writes."""

    def wants_body(self, request: UpstreamRequest) -> bool:
        """Whether the body's bytes go into the signature, so that all of them must be there before the head is sent."""

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        """Write the proof into `request`, the last to touch it.

        `body`: all of it where `wants_body` or where there is none, which is empty; None for one that streams by.
        """
