"""Fast path and middleware chain do the same with the same requests, wherever the bytes are cut.

The test compares the responses, the requests at the provider, and the call records.
"""

import asyncio
import gzip
import itertools
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.proxy.caller_body import KEPT_BYTES
from gateway.records.proxied_call import ExchangeRecord
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import Script, raw_provider, read_message
from tests.gateway.server.test_fast_path import NAMES, VARIES, dial, gateway_to_provider, port_of, warm
from tests.wire.recorder import turns

CASES = 60
CODED = gzip.compress(b"hello " * 5000)
FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RESPONSES = {
    b"/fine": FINE,
    b"/chunked": b"HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"/204": b"HTTP/1.1 204 No\r\n\r\n",
    b"/404": b"HTTP/1.1 404 Nope\r\nContent-Length: 4\r\n\r\nnope",
    b"/401": b"HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nnope",
    b"/503": b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy",
    b"/coded": b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n' % len(CODED)
    + CODED,
    b"/not-coded": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
    b"/last": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    b"/until-close": b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    b"/torn": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nonly so much",
    b"/none": b"",
    b"/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
}
CLOSED_AFTER = {b"/last", b"/until-close", b"/torn", b"/none", b"/two-lengths"}
LINES = (
    b"traceparent: 00-%032x-01\r\n",
    b"Content-Type: application/json\r\n",
    b"Decompress: true\r\n",
    b"Retries: 2\r\n",
    b"Idempotency-Key: k\r\n",
    b"X-Request-Id: r-1\r\n",
    b"X_Odd: y\r\n",
    b"Nango-Proxy-X-A: 1\r\n",
    b"x-empty:\r\n",
    b"X-Spaces:   a  \t\r\n",
    b"Cookie: a=b\r\n",
    b"X-Key: Bearer key-of\r\n",
)


@dataclass
class CallCase:
    method: bytes
    pieces: list[bytes]

    @property
    def kept(self) -> bool:
        """Whether the fast path can pass the whole body to the middleware chain. Then the connection stays open."""
        return sum(map(len, self.pieces)) <= KEPT_BYTES


def chunked(body: bytes, chance: random.Random) -> bytes:
    out = b""
    while body:
        part, body = body[: (size := chance.randint(1, 9000))], body[size:]
        out += b"%x%b\r\n%b\r\n" % (len(part), chance.choice([b"", b";a=b"]), part)
    return out + b"0\r\n" + chance.choice([b"", b"X-T: 1\r\n"]) + b"\r\n"


def random_call(chance: random.Random) -> CallCase:
    method = chance.choice([b"GET", b"POST", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS"])
    lines = b"".join(line for line in LINES if chance.random() < 0.3).replace(
        b"%032x", b"%032x" % chance.getrandbits(128)
    )
    body = chance.randbytes(chance.choice([1, 300, 5000, 70_000])).hex().encode()
    kind = "none" if method == b"HEAD" else chance.choice(["none", "length", "length", "chunked", "zero"])
    if kind == "length":
        lines, data = lines + b"Content-Length: %d\r\n" % len(body), body
    elif kind == "chunked":
        lines, data = lines + b"Transfer-Encoding: chunked\r\n", chunked(body, chance)
    else:
        lines, data = lines + (b"Content-Length: 0\r\n" if kind == "zero" else b""), b""
    target = chance.choice(list(RESPONSES)) + chance.choice([b"", b"?a=%2F&b"])
    head = method + b" /proxy" + target + b" HTTP/1.1\r\n" + NAMES + lines + b"\r\n"
    cuts = sorted(chance.sample(range(len(data)), min(len(data), chance.choice([0, 0, 1, 2, 5]))))
    edges = [0, *(len(head) + cut for cut in cuts), len(head) + len(data)]
    return CallCase(method, [(head + data)[at:end] for at, end in itertools.pairwise(edges)])


def content(framed: bytes, head: bytes) -> bytes:
    """Return the content of the body `framed`. Its chunks can differ from the chunks that were sent."""
    if b"transfer-encoding: chunked" not in head.lower():
        return framed
    body = b""
    while (size := int(framed.partition(b"\r\n")[0], 16)) > 0:
        at = framed.index(b"\r\n") + 2
        body, framed = body + framed[at : at + size], framed[at + size + 2 :]
    return body


@dataclass
class ComparedGateway:
    """One of the two gateways. `arrived`: heads and bodies that the provider received. `records`: the call records."""

    running: RunningGateway
    arrived: list[tuple[bytes, bytes]]
    records: list[ExchangeRecord] = field(default_factory=list)

    async def outcome(self, sent: CallCase) -> tuple[Any, ...]:
        await warm(self.running)
        self.arrived.clear()
        self.records.clear()
        async with dial(port_of(self.running)) as client, asyncio.timeout(PATIENCE_S):
            for piece in sent.pieces:
                client.writer.write(piece)
                await turns()
            try:
                response = await client.response(sent.method)
            except (asyncio.IncompleteReadError, ConnectionError) as fault:
                result: tuple[Any, ...] = (type(fault),)
            else:
                ours = response.code != ""
                skipped = (b"content-length:", *(() if sent.kept else (b"connection:",))) if ours else ()
                lines = re.sub(VARIES, b"", response.head.raw).lower().split(b"\r\n")
                body = re.sub(rb"127\.0\.0\.1:[0-9]+", b"provider", response.body.data)
                result = (sorted(line for line in lines if not line.startswith(skipped or b"\0")), body, response.end)
            while not self.records:
                await asyncio.sleep(0)
        records = [
            (record.method, record.path, record.status, record.bytes_in, record.error_code) for record in self.records
        ]
        return result, self.arrived.copy(), records


@asynccontextmanager
async def compared_gateway(folder: Path, *, fast_path: bool) -> AsyncIterator[ComparedGateway]:
    arrived: list[tuple[bytes, bytes]] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_message(reader)
            path = head.split(b" ")[1].partition(b"?")[0]
            if path != b"/warm":
                arrived.append((re.sub(rb"\r\nHost: [^\r]*", b"", head), content(body, head)))
            writer.write(RESPONSES.get(path, FINE))
            if path in CLOSED_AFTER:
                return

    folder.mkdir()
    async with raw_provider(script) as provider, gateway_to_provider(provider, folder, fast_path=fast_path) as running:
        found = ComparedGateway(running, arrived)
        with recording_calls(running, found.records):
            yield found


def recording_calls(running: RunningGateway, records: list[ExchangeRecord]) -> Any:
    """Return a context manager that also appends every call record to `records`."""
    context, log = pytest.MonkeyPatch.context(), running.runtime.call_queue
    note = log.record

    class PatchedLog:
        def __enter__(self) -> None:
            self.patch = context.__enter__()
            self.patch.setattr(log, "record", lambda record: (records.append(record), note(record)))

        def __exit__(self, *fault: object) -> None:
            context.__exit__(*fault)

    return PatchedLog()


@pytest.mark.parametrize("seed", range(3))
async def test_fast_path_and_chain_do_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        fast = await stack.enter_async_context(compared_gateway(tmp_path / "fast", fast_path=True))
        chain = await stack.enter_async_context(compared_gateway(tmp_path / "chain", fast_path=False))
        for _ in range(CASES):
            sent = random_call(chance)
            assert await fast.outcome(sent) == await chain.outcome(sent), (sent.method, sent.pieces[0][:600])
            assert fast.running.fast_path.write_batch.in_flight == 0
        assert fast.running.fast_path.taken >= CASES
        assert fast.running.fast_path.handed_over > 0


async def test_a_request_that_breaks_off_after_it_was_sent_is_one_attempt(tmp_path: Path) -> None:
    head = b"POST /proxy/fine HTTP/1.1\r\n" + NAMES + b"Transfer-Encoding: chunked\r\n\r\n"
    sent = CallCase(b"POST", [head, b"+5\r\nhello\r\n0\r\n\r\n"])
    async with AsyncExitStack() as stack:
        fast = await stack.enter_async_context(compared_gateway(tmp_path / "fast", fast_path=True))
        chain = await stack.enter_async_context(compared_gateway(tmp_path / "chain", fast_path=False))
        assert await fast.outcome(sent) == await chain.outcome(sent)
        assert fast.running.fast_path.handed_over == 1
        for item in (fast, chain):
            assert [(record.error_code, record.attempts) for record in item.records] == [("bad_framing", 1)]


# ── A client disconnects at any moment. Each call is recorded exactly once; limits, write batch and pool stay
# unchanged.


async def _held_open() -> None:
    await asyncio.Event().wait()


def responding(response: bytes, *, ends: bool = False) -> Script:
    """Return a script that responds as soon as the head has arrived, and does not read the body."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FINE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        if not ends:
            await _held_open()

    return script


@pytest.mark.parametrize("fast_path", [True, False])
async def test_a_call_that_reached_the_provider_counts_even_if_its_caller_disconnects(
    tmp_path: Path, fast_path: bool
) -> None:
    arrived = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FINE)
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await _held_open()

    records: list[ExchangeRecord] = []
    async with (
        raw_provider(silent) as provider,
        gateway_to_provider(provider, tmp_path, fast_path=fast_path) as running,
    ):
        await warm(running)
        with recording_calls(running, records):
            async with dial(port_of(running)) as client, asyncio.timeout(PATIENCE_S):
                client.writer.write(b"GET /proxy/x HTTP/1.1\r\n" + NAMES + b"\r\n")
                await arrived.wait()
            async with asyncio.timeout(PATIENCE_S):
                while not records:
                    await asyncio.sleep(0.001)
    assert [(record.status, record.error_code, record.attempts) for record in records] == [(499, "client_left", 1)]


SIZE = 300_000
PROVIDERS = {
    "silent": responding(b""),
    "early": responding(FINE),
    "early and last": responding(b"HTTP/1.1 413 Big\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig", ends=True),
    "early 401": responding(b"HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nbig"),
    "early 503": responding(b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nbig"),
    "half a response": responding(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbi"),
    "half a stream": responding(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    "torn": responding(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nbi", ends=True),
    "none": responding(b"", ends=True),
    "coded": responding(RESPONSES[b"/coded"]),
    "not coded": responding(RESPONSES[b"/not-coded"]),
    "too much": responding(FINE + b"HTTP/1.1 200 more"),
}


def uploads() -> Iterator[tuple[bytes, list[bytes]]]:
    body = b"y" * SIZE
    chunk = b"%x\r\n%b\r\n" % (SIZE, body)
    yield b"Content-Length: %d\r\n" % SIZE, [body]
    yield b"Content-Length: %d\r\n" % SIZE, [body[:1000]]
    yield b"Content-Length: %d\r\n" % SIZE, []
    yield b"Transfer-Encoding: chunked\r\n", [chunk, b"0\r\n\r\n"]
    yield b"Transfer-Encoding: chunked\r\n", [chunk[:1000]]
    yield b"Transfer-Encoding: chunked\r\n", [b"5\r\nhello\r\n", b"zz\r\n"]
    yield b"Content-Length: 5\r\n", [b"he", b"llo"]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_disconnect_is_recorded_once_and_all_resources_are_released(tmp_path: Path, provider: str) -> None:
    async with AsyncExitStack() as stack:
        for n, (framing, pieces) in enumerate(uploads()):
            folder = tmp_path / str(n)
            folder.mkdir()
            records: list[ExchangeRecord] = []
            async with (
                raw_provider(PROVIDERS[provider]) as following,
                gateway_to_provider(following, folder) as running,
            ):
                await warm(running)
                with recording_calls(running, records):
                    async with dial(port_of(running)) as client, asyncio.timeout(PATIENCE_S):
                        client.writer.write(
                            b"POST /proxy/x HTTP/1.1\r\n" + NAMES + framing + b"Decompress: true\r\n\r\n"
                        )
                        while not running.fast_path.taken:
                            await asyncio.sleep(0)
                        for piece in pieces:
                            if not client.writer.transport.is_closing():
                                client.writer.write(piece)
                            await turns()
                    (gate,) = running.runtime.egress_limits
                    egress = running.runtime.generation.egress
                    async with asyncio.timeout(PATIENCE_S):
                        while (
                            not records or any(load.busy for _, load in egress.load()) or gate.concurrency.outstanding
                        ):
                            await asyncio.sleep(0.001)
                assert len(records) == 1, (framing, records)
                assert (running.fast_path.taken, running.fast_path.write_batch.in_flight) == (1, 0)
        await stack.aclose()
