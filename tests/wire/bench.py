"""Sends raw bytes to a real gateway in front of a recorder, and checks what must hold for every message.

passes      one request arrives, its response comes back, and the same connection serves the next request
refuses     nothing arrives, the gateway responds, and the connection is closed (or kept, if the test says so)
responded   what the caller gets for the provider's response; later responses are never mixed up
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import h11
import pytest
from _pytest.mark import ParameterSet

from gateway.egress.write_batch import WriteBatch
from gateway.http.abort import abort_connection
from gateway.http.passed_head import with_protection_fields
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.patience import PATIENCE_S
from tests.wire.messages import CLOSE, Body, Head, parse_head, read_body, request
from tests.wire.recorder import FINE, RecordedRequest, Recorder, Script, ScriptedHttpResponse, turns

CREDENTIAL: Final = b"wire-credential-0123"
STAYS_HERE: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade expect "
    b"provider-config-key connection-id base-url-override retries retry-on decompress forward-headers-on-redirect "
    b"forwarded x-real-ip baggage".split()
)
STAYS_HERE_PREFIXES: Final = (b"nango-", b"gateway-", b"x-forwarded-")


def table(*rows: tuple[Any, ...]) -> list[ParameterSet]:
    """Return rows of (name, value, …) as test parameters. The names become the ids of the tests."""
    cases = [row if isinstance(row, ParameterSet) else pytest.param(*row[1:], id=row[0]) for row in rows]
    assert len({case.id for case in cases}) == len(cases), "two cases have the same id"
    return cases


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `end`: ``framed``, ``closed`` (read until a clean end), or ``torn`` (the body was cut off)."""

    head: Head
    body: Body
    end: str = "framed"
    interim: tuple[bytes, ...] = ()

    @property
    def status(self) -> int:
        return int(self.head.start.split(b" ")[1])

    @property
    def code(self) -> str:
        return (self.head.one("gateway-error") or b"").decode()

    @property
    def message(self) -> str:
        """Return the message of an error response of the gateway."""
        body: str = json.loads(self.body.data)["error"]["message"]
        return body

    @property
    def passed_on(self) -> list[bytes]:
        """The header lines of the provider, without the lines that the gateway always writes."""
        ours = (
            b"gateway-request-id:",
            b"gateway-attempts:",
            b"server-timing: gateway;dur=",  # the gateway's own field; a field of the provider looks different
            b"content-length:",
            b"transfer-encoding:",
            b"connection:",
            b"date:",
        )
        whole = {
            b"%b: %b" % (name.encode(), value.encode())
            for name, value in with_protection_fields([], connection_in_headers=True)
        }
        return [line for line in self.head.lines if line not in whole and not line.lower().startswith(ours)]


class Caller:
    """A client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *pieces: bytes) -> None:
        for n, piece in enumerate(pieces):
            if n:
                await turns()
            self.writer.write(piece)

    async def response(self, method: bytes = b"GET") -> Response:
        """Return the next response, together with the interim responses (1xx) before it."""
        interim = []
        async with asyncio.timeout(PATIENCE_S):
            while True:
                head = parse_head(await self.reader.readuntil(b"\r\n\r\n"))
                if not head.start.split(b" ")[1].startswith(b"1"):
                    break
                interim.append(head.raw)
            status = head.start.split(b" ")[1]
            if method == b"HEAD" or status in (b"204", b"304"):
                return Response(head, Body(b"", "none"), interim=tuple(interim))
            try:
                body = await read_body(self.reader, head, without="close")
            except asyncio.IncompleteReadError as fault:
                return Response(head, Body(fault.partial, "torn"), "torn", tuple(interim))
            except ConnectionResetError:
                return Response(head, Body(b"", "torn"), "torn", tuple(interim))
        return Response(head, body, "closed" if body.framing == "close" else "framed", tuple(interim))

    def reset(self) -> None:
        abort_connection(self.writer.transport)

    async def rest(self) -> bytes:
        """Return all bytes until the connection ends, by a close or by a reset."""
        seen = bytearray()
        async with asyncio.timeout(PATIENCE_S):
            try:
                while piece := await self.reader.read(65536):
                    seen += piece
            except ConnectionError:
                pass
        return bytes(seen)


@dataclass
class Bench:
    port: int
    public_url: str
    recorder: Recorder
    write_batch: WriteBatch | None = None  # the write batch of the fast path; None without a fast path
    asked: int = 0

    @property
    def last_target(self) -> bytes:
        return b"/after-%d" % self.asked

    def next_target(self) -> bytes:
        """Return an unused target for the next follow-up request."""
        self.asked += 1
        return self.last_target

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[Caller]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        try:
            yield Caller(reader, writer)
        finally:
            writer.transport.abort()

    def set(self, script: ScriptedHttpResponse | Script) -> None:
        self.recorder.script = script
        self.recorder.requests.clear()
        self.recorder.faults.clear()

    async def passes(
        self, *pieces: bytes, script: ScriptedHttpResponse = FINE, kept: bool = True
    ) -> tuple[RecordedRequest, Response]:
        """Send a request that must reach the provider. `kept`: whether the connection stays open after the response."""
        self.set(script)
        async with self.dial() as caller:
            await caller.send(*pieces)
            response = await caller.response(pieces[0].split(b" ", 1)[0])
            assert not response.code, (response.code, response.body.data)
            await self.goes_on(caller, kept=kept)
        received = self.recorder.requests[0]
        assert [other.target for other in self.recorder.requests[1:]] == ([self.last_target] if kept else [])
        self.check_arrivals()
        return received, response

    @asynccontextmanager
    async def talk(self, *pieces: bytes, script: ScriptedHttpResponse | Script = FINE) -> AsyncIterator[Caller]:
        """Yield a connection on which `pieces` have been sent. The test does its own checks."""
        self.set(script)
        async with self.dial() as caller:
            await caller.send(*pieces)
            yield caller

    async def refused(self, *pieces: bytes) -> Response:
        """Send a request that must be refused: the gateway responds, the provider receives nothing, the connection
        closes.
        """
        async with self.talk(*pieces) as caller:
            response = await caller.response()
            assert response.code, response
            assert await caller.rest() == b""
        assert response.head.one("connection") == b"close"
        check_ours(response)
        await self.serves_others()
        assert [received.target for received in self.recorder.requests] == [self.last_target]
        return response

    async def refuses(self, *pieces: bytes, status: int, code: str, kept: bool = False) -> Response:
        self.set(FINE)
        async with self.dial() as caller:
            await caller.send(*pieces)
            response = await caller.response(pieces[0].split(b" ", 1)[0])
            assert (response.status, response.code) == (status, code), response
            await self.goes_on(caller, kept=kept)
            if not kept:
                assert response.head.one("connection") == b"close"
        check_ours(response)
        if not kept:
            await self.serves_others()
        assert [received.target for received in self.recorder.requests] == [self.last_target]
        return response

    async def responded(
        self, script: ScriptedHttpResponse | Script, asked: bytes | None = None, kept: bool = True
    ) -> Response:
        """Send `asked` and return the response. The provider acts as `script` says."""
        self.set(script)
        asked = request() if asked is None else asked
        async with self.dial() as caller:
            await caller.send(asked)
            response = await caller.response(asked.split(b" ", 1)[0])
            assert CREDENTIAL not in response.head.raw + response.body.data
            await turns(120)  # more bytes of the provider arrive now, when no response is expected
            await self.goes_on(caller, kept=kept and response.end == "framed")
        if response.code:
            check_ours(response)
        await self.serves_others()
        self.check_arrivals()
        return response

    async def goes_on(self, caller: Caller, *, kept: bool) -> None:
        """Check that the connection serves exactly one more request, or that the connection has ended."""
        if kept:
            target = self.next_target()
            await caller.send(request(b"/proxy" + target, CLOSE))
            response = await caller.response()
            assert response.body.data == target, response
        assert await caller.rest() == b""

    async def serves_others(self) -> None:
        """Check that another connection gets its own response, not a response for somebody else."""
        target = self.next_target()
        async with self.dial() as caller:
            await caller.send(request(b"/proxy" + target, CLOSE))
            assert (await caller.response()).body.data == target

    def check_arrivals(self) -> None:
        assert self.recorder.faults == []
        for received in self.recorder.requests:
            check_arrival(received, self.recorder.authority)


def check_arrival(received: RecordedRequest, authority: bytes) -> None:
    """Check the rules that hold for every request to a provider."""
    head = received.head
    assert SECRET_KEY.encode() not in head.raw
    assert head.start.endswith(b" HTTP/1.1")
    assert head.one("host") == authority
    assert sum(CREDENTIAL in value for _, value in head.fields) == 1
    assert len(head.all("authorization")) <= 1
    for name, _ in head.fields:
        plain = name.lower().replace(b"_", b"-")
        assert plain not in STAYS_HERE, head.raw
        assert not plain.startswith(STAYS_HERE_PREFIXES), head.raw
    if received.partial is None:
        check_second_reader(received)


def check_second_reader(received: RecordedRequest) -> None:
    """Check that h11 reads the same message, up to the last byte."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(received.head.raw + (received.body.raw or received.body.data))
    seen = reader.next_event()
    assert isinstance(seen, h11.Request)
    assert (seen.method, seen.target) == (received.method, received.target)
    body = bytearray()
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data), event
        body += event.data
    assert bytes(body) == received.body.data
    assert reader.trailing_data[0] == b""


def check_ours(response: Response) -> None:
    """Check the rules that hold for every error response of the gateway."""
    body = json.loads(response.body.data)["error"] if response.body.framing != "none" else {"code": response.code}
    assert body["code"] == response.code
    assert response.head.start.startswith(b"HTTP/1.1 ")
    assert response.head.one("cache-control") == b"no-store"
    assert response.head.one("gateway-request-id")
    assert SECRET_KEY.encode() not in response.head.raw + response.body.data
