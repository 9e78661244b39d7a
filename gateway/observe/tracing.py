"""Decides which requests are traced, by the standard `OTEL_*` variables, and queues their records for export.

`Tracing.begin` decides for each request, and returns None for one that is not sampled. The record of a sampled request
is queued when the request is over. A thread in `span_export` then makes the spans and sends them to the collector.
"""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import structlog

from gateway.records.operation import Operation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.trace import SAMPLED, CallTrace, parent_in

if TYPE_CHECKING:
    from gateway.observe.span_export import SpanExport

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SUPPORTED: Final = "http/protobuf"
NOT_INSTALLED: Final = (
    "{variable} is set, but OpenTelemetry is not installed, so nothing is traced. "
    "Install it with: pip install 'integration-gateway[otel]'"
)
_ID_COUNT: Final = 1 << 64
_ALL_REQUESTS: Final = 1.0
_VERSION_PREFIX: Final = "00-"
_UNSAMPLED_FLAGS: Final = "-00"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling settings: which share of the requests is traced.

    `parent_based`: a request with a `traceparent` header follows the sampling decision in that header.
    `ratio`: the share of all other requests that is sampled, from 0 to 1.
    """

    parent_based: bool = True
    ratio: float = _ALL_REQUESTS

    @property
    def id_limit(self) -> int:
        """The limit for the lower 64 bits of a trace id.

        A trace is sampled if these bits are a number below the limit, as in OpenTelemetry's sampler TraceIdRatioBased.
        """
        return round(self.ratio * _ID_COUNT)


def sampling(environ: Mapping[str, str]) -> Sampling:
    """Read OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.

    An invalid value is logged and replaced by its default, as OpenTelemetry's specification demands.
    """
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    parent_based = sampler.startswith("parentbased_")
    sampler_kind = sampler.removeprefix("parentbased_")
    if sampler_kind not in ("always_on", "always_off", "traceidratio"):
        log.warning("tracing_setting_ignored", variable="OTEL_TRACES_SAMPLER", instead="parentbased_always_on")
        return Sampling()
    if sampler_kind != "traceidratio":
        return Sampling(parent_based, _ALL_REQUESTS if sampler_kind == "always_on" else 0.0)
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    try:
        ratio = float(text or _ALL_REQUESTS)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        log.warning("tracing_setting_ignored", variable="OTEL_TRACES_SAMPLER_ARG", instead=_ALL_REQUESTS)
        ratio = _ALL_REQUESTS
    return Sampling(parent_based, ratio)


def enabling_variable(environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable that turns tracing on; None if tracing is off.

    Each variable in `ENDPOINTS` turns tracing on, unless OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER turns tracing off.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() not in ("", "otlp"):
        return None
    return next((name for name in ENDPOINTS if environ.get(name, "").strip()), None)


class Tracing:
    """Decides which requests of this process are traced, and passes their records to the exporter.

    A reload of the configuration keeps this object.
    `export`: the exporter; None: nothing is exported, as in tests.
    """

    def __init__(self, sampling_settings: Sampling, export: "SpanExport | None" = None) -> None:
        self._parent_based = sampling_settings.parent_based
        self._id_limit = sampling_settings.id_limit
        self.export = export

    def begin(self, traceparent: str | None, began_at: float) -> CallTrace | None:
        """Return the trace of a request whose head has arrived, or None if the request is not sampled.

        `traceparent`: the header's value, None without this header.
        `began_at`: when the request began, in monotonic seconds.
        """
        if traceparent is None:
            return self.new_root_trace(began_at)
        if self._parent_based and traceparent[52:] == _UNSAMPLED_FLAGS and traceparent[:3] == _VERSION_PREFIX:
            # The most frequent case if the application samples: the header need not be parsed.
            return None
        parent = parent_in(traceparent)
        if parent is None:
            return self.new_root_trace(began_at)
        if self._parent_based:
            if not parent.flags & SAMPLED:
                return None
        elif int(parent.trace_id[16:], 16) >= self._id_limit:
            return None
        return CallTrace(parent.trace_id, parent.span_id, parent.flags | SAMPLED, began_at)

    def new_root_trace(self, began_at: float) -> CallTrace | None:
        """Return a new trace without a parent, or None if the new trace is not sampled.

        `began_at`: when the request began, in monotonic seconds.
        """
        low_bits = random.getrandbits(64)
        if low_bits >= self._id_limit:
            return None
        return CallTrace(f"{random.getrandbits(64):016x}{low_bits or 1:016x}", None, SAMPLED, began_at)

    def record_call(self, exchange: ExchangeRecord) -> None:
        """Queue the record of a finished, sampled call for export."""
        if self.export is not None:
            self.export.add(exchange)

    def record_operation(self, operation: Operation) -> None:
        """Queue the record of a finished refresh or delivery for export; ignore other operations.

        The span belongs to the trace of the call that started the operation. If no call started the operation, the span
        begins a new trace, which is sampled as any other. A refresh that an unsampled call started never has a span. A
        delivery always has a span if a sampled request caused its event.
        """
        if self.export is None or operation.kind not in ("refresh", "delivery"):
            return
        trace = operation.trace
        parent = None if trace is None else trace.parent_call
        if parent is None:
            if operation.kind == "refresh" and operation.request_id:
                return
            parent = self.new_root_trace(0.0)
            if parent is None and operation.cause is None:
                return
        if trace is not None:
            trace.exported = True
        self.export.add(operation, parent)

    @property
    def dropped_spans(self) -> Mapping[str, int]:
        """The number of spans that were not exported, by reason."""
        return {} if self.export is None else self.export.dropped

    @property
    def exported_spans(self) -> int:
        return 0 if self.export is None else self.export.exported

    async def close(self) -> None:
        """Send the waiting records, within the exporter's time limit."""
        if self.export is not None:
            await self.export.close()


def start_tracing(environ: Mapping[str, str] = os.environ, *, connection_ids: bool = False) -> Tracing | None:
    """Return the tracing that the `OTEL_*` variables configure, or None if tracing is off.

    Also return None if tracing cannot start, for example if OpenTelemetry is not installed; the reason is logged.
    `connection_ids`: whether spans contain the connection's id.
    """
    variable = enabling_variable(environ)
    if variable is None:
        return None
    protocol = next((environ[name].strip() for name in PROTOCOLS if environ.get(name, "").strip()), SUPPORTED)
    if protocol != SUPPORTED:
        log.error(
            "tracing_off",
            detail=f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}, but the gateway supports only {SUPPORTED!r}. Use a "
            "collector's HTTP port, usually 4318.",
        )
        return None
    if not _is_installed():
        log.error("tracing_off", detail=NOT_INSTALLED.format(variable=variable))
        return None
    from gateway.observe.span_export import SpanExport

    try:
        export = SpanExport(environ, connection_ids=connection_ids)
    except Exception as fault:  # noqa: BLE001 (for example a certificate's bad path: no reason not to serve)
        log.error("tracing_off", detail=f"The exporter cannot be made from the OTEL_* variables: {fault}.")
        return None
    sampling_settings = sampling(environ)
    log.info(
        "tracing_on", endpoint=export.origin, parent_based=sampling_settings.parent_based, ratio=sampling_settings.ratio
    )
    return Tracing(sampling_settings, export)


def _is_installed() -> bool:
    try:
        return all(
            find_spec(name) is not None for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
        )
    except ModuleNotFoundError:
        return False
