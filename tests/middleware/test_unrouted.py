"""Requests that reach no handler are recorded in the log and in the metrics too."""

import asyncio

import pytest

from gateway.records.proxied_call import ExchangeRecord
from tests.fakes.gateways import RunningGateway

LONG = "x" * 20_000


@pytest.fixture
def recorded_exchanges(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[ExchangeRecord]:
    """The records that reach the call log's queue, and through the queue the metrics."""
    seen: list[ExchangeRecord] = []
    monkeypatch.setattr(running.runtime.call_queue, "_observe", seen.append)
    return seen


async def send_head(running: RunningGateway, head: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rpartition(":")[2]))
    writer.write(f"{head}\r\nHost: gw\r\nConnection: close\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("head", "method", "path", "status", "code"),
    [
        ("GET /nowhere?secret=1 HTTP/1.1", "GET", "/nowhere", 404, "not_found"),
        ("PUT /providers HTTP/1.1", "PUT", "/providers", 405, "method_not_allowed"),
        ("GET /providers HTTP/1.1", "GET", "/providers", 401, "missing_auth_header"),
        (f"GET /x HTTP/1.1\r\nX-Long: {LONG}", "", "", 431, "headers_too_large"),
        ("FROB /x HTTP/1.1", "", "", 501, "not_supported"),
        ("GET /x HTTP/3.1", "", "", 505, "bad_framing"),
        ("GET x HTTP/1.1", "", "", 400, "bad_path"),
    ],
)
async def test_unrouted_request_is_recorded_once(
    running: RunningGateway,
    recorded_exchanges: list[ExchangeRecord],
    head: str,
    method: str,
    path: str,
    status: int,
    code: str,
) -> None:
    response = await send_head(running, head)
    assert response.startswith(f"HTTP/1.1 {status} ".encode())
    (exchange,) = recorded_exchanges
    assert (exchange.status, exchange.error_code) == (status, code)
    assert (exchange.method, exchange.path) == (method, path)
    assert f"Gateway-Request-Id: {exchange.request_id}".encode() in response
