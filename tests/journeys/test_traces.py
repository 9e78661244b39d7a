"""Traces in a real collector: one trace covers caller, gateway, refresh and provider. Collectors that fail do no harm."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.observe import call_queue
from tests.fakes.collector import Collector, Span, collecting
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_logs_endpoints import call, import_expired, mint_key, wait_for_operations
from tests.gateway.events.conftest import receiver

__all__ = ["receiver"]

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"


@pytest.fixture(autouse=True)
def _export_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "WRITE_EVERY_S", 0.02)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    async with collecting() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


@asynccontextmanager
async def tracing_gateway(
    tracker: Tracker, folder: Path, egress: dict[str, Any] | None = None, target: Receiver | None = None, **extra: Any
) -> AsyncIterator[RunningGateway]:
    folder.mkdir(exist_ok=True)
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    ports = [url.rpartition(":")[2] for url in (tracker.url, *([target.url] if target else ()))]
    configuration = document([f"127.0.0.1/32:{port}" for port in ports])
    configuration["egress"].update(egress or {})
    if target is not None:
        configuration["environments"]["dev"]["webhook_url"] = f"{target.url}/events"
    running = RunningGateway(folder, configuration | extra)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


def tracer_of(service: str) -> Any:
    """Return the tracer of another program, which exports to the same collector."""
    provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer(service)


def count_dropped_spans(running: RunningGateway) -> int:
    assert running.runtime.tracing is not None
    return sum(running.runtime.tracing.dropped_spans.values())


async def test_caller_gateway_refresh_and_provider_share_one_trace(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path, {"trace_headers": "own"}) as running:
        await running.import_connection(import_expired(tracker))
        await collector.wait_until_spans(1)  # the span of the import
        collector.spans.clear()
        app, provider = await asyncio.to_thread(lambda: (tracer_of("app"), tracer_of("provider")))
        page_span = app.start_span("page")
        for _ in range(2):  # first through the middleware chain with a refresh, then on the fast path
            headers: dict[str, str] = {}
            TraceContextTextMapPropagator().inject(headers, set_span_in_context(page_span))
            assert await call(running, "/proxy/me", **headers) == 200
            seen = TraceContextTextMapPropagator().extract(dict(tracker.seen[-1].headers))
            await asyncio.to_thread(lambda: provider.start_span("GET /me", context=seen).end())  # noqa: B023
        await asyncio.to_thread(page_span.end)
        spans = await collector.wait_until_spans(8)
        assert running.fast_path.taken == 1
    assert collector.orphans == []
    assert len({span.trace_id for span in spans}) == 1
    (page,), (refresh,) = collector.spans_named("page"), collector.spans_named("token.refresh")
    first, second = sorted(collector.spans_named("GET /proxy/{path}"), key=lambda span: span.start)
    assert (first.parent, second.parent, page.parent) == (page.span_id, page.span_id, "")
    assert (refresh.parent, refresh.kind) == (first.span_id, "client")
    assert refresh.attributes["gateway.refresh.outcome"] == "renewed"
    attempts = collector.spans_named("GET")
    assert {span.parent for span in attempts} == {first.span_id, second.span_id}
    assert {span.parent for span in collector.spans_named("GET /me")} == {span.span_id for span in attempts}
    assert {span.service for span in spans} == {"app", "provider", "integration-gateway"}
    for attempt in attempts:
        call_span = next(span for span in (first, second) if span.span_id == attempt.parent)
        assert call_span.start <= attempt.start <= attempt.end <= call_span.end
        assert attempt.attributes["network.peer.address"] == "127.0.0.1"
        assert attempt.attributes["server.port"] == int(tracker.url.rpartition(":")[2])
    assert first.start <= refresh.start <= refresh.end <= first.end
    assert first.attributes["http.route"] == second.attributes["http.route"] == "/proxy/{path}"
    assert (first.attributes["url.path"], first.attributes["http.response.status_code"]) == ("/proxy/me", 200)
    assert "gateway.connection_id" not in first.attributes


async def test_each_attempt_has_a_span_and_a_rule_names_the_route(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path, tracing={"connection_ids": True}) as running:
        await running.import_connection(tracker.grant())
        key = await mint_key(running, {"rules": ["GET /m*"]}, "environment:proxy")
        names = {"Authorization": f"Bearer {key['secret']}", "traceparent": SAMPLED}
        tracker.refusal = 503
        for grant in tracker.grants:
            grant.access_tokens.clear()
        assert await call(running, "/proxy/me", Retries="1", **names) == 503
        spans = await collector.wait_until(lambda: any(span.trace_id == TRACE for span in collector.spans))
    spans_of_call = [span for span in spans if span.trace_id == TRACE]
    (served,) = [span for span in spans_of_call if span.kind == "server"]
    assert served.name == "GET /proxy/m*"
    assert (served.parent, served.failed, served.attributes["gateway.connection_id"]) == (CALLER, True, "c1")
    attempts = sorted((span for span in spans_of_call if span.name == "GET"), key=lambda span: span.start)
    assert [span.attributes.get("http.request.resend_count") for span in attempts] == [None, 1]
    assert [span.attributes["error.type"] for span in attempts] == ["503", "503"]
    assert attempts[0].end <= attempts[1].start


async def test_an_unsampled_call_and_its_refresh_have_no_span(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path) as running:
        await running.import_connection(import_expired(tracker))
        assert await call(running, traceparent=UNSAMPLED) == 200
        assert await call(running, traceparent=UNSAMPLED) == 200
        assert running.fast_path.taken == 1
        assert [entry["trace_id"] for entry in await wait_for_operations(running, f"?traceId={TRACE}", least=3)] == [
            TRACE
        ] * 3
    assert [span for span in collector.spans if span.trace_id == TRACE or span.name == "token.refresh"] == []
    assert [span.name for span in collector.spans] == ["POST /connections"] + ["GET /logs"] * (len(collector.spans) - 1)


async def test_a_call_that_waits_for_anothers_refresh_links_to_it(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path) as running:
        await running.import_connection(import_expired(tracker))
        tracker.hold.clear()
        calls = [asyncio.create_task(call(running, traceparent=f"00-{n:032x}-{CALLER}-01")) for n in (1, 2)]
        async with asyncio.timeout(PATIENCE_S):
            while not (tracker.calls["refresh_token"] and any(trace.waited_for for trace in traces_in_memory())):
                await asyncio.sleep(0)
        tracker.hold.set()
        assert await asyncio.gather(*calls) == [200, 200]
        await collector.wait_until(lambda: len(collector.spans_named("GET /proxy/{path}")) == 2)
        await collector.wait_until(lambda: collector.spans_named("token.refresh"))
    (refresh,) = collector.spans_named("token.refresh")
    by_id = {span.span_id: span for span in collector.spans_named("GET /proxy/{path}")}
    (other,) = [span for span in by_id.values() if span.span_id != refresh.parent]
    assert refresh.parent in by_id
    assert other.links == ((refresh.trace_id, refresh.span_id),)


def traces_in_memory() -> list[Any]:
    """Return the traces of the calls that are in progress."""
    import gc

    from gateway.records.trace import CallTrace

    return [trace for trace in gc.get_objects() if isinstance(trace, CallTrace)]


async def test_a_delivery_links_to_the_span_that_caused_it(
    tracker: Tracker, tmp_path: Path, collector: Collector, receiver: Receiver
) -> None:
    async with tracing_gateway(tracker, tmp_path, target=receiver) as running:
        await running.import_connection(import_expired(tracker))
        tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
        assert await call(running, traceparent=SAMPLED) == 424
        await receiver.wait_until_taken(2)
        await running.runtime.deliverer.wait_until_idle()
        await collector.wait_until(lambda: len(collector.spans_named("event.deliver")) >= 2)
    (refresh,) = collector.spans_named("token.refresh")
    assert (refresh.failed, refresh.attributes["oauth.error"]) == (True, "invalid_grant")
    (made,) = collector.spans_named("POST /connections")
    by_type = {span.attributes["gateway.event.type"]: span for span in collector.spans_named("event.deliver")}
    assert by_type["connection.created"].links == ((made.trace_id, made.span_id),)
    assert by_type["connection.needs_reauth"].links == ((TRACE, refresh.span_id),)
    assert b"traceparent" not in b"".join(webhook.body for webhook in receiver.got)


# ── Errors contain the trace ID.


async def test_errors_contain_the_id_of_a_trace_that_the_gateway_begins(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path) as running:
        async with running.call_proxy("none") as response:
            trace_id = (await response.json())["error"]["trace_id"]
        (entry,) = await wait_for_operations(running, f"?traceId={trace_id}")
        (span,) = await collector.wait_until(lambda: spans_of(collector, trace_id)) and spans_of(collector, trace_id)
    assert (entry["error"], entry["status"]) == ("unknown_connection", 404)
    assert (span.name, span.parent, span.attributes["error.type"]) == ("GET /proxy/{path}", "", "unknown_connection")
    assert span.attributes["url.path"] == "/proxy/x"


def spans_of(collector: Collector, trace_id: str) -> list[Span]:
    return [span for span in collector.spans if span.trace_id == trace_id]


async def test_errors_contain_the_callers_trace_id_if_tracing_is_off(running: RunningGateway) -> None:
    async with running.call_proxy("none", headers={"traceparent": UNSAMPLED}) as response:
        assert (await response.json())["error"]["trace_id"] == TRACE
    async with running.call_proxy("none") as response:
        assert "trace_id" not in (await response.json())["error"]


# ── Trace headers for the provider.


@pytest.mark.parametrize("traceparent", [SAMPLED, UNSAMPLED, None, "00-nonsense"])
@pytest.mark.parametrize("mode", ["own", "pass", "drop"])
@pytest.mark.parametrize("tracing", [True, False])
async def test_chain_and_fast_path_send_the_same_trace_headers(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, traceparent: str | None, tracing: bool
) -> None:
    async with collecting() as collector:
        if tracing:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
        async with tracing_gateway(tracker, tmp_path, {"trace_headers": mode}) as running:
            await running.import_connection(tracker.grant())
            names = {"tracestate": "a=1", "X-A": "1", "baggage": "user=alice"}
            names |= {"traceparent": traceparent} if traceparent else {}
            sent = []
            for _ in range(3):
                assert await call(running, **names) == 200
                sent.append([(name.lower(), text) for name, text in tracker.seen[-1].headers.items()])
            assert running.fast_path.taken == 2
            expected = 3 if tracing and traceparent != UNSAMPLED else 0
            await collector.wait_until(lambda: len(collector.spans_named("GET")) >= expected)
    comparable = [
        [(name, "ours" if is_new_traceparent(text, traceparent) else text) for name, text in fields] for fields in sent
    ]
    assert comparable[0] == comparable[1] == comparable[2]
    found = dict(comparable[0])
    assert "baggage" not in found
    if mode == "drop":
        assert not {"traceparent", "tracestate"} & set(found)
    elif mode == "own" and expected:
        assert (found["traceparent"], found["tracestate"]) == ("ours", "a=1")
        attempts = {f"00-{span.trace_id}-{span.span_id}-01" for span in collector.spans_named("GET")}
        assert {dict(fields)["traceparent"] for fields in sent} == attempts
        if traceparent == SAMPLED:
            assert {span.trace_id for span in collector.spans_named("GET")} == {TRACE}
    else:
        assert (found.get("traceparent"), found["tracestate"]) == (traceparent, "a=1")


def is_new_traceparent(text: str, traceparent: str | None) -> bool:
    return text != traceparent and re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", text) is not None


async def test_integration_overrides_trace_headers(tracker: Tracker, tmp_path: Path) -> None:
    async with tracing_gateway(tracker, tmp_path, {"trace_headers": "drop"}) as running:
        await running.stop()
        running.document["environments"]["dev"]["integrations"]["tracker"]["trace_headers"] = "pass"
        await running.start()
        await running.import_connection(tracker.grant())
        for _ in range(2):
            assert await call(running, traceparent=SAMPLED) == 200
            assert tracker.seen[-1].headers["traceparent"] == SAMPLED


async def test_each_attempt_of_a_handed_over_call_sends_its_own_span_id(
    tracker: Tracker, tmp_path: Path, collector: Collector
) -> None:
    async with tracing_gateway(tracker, tmp_path, {"trace_headers": "own"}) as running:
        await running.import_connection(tracker.grant())
        assert await call(running, traceparent=SAMPLED) == 200
        tracker.refusal = 503
        for grant in tracker.grants:
            grant.access_tokens.clear()
        tracker.seen.clear()
        assert await call(running, Retries="1", traceparent=SAMPLED) == 503
        assert running.fast_path.handed_over == 1
        await collector.wait_until(lambda: len(collector.spans_named("GET")) == 3)
    sent_ids = [request.headers["traceparent"].split("-")[2] for request in tracker.seen]
    assert len(set(sent_ids)) == 2
    assert set(sent_ids) <= {span.span_id for span in collector.spans_named("GET")}
    assert [span for span in collector.orphans if span.parent != CALLER] == []


# ── Failing collectors.


@pytest.mark.parametrize("trouble", ["down", "500", "slow"])
async def test_a_failing_collector_loses_spans_and_nothing_else(
    tracker: Tracker,
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    unused_tcp_port: int,
    trouble: str,
) -> None:
    from structlog.testing import capture_logs

    if trouble == "down":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{unused_tcp_port}")
    elif trouble == "500":
        collector.status = 500
    else:
        collector.hold.clear()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
    loop = asyncio.get_running_loop()
    with capture_logs() as lines:
        async with tracing_gateway(tracker, tmp_path) as running:
            await running.import_connection(tracker.grant())
            for _ in range(60):
                assert await call(running) == 200
            rows = await wait_for_operations(running, "?kind=call&limit=200", least=60)
            async with asyncio.timeout(PATIENCE_S):
                while count_dropped_spans(running) == 0:
                    await asyncio.sleep(0.01)
            assert running.runtime.tracing is not None
            assert len(running.runtime.tracing.export._waiting) <= 20  # type: ignore[union-attr]
            ends_at = loop.time()
        took_s = loop.time() - ends_at
    assert len(rows) == 60
    assert took_s < 10  # the exporter has 3 s; the rest is the gateway's own shutdown
    assert [line["event"] for line in lines].count("spans_not_exported") == 1
    assert collector.spans == []


async def test_responses_of_a_hostile_collector_are_neither_read_to_the_end_nor_followed(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    endless = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        reached.append(head.split(b" ")[1].decode())
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))  # type: ignore[index]
        if len(reached) == 1:
            writer.write(b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True:
                    writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                    await writer.drain()
            except ConnectionError:
                endless.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, tracing_gateway(tracker, tmp_path) as running:
        await running.import_connection(tracker.grant())
        async with asyncio.timeout(PATIENCE_S):
            while len(reached) < 2:
                assert await call(running) == 200
            await endless.wait()
    assert set(reached) == {"/v1/traces"}


async def test_no_secret_is_in_a_span(
    tracker: Tracker, tmp_path: Path, collector: Collector, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=collectors-secret")
    async with tracing_gateway(tracker, tmp_path, target=receiver, tracing={"connection_ids": True}) as running:
        grant = import_expired(tracker)
        await running.import_connection(grant)
        names = {"X-Private": "marker-header", "baggage": "user=marker-baggage", "tracestate": "a=marker-state"}
        for _ in range(2):
            async with running.call_proxy(
                "c1", "/me?q=marker-query", "POST", data=b"marker-body", headers=names
            ) as response:
                assert response.status == 200
        capability = await mint_key(running, {"rules": ["GET /**"]}, "environment:proxy")
        token = await running.session_token()
        async with running.http.get(f"{running.url}/connect/session", headers={"Authorization": f"Bearer {token}"}):
            pass
        tracker.response = web.json_response({"error": "invalid_grant", "error_description": "marker"}, status=400)
        await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true")
        await receiver.wait_until_taken(2)
        await collector.wait_until(lambda: collector.spans_named("event.deliver"))
    sent = b"".join(collector.raw)
    assert len(collector.spans) >= 8
    assert collector.headers[0]["x-key"] == "collectors-secret"
    own = json.dumps(running.document)
    secrets = {
        *(text for text in grant.values() if isinstance(text, str) and not text.startswith("20")),
        *(token for issued in tracker.grants for token in (*issued.access_tokens, issued.refresh_token, *issued.spent)),
        *("marker-header", "marker-baggage", "marker-state", "marker-query", "marker-body", "collectors-secret"),
        *(capability["secret"], token, running.headers["Authorization"].removeprefix("Bearer ")),
        *re.findall(r'"(?:client_secret|webhook_signing_key)": "([^"]+)"', own),
    }
    assert len(secrets) >= 12
    assert [secret for secret in secrets if secret.encode() in sent] == []


# ── An operator turns tracing on and off.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
    ],
)
async def test_otel_variables_turn_tracing_off(
    tracker: Tracker,
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    reason: str | None,
) -> None:
    from structlog.testing import capture_logs

    for name, text in changes.items():
        monkeypatch.setenv(name, text)
    with capture_logs() as lines:
        async with tracing_gateway(tracker, tmp_path) as running:
            assert running.runtime.tracing is None
    details = [line["detail"] for line in lines if line["event"] == "tracing_off"]
    assert [reason in detail for detail in details] == [True] if reason else details == []
