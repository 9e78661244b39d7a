"""Small answers, read whole: those of token endpoints, scripts and verifications."""

from dataclasses import dataclass

from multidict import CIMultiDictProxy

from gateway.egress.errors import EgressError
from gateway.egress.exchange import Exchange
from gateway.wire.coding import CodingError, Decoder


@dataclass(frozen=True, slots=True)
class Answer:
    """A small answer, read whole and decoded."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


async def read_whole(exchange: Exchange, origin: str, limit_bytes: int) -> bytes:
    """The body, decoded. Raises EgressError, ``too_large`` above `limit_bytes`."""
    decoder = Decoder()
    encoded = decoder.start(",".join(value for name, value in exchange.headers if name.lower() == "content-encoding"))
    content = bytearray()
    try:
        while piece := await exchange.read():
            for part in decoder.feed(piece) if encoded else (piece,):
                content += part
                if len(content) > limit_bytes:
                    raise EgressError("too_large", f"{origin} answered with more than {limit_bytes} bytes.")
        decoder.finish()
    except CodingError as fault:
        raise EgressError("protocol", f"The answer of {origin} could not be read: {fault}.") from fault
    return bytes(content)
