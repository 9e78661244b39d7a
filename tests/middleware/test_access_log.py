"""Each exchange is recorded once, however it ends, without secrets."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from gateway.app.compose import CHECKED_CONFIGURATION
from gateway.config import ClientLimitsConfig
from gateway.errors import GatewayError, ReconnectNeeded, Unauthorized, Unavailable
from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.access_log import MAX_PATH_CHARS, access_log
from gateway.middleware.chain import Chain
from gateway.middleware.facts import CONNECTION, ENVIRONMENT, PROXY_OPTIONS, UPSTREAM
from gateway.middleware.response_shape import error_shape, request_id
from gateway.records.access import Environment
from gateway.records.proxied_call import ExchangeRecord, UpstreamRequest
from gateway.runtime import RUNTIME
from gateway.server import runner
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import opened_at
from tests.fakes.raw import dial, exchange
from tests.middleware.conftest import Serve

OPEN = Chain(request_id, access_log, error_shape)
MARKER = "s3cr3t-marker"


class RecordedExchanges(list[ExchangeRecord]):
    """Replaces the request log."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def record(self, exchange: ExchangeRecord) -> None:
        self.append(exchange)
        self.came.set()


@pytest.fixture
def records() -> RecordedExchanges:
    return RecordedExchanges()


def app(records: RecordedExchanges) -> web.Application:
    application = web.Application()
    seated: Any = SimpleNamespace(config=SimpleNamespace(server=SimpleNamespace(limits=ClientLimitsConfig())))
    application[CHECKED_CONFIGURATION] = seated
    runtime: Any = SimpleNamespace(call_queue=records, tracing=None)
    application[RUNTIME] = runtime
    return application


def get(target: str, fields: str = "") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nX-Request-Id: r1\r\n{fields}\r\n".encode()


async def proxied(request: web.Request) -> web.Response:
    request[ENVIRONMENT] = Environment("dev")
    request[CONNECTION] = opened_at(1)
    request[UPSTREAM] = UpstreamRequest("GET", "https", "api.example.com", 443, f"/v1/bot{MARKER}/issues?key={MARKER}")
    request[UPSTREAM].base_path = f"/v1/bot{MARKER}"  # an entry may have a secret setting in its base URL
    body = await request.read()
    return web.Response(status=404, body=body * 2)


async def test_record_of_a_proxied_request_has_caller_target_and_result(
    serve: Serve, records: RecordedExchanges
) -> None:
    port = await serve(OPEN, proxied, app(records))
    await exchange(port, get(f"/proxy/issues?key={MARKER}", "Content-Length: 5\r\n") + b"hello")
    (record,) = records
    assert (record.request_id, record.environment) == ("r1", "dev")
    assert (record.integration_id, record.connection_id) == ("tracker", "u1")
    assert (record.method, record.host, record.path) == ("GET", "api.example.com", "/issues")
    assert (record.status, record.error_code) == (404, None)  # the provider's own 404
    assert (record.bytes_in, record.bytes_out) == (5, 10)
    assert 0 <= record.duration_ms < 5000
    assert MARKER not in repr(record)


async def test_refused_request_is_recorded_with_its_code(serve: Serve, records: RecordedExchanges) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        raise Unauthorized("unknown_account", "No.")

    await exchange(await serve(OPEN, refuse, app(records)), get(f"/connections?token={MARKER}"))
    (record,) = records
    assert (record.status, record.error_code, record.path) == (401, "unknown_account", "/connections")
    assert (record.environment, record.connection_id, record.host) == ("", "", "")
    assert MARKER not in repr(record)


@pytest.mark.parametrize(
    "refusal", [ReconnectNeeded("reconnect_needed", "No."), Unavailable("token_endpoint_unavailable", "Later.")]
)
async def test_connection_that_could_not_be_opened_is_recorded(
    serve: Serve, records: RecordedExchanges, refusal: GatewayError
) -> None:
    async def refuse(request: web.Request) -> web.Response:
        request[ENVIRONMENT] = Environment("dev")
        request[PROXY_OPTIONS] = ProxyOptions("tracker", "u1")
        raise refusal

    await exchange(await serve(OPEN, refuse, app(records)), get("/proxy/x"))
    (record,) = records
    assert (record.status, record.error_code) == (refusal.status, refusal.code)
    assert (record.environment, record.integration_id, record.connection_id) == ("dev", "tracker", "u1")


async def test_redirect_is_recorded(serve: Serve, records: RecordedExchanges) -> None:
    async def redirect(_request: web.Request) -> web.Response:
        raise web.HTTPFound(f"/elsewhere?{MARKER}")

    await exchange(await serve(OPEN, redirect, app(records)), get("/oauth/connect/jira"))
    assert (records[0].status, records[0].error_code) == (302, None)


async def test_client_that_disconnects_is_recorded(serve: Serve, records: RecordedExchanges) -> None:
    entered = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    port = await serve(OPEN, wait, app(records))
    async with dial(port) as client:
        client.send(get("/proxy/x"))
        await entered.wait()
    async with asyncio.timeout(PATIENCE_S):
        await records.came.wait()
    assert (records[0].status, records[0].error_code) == (499, "client_left")


async def test_connection_cut_at_shutdown_is_not_recorded_as_client_left(records: RecordedExchanges) -> None:
    entered = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    application = app(records)
    application.router.add_get("/proxy/x", OPEN(wait))
    run = runner(application, drain_s=0)
    await run.setup()
    site = web.TCPSite(run, "127.0.0.1", 0)
    await site.start()
    async with dial(site.port) as client:
        client.send(get("/proxy/x"))
        await entered.wait()
        await run.cleanup()
    assert (records[0].status, records[0].error_code) == (503, "stopped")


@pytest.mark.parametrize("path", ["/health", "/ready", "/mounted/ready"])
async def test_probes_are_not_recorded(serve: Serve, records: RecordedExchanges, path: str) -> None:
    async def fine(_request: web.Request) -> web.Response:
        return web.Response()

    await exchange(await serve(OPEN, fine, app(records)), get(path))
    assert records == []


async def test_proxied_path_like_a_probe_is_recorded(serve: Serve, records: RecordedExchanges) -> None:
    async def ready(request: web.Request) -> web.Response:
        await proxied(request)
        request[UPSTREAM].target, request[UPSTREAM].base_path = "/ready", ""
        return web.Response()

    await exchange(await serve(OPEN, ready, app(records)), get("/proxy/ready"))
    assert records[0].path == "/ready"


async def test_a_long_path_is_shortened(serve: Serve, records: RecordedExchanges) -> None:
    await exchange(await serve(OPEN, hello, app(records)), get("/" + "a" * 5000))
    assert len(records[0].path) == MAX_PATH_CHARS


async def hello(_request: web.Request) -> web.Response:
    return web.Response()
