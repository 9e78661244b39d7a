"""One attempt: a signed POST through the egress guard, redirects not followed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict

from gateway.egress.client import Egress
from gateway.egress.errors import EgressError
from gateway.egress.exchange import Body, Exchange
from gateway.records.upstream import UpstreamRequest
from gateway.webhooks.backoff import Answer
from gateway.wire.moment import seconds_until
from gateway.wire.origin import parse_address

TIMEOUT_S: Final = 20.0  # until the head of the answer, connecting included
READ_BYTES: Final = 1 << 16  # of an answer's body, so that its connection can be used again
READ_S: Final = 1.0
USER_AGENT: Final = "integration-gateway"


async def send(egress: Egress, url: str, body: bytes, fields: Mapping[str, str], now: datetime) -> Answer:
    """What the receiver says; nothing that goes wrong on the way is raised."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            exchange = await _asked(egress, url, body, fields)
    except TimeoutError:
        return Answer(None, f"no answer within {TIMEOUT_S:g} s")
    except EgressError as fault:
        return Answer(None, fault.message)
    except ValueError as fault:
        return Answer(None, f"the address cannot be dialled: {fault}")
    await _drained(exchange)
    asked = next((value for name, value in exchange.headers if name.lower() == "retry-after"), None)
    return Answer(exchange.status, wait_s=None if asked is None else seconds_until(asked, now))


async def _asked(egress: Egress, url: str, body: bytes, fields: Mapping[str, str]) -> Exchange:
    address = parse_address(url)
    path = url[url.index("//") + 2 :].partition("?")[0].partition("/")
    target = (path[1] + path[2] or "/") + address.query
    headers = CIMultiDict({hdrs.USER_AGENT: USER_AGENT, **fields})
    request = UpstreamRequest("POST", address.scheme, address.host, address.port, target, headers)
    try:
        return await egress.send(request, Body(_once(body), len(body), whole=body))
    except EgressError as fault:
        if fault.kind != "unreachable" or not fault.sent:
            raise
        # A kept connection that the receiver has closed meanwhile looks like this. What is sent twice has the same id.
        return await egress.send(request, Body(_once(body), len(body), whole=body), replaced=True)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _drained(exchange: Exchange) -> None:
    """Read a little of the body; the status has been told, whatever becomes of the rest."""
    read = 0
    try:
        with suppress(EgressError, TimeoutError):
            async with asyncio.timeout(READ_S):
                while read < READ_BYTES and (piece := await exchange.read()):
                    read += len(piece)
    finally:
        exchange.close()
