"""Large messages are processed in parts, and arrive completely."""

import asyncio
from pathlib import Path

import pytest

from gateway.egress.provider_connection import ProviderConnection
from gateway.part_by_part import MAX_LINES, PART_BYTES, IncrementalFeeder, is_slow_to_parse
from gateway.server.client_protocol import ClientProtocol
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, raw_provider, read_message
from tests.gateway.server.test_fast_path import NAMES, dial, gateway_to_provider, port_of, warm

CONTENT = bytes(range(48, 58)) * 20_000
CHUNKS = b"".join(b"1\r\n%c\r\n" % byte for byte in CONTENT) + b"0\r\n\r\n"


class Transport(asyncio.Transport):
    aborted = paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def abort(self) -> None:
        self.aborted = True


async def test_other_tasks_run_between_two_parts() -> None:
    data, over = b"x" * (3 * PART_BYTES + 1), asyncio.Event()
    fed: list[bytes] = []
    IncrementalFeeder(data, fed.append, over.set, Transport())
    turns = 0
    async with asyncio.timeout(PATIENCE_S):
        while not over.is_set():
            assert len(fed) <= turns + 1
            await asyncio.sleep(0)
            turns += 1
    assert b"".join(fed) == data
    assert max(map(len, fed)) == PART_BYTES
    assert turns >= 4


async def test_added_bytes_are_fed_in_order_and_stop_returns_the_rest() -> None:
    fed: list[bytes] = []
    parts = IncrementalFeeder(b"a" * (PART_BYTES + 1), fed.append, lambda: None, Transport())
    parts.add(b"b" * PART_BYTES)
    await asyncio.sleep(0)
    assert fed == [b"a" * PART_BYTES]
    assert parts.stop() == b"a" + b"b" * PART_BYTES
    await asyncio.sleep(0)
    assert len(fed) == 1


async def test_bytes_that_were_put_back_are_fed_before_the_rest() -> None:
    fed: list[bytes] = []
    over = asyncio.Event()

    def feed(part: bytes) -> None:
        if not fed and part[:1] == b"a":
            fed.append(b"")
            parts.put_back(b"again")
        else:
            fed.append(part)

    parts = IncrementalFeeder(b"a" * PART_BYTES + b"b", feed, over.set, Transport())
    await over.wait()
    assert fed == [b"", b"againb"]


async def test_a_part_that_cannot_be_fed_ends_the_connection() -> None:
    transport = Transport()
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def feed(part: bytes) -> None:
        raise ZeroDivisionError(len(part))

    IncrementalFeeder(b"a" * (2 * PART_BYTES), feed, lambda: None, transport)
    for _ in range(3):
        await asyncio.sleep(0)
    assert transport.paused
    assert transport.aborted
    assert list(map(repr, faults)) == ["ZeroDivisionError(16384)"]


@pytest.mark.parametrize(
    ("data", "dear"),
    [
        (CHUNKS[:PART_BYTES], False),
        (CHUNKS[: PART_BYTES + 1], True),
        (b"x" * (1 << 20), False),
        (b"x" * (1 << 20) + b"\r\n" * MAX_LINES, False),
        (b"x" * (1 << 20) + b"\r\n" * (MAX_LINES + 1), True),
    ],
)
def test_data_with_many_lines_is_expensive(data: bytes, dear: bool) -> None:
    assert is_slow_to_parse(data) == dear


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
async def test_a_body_in_chunks_of_one_byte_is_processed_in_parts_in_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast_path: bool
) -> None:
    arrived: list[bytes] = []
    parts: dict[type, list[int]] = {ProviderConnection: [], ClientProtocol: []}

    def watch(kind: type, name: str) -> None:
        received = getattr(kind, name)

        def receive_and_record(self: object, data: bytes) -> None:
            parts[kind].append(len(data) if data.count(b"\r\n") > MAX_LINES else 0)
            received(self, data)

        monkeypatch.setattr(kind, name, receive_and_record)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            arrived.append(b"".join(line for n, line in enumerate(body.split(b"\r\n")) if n % 2))
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS)

    watch(ProviderConnection, "_process")
    watch(ClientProtocol, "_feed_received")
    async with (
        raw_provider(script) as provider,
        gateway_to_provider(provider, tmp_path, fast_path=fast_path) as running,
    ):
        await warm(running)
        async with dial(port_of(running)) as client:
            head = b"POST /proxy/x HTTP/1.1\r\n" + NAMES + b"Transfer-Encoding: chunked\r\n\r\n"
            await client.send((head + CHUNKS) * 2)
            for _ in range(2):
                response = await client.response()
                assert (response.status, response.body.data) == (200, CONTENT)
    assert arrived == [CONTENT, CONTENT]
    for sizes in parts.values():
        assert sum(sizes) > len(CHUNKS) // 2  # most arrived in expensive pieces
        assert max(sizes) <= PART_BYTES
