"""Messages that leave together: in order, none lost, and none that has become obsolete."""

import asyncio
from typing import Any

import pytest
import structlog

from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.provider_exchange import ConnectionLost, ProviderResponse
from gateway.egress.write_batch import MAX_MESSAGES, WriteBatch
from gateway.http.response_head import ResponseHead

HEAD = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: Any) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


class WaitingRequest:
    """A request that waits for a response, and does not forward it."""

    def __init__(self) -> None:
        self.received: list[object] = []

    def sink_for(self, head: ResponseHead) -> None:
        return None

    def on_response(self, response: ProviderResponse | None) -> None:
        self.received.append(response)

    def on_failure(self, fault: Exception) -> None:
        self.received.append(fault)


@pytest.fixture
def busy_batch() -> WriteBatch:
    write_batch = WriteBatch()
    write_batch.in_flight = 2
    return write_batch


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def connection(wire: Wire) -> ProviderConnection:
    connection = ProviderConnection("http://a:80")
    connection.connection_made(wire)
    return connection


async def next_iteration() -> None:
    await asyncio.sleep(0)


async def test_single_message_is_written_immediately() -> None:
    seen: list[str] = []
    write_batch = WriteBatch()
    write_batch.in_flight = 1
    write_batch.add(lambda: seen.append("a"))
    assert seen == ["a"]


async def test_messages_of_one_loop_iteration_are_written_in_order_at_its_end(busy_batch: WriteBatch) -> None:
    seen: list[str] = []
    for name in "abc":
        busy_batch.add(lambda name=name: seen.append(name))  # type: ignore[misc]
    assert seen == []
    await next_iteration()
    assert seen == ["a", "b", "c"]
    busy_batch.add(lambda: seen.append("d"))
    await next_iteration()
    assert seen == ["a", "b", "c", "d"]


async def test_full_batch_is_written_immediately(busy_batch: WriteBatch) -> None:
    seen: list[int] = []
    for n in range(MAX_MESSAGES + 1):
        busy_batch.add(lambda n=n: seen.append(n))  # type: ignore[misc]
    assert seen == list(range(MAX_MESSAGES))
    await next_iteration()
    assert seen == list(range(MAX_MESSAGES + 1))


async def test_failing_write_does_not_delay_others(busy_batch: WriteBatch) -> None:
    seen: list[str] = []

    def fails() -> None:
        raise RuntimeError("the handler is closed")

    busy_batch.add(fails)
    busy_batch.add(lambda: seen.append("b"))
    with structlog.testing.capture_logs() as logs:
        await next_iteration()
    assert seen == ["b"]
    assert [entry["event"] for entry in logs] == ["request_write_failed"]


async def test_request_is_written_at_the_end_of_the_loop_iteration(
    busy_batch: WriteBatch, connection: ProviderConnection, wire: Wire
) -> None:
    waiting_request = WaitingRequest()
    connection.send_nowait(HEAD, waiting_request, busy_batch, method="GET")
    assert wire.written == []
    assert not connection.usable
    await next_iteration()
    assert wire.written == [HEAD]
    connection.data_received(OK)
    (response,) = waiting_request.received
    assert isinstance(response, ProviderResponse)
    assert response.status == 200


async def test_bytes_received_before_the_request_is_sent_are_not_a_response(
    busy_batch: WriteBatch, connection: ProviderConnection, wire: Wire
) -> None:
    waiting_request = WaitingRequest()
    connection.send_nowait(HEAD, waiting_request, busy_batch, method="GET")
    connection.data_received(OK)
    assert [type(received) for received in waiting_request.received] == [ConnectionLost]
    await next_iteration()
    assert wire.written == []
    assert wire.closing


async def test_request_is_lost_if_the_connection_ends_before_the_write(
    busy_batch: WriteBatch, connection: ProviderConnection, wire: Wire
) -> None:
    waiting_request = WaitingRequest()
    connection.send_nowait(HEAD, waiting_request, busy_batch, method="GET")
    wire.closing = True
    await next_iteration()
    assert wire.written == []
    connection.connection_lost(None)
    assert [type(received) for received in waiting_request.received] == [ConnectionLost]


async def test_abandoned_request_is_never_written(
    busy_batch: WriteBatch, connection: ProviderConnection, wire: Wire
) -> None:
    connection.send_nowait(HEAD, WaitingRequest(), busy_batch, method="GET")
    connection.abort()
    wire.closing = False
    await next_iteration()
    assert wire.written == []
