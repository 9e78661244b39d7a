"""Whom a connection to a provider deals with: who keeps it, who waits for an answer, and where the answer goes."""

from typing import TYPE_CHECKING, Protocol

from gateway.egress.answer import Answer
from gateway.egress.errors import EgressError
from gateway.wire.answer_head import AnswerHead

if TYPE_CHECKING:
    from gateway.egress.connection import Connection


class Owner(Protocol):
    """Whoever keeps the connection between two requests."""

    def take_back(self, connection: "Connection", keep_s: float | None) -> None:
        """It is free for the next request; `keep_s` is what the provider said of how long, if anything."""

    def met(self, connection: "Connection") -> None:
        """Its first answer has ended."""

    def lost(self, connection: "Connection") -> None:
        """It is closed."""


class Lost(Exception):
    """The connection ended before the first byte of an answer."""


class Sink(Protocol):
    """Where an answer goes whose head has come: `feed` for each piece, then `end`, or `fail` if that does not come."""

    held_bytes: int

    def feed(self, piece: bytes) -> None: ...

    def end(self) -> None: ...

    def fail(self, fault: EgressError) -> None: ...


class Taker(Protocol):
    """Waits for an answer without a task. `sink_for` is asked once; None: make an `Answer` of it, for `answered`."""

    def sink_for(self, head: AnswerHead) -> Sink | None: ...

    def answered(self, answer: Answer | None) -> None:
        """All that came together with the head has been fed; with the answer that `sink_for` left to others."""

    def refused(self, fault: Exception) -> None:
        """There will be no head: Lost or EgressError."""
