"""Queues records. A thread makes spans of them, and sends these by OTLP over HTTP.

Imported only if tracing is on. If the collector is down, slow or hostile, spans are dropped and counted, but requests
never wait. The collector's responses are read up to a small limit. Redirects are not followed, because the header
fields of the export request can contain a key.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from gateway.observe.spans import SpanMaker, span_count
from gateway.observe.tracing import ENDPOINTS
from gateway.records.operation import Operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.trace import CallTrace

SERVICE: Final = "integration-gateway"
DEFAULT_SERVICE: Final = "unknown_service"
MAX_QUEUED: Final = 2048  # in records; this is also the default of OTEL_BSP_MAX_QUEUE_SIZE
BATCH_SPANS: Final = 512  # maximum number of spans in one export
DELAY_MS: Final = 5000
CLOSE_S: Final = 3.0
RESPONSE_BYTES: Final = 64 * 1024
RESPONSE_S: Final = 5.0
LOG_INTERVAL_S: Final = 300.0  # minimum time between two log lines about the same failure
QUEUE_FULL: Final = "queue_full"
NOT_EXPORTED: Final = "not_exported"

log = structlog.get_logger(__name__)


class BoundedSession(requests.Session):
    """A session that reads at most `RESPONSE_BYTES` of a response, for at most `RESPONSE_S` seconds.

    The session ignores proxies and passwords in the environment.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def request(self, *args: Any, **options: Any) -> requests.Response:
        """Send a request and drop the response's body. Raises requests.RequestException."""
        response = super().request(*args, **{**options, "stream": True, "allow_redirects": False})
        ends_at, received_bytes, is_complete = time.monotonic() + RESPONSE_S, 0, False
        try:
            while received_bytes < RESPONSE_BYTES and time.monotonic() < ends_at and not is_complete:
                piece = response.raw.read1(RESPONSE_BYTES)
                received_bytes, is_complete = received_bytes + len(piece), not piece
        finally:
            if not is_complete:
                response.close()
            response._content, response._content_consumed = b"", True
        return response


class SpanExport:
    """Exports spans.

    `exported`: the number of exported spans.
    `dropped`: the number of spans that were not exported, by reason. Both numbers only increase.
    `connection_ids`: whether spans contain the connection's id.

    This class reads OTEL_BSP_SCHEDULE_DELAY, OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BSP_MAX_EXPORT_BATCH_SIZE. The
    OpenTelemetry library reads all other variables.
    """

    def __init__(self, environ: Mapping[str, str], *, connection_ids: bool = False) -> None:
        # The library's own log lines are not shown: `_log_failure` logs failures at a limited rate.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        self._max_queued = _positive_number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUED)
        self._batch_spans = _positive_number(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_SPANS)
        self._delay_s = _positive_number(environ, "OTEL_BSP_SCHEDULE_DELAY", DELAY_MS) / 1000
        self._exporter = OTLPSpanExporter(session=BoundedSession())
        endpoint = urlsplit(next(environ[name] for name in ENDPOINTS if environ.get(name)))
        self.origin = f"{endpoint.scheme}://{endpoint.hostname}" + (f":{endpoint.port}" if endpoint.port else "")
        resource = Resource.create()
        if str(resource.attributes.get("service.name", DEFAULT_SERVICE)).startswith(DEFAULT_SERVICE):
            resource = resource.merge(Resource({"service.name": SERVICE}))
        self._maker = SpanMaker(resource, connection_ids=connection_ids)
        self._waiting: deque[tuple[ExchangeRecord | Operation, CallTrace | None]] = deque()
        self._wake_event = threading.Event()
        self._closing = False
        self._failure_logged_at: float | None = None
        self.exported = 0
        self.dropped: dict[str, int] = {QUEUE_FULL: 0, NOT_EXPORTED: 0}
        self._thread = threading.Thread(target=self._run, name="export_spans", daemon=True)
        self._thread.start()

    def add(self, record: ExchangeRecord | Operation, parent: CallTrace | None = None) -> None:
        """Queue a finished record, or drop it if the queue is full.

        `parent`: the trace of an operation's span; None: a new trace. A call has its own trace.
        """
        if len(self._waiting) >= self._max_queued or self._closing:
            self.dropped[QUEUE_FULL] += span_count(record)
            return
        self._waiting.append((record, parent))
        if len(self._waiting) == self._batch_spans:
            self._wake_event.set()

    async def close(self, within_s: float = CLOSE_S) -> None:
        """Send the waiting records for up to `within_s` seconds, then drop the rest."""
        self._closing = True
        self._wake_event.set()
        await asyncio.to_thread(self._thread.join, within_s)
        if self._thread.is_alive():
            await asyncio.to_thread(self._exporter.shutdown)  # ends the exporter's pause before the next attempt
            await asyncio.to_thread(self._thread.join, 0.1)
        waiting_spans = sum(span_count(record) for record, _ in list(self._waiting))
        if waiting_spans:
            self.dropped[NOT_EXPORTED] += waiting_spans
            log.warning("spans_lost", spans=waiting_spans, detail="The collector had not accepted them at the stop.")

    # ── methods that run in the thread ──────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not (self._closing and not self._waiting):
            self._wake_event.wait(self._delay_s)
            self._wake_event.clear()
            while self._waiting and self._export(self._next_batch()):
                pass
            if self._closing and self._waiting:
                return  # `close` counts the remaining records as dropped
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _next_batch(self) -> list[ReadableSpan]:
        spans: list[ReadableSpan] = []
        while self._waiting and len(spans) < self._batch_spans:
            record, parent = self._waiting.popleft()
            if isinstance(record, Operation):
                spans += self._maker.spans_of_operation(record, parent)
            else:
                spans += self._maker.spans_of_call(record)
        return spans

    def _export(self, spans: list[ReadableSpan]) -> bool:
        """Export the spans; return whether the collector accepted them."""
        try:
            is_accepted = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as fault:  # noqa: BLE001 (whatever goes wrong, the next batch may succeed)
            self._log_failure(repr(fault))
            is_accepted = False
        if is_accepted:
            self.exported += len(spans)
            if self._failure_logged_at is not None:
                self._failure_logged_at = None
                log.info("spans_exported_again", endpoint=self.origin)
        else:
            self.dropped[NOT_EXPORTED] += len(spans)
            self._log_failure("The collector does not respond, or refuses them.")
        return is_accepted

    def _log_failure(self, reason: str) -> None:
        now = time.monotonic()
        if self._failure_logged_at is None or now - self._failure_logged_at >= LOG_INTERVAL_S:
            self._failure_logged_at = now
            log.warning(
                "spans_not_exported",
                endpoint=self.origin,
                detail=reason,
                effect="calls continue; their spans are dropped",
            )


def _positive_number(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return the value of the variable `name`, a positive whole number.

    Any other value is logged, and `default` is returned, as OpenTelemetry's specification demands.
    """
    text = environ.get(name, "").strip()
    if text.isdecimal() and 0 < int(text) <= 1_000_000:
        return int(text)
    if text:
        log.warning("tracing_setting_ignored", variable=name, instead=default)
    return default
