"""A request to a provider as the bytes that leave first: its head, framed by us, and with it a small body."""

from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict

from gateway.egress.errors import EgressError
from gateway.egress.exchange import Body
from gateway.egress.pool import Pool
from gateway.records.upstream import UpstreamRequest
from gateway.wire.request_head import request_head

_OURS: Final = (hdrs.HOST, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING, hdrs.CONNECTION, hdrs.UPGRADE, hdrs.EXPECT)


def message_of(request: UpstreamRequest, pool: Pool, body: Body | None, upgrade: str | None) -> bytes:
    """The request's head, and its body if that is at hand and small. Raises EgressError."""
    fields = request.headers
    if any(name in fields for name in _OURS):  # two opinions on a body's end are how requests are smuggled
        fields = CIMultiDict(fields)
        for name in _OURS:
            fields.popall(name, None)
    framing = ""
    if body is not None:
        framing = "Transfer-Encoding: chunked\r\n" if body.length is None else f"Content-Length: {body.length}\r\n"
    if upgrade is not None:
        framing += f"Connection: Upgrade\r\nUpgrade: {upgrade}\r\n"
    try:
        head = request_head(request.method, request.target, pool.host, fields.items(), framing)
    except ValueError as fault:
        raise EgressError("refused", f"The request to {pool.origin} was not sent: {fault}.") from fault
    whole = body.whole if body is not None else None
    if whole is None:
        return head
    if body is not None and body.length is None:
        return head + (b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole), whole) if whole else b"0\r\n\r\n")
    if body is None or body.length != len(whole):
        raise EgressError("protocol", f"The request to {pool.origin} was not sent: its body has another length.")
    return head + whole
