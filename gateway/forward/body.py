"""An answer's body on its way to the caller: as it came, or decoded."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from aiohttp import hdrs, web

from gateway.egress.exchange import Exchange
from gateway.wire.coding import Decoder
from gateway.wire.fields import Fields
from middleware.facts import DECODER

_LIVE: Final = frozenset(
    {"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq"}
)
_BODY_AS_IT_IS: Final = frozenset({204, 206, 304})  # nothing to decode, or a range of coded bytes


@dataclass(slots=True)
class AnswerBody:
    """An answer's body, with its first piece already taken where it is decoded."""

    exchange: Exchange
    decoder: Decoder | None
    first: Iterator[bytes]

    async def next(self) -> Iterator[bytes] | None:
        """The parts of the next piece, to be taken before asking again; None at the clean end."""
        piece = await self.exchange.read()
        if not piece:
            if self.decoder is not None:
                self.decoder.finish()
            return None
        return iter((piece,)) if self.decoder is None else self.decoder.feed(piece)


async def body_of(request: web.Request, exchange: Exchange) -> AnswerBody:
    """Decoded if that is asked for and can be done; a body that is not what it says is then still a 502."""
    decoder = request.get(DECODER)
    coding = ",".join(values(exchange.headers, "content-encoding"))
    if (
        decoder is None
        or request.method == hdrs.METH_HEAD
        or exchange.status in _BODY_AS_IT_IS
        or not decoder.start(coding)
    ):
        return AnswerBody(exchange, None, iter(()))
    body = AnswerBody(exchange, decoder, iter(()))
    if not is_live(exchange.headers):
        parts = await body.next() or iter(())
        body.first = chain([next(parts, b"")], parts)
    return body


def values(fields: Fields, name: str) -> list[str]:
    """Of the fields with that lower-case name, in order."""
    return [value for field, value in fields if field.lower() == name]


def is_live(fields: Fields) -> bool:
    """Whether an answer is sent bit by bit, each bit of use at once: events, or JSON line by line."""
    for name, value in fields:
        if len(name) == 12 and name.lower() == "content-type" and value.partition(";")[0].strip().lower() in _LIVE:
            return True
    return False
