"""Which requests are traced, and what the environment variables mean."""

from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased
from structlog.testing import capture_logs

from gateway.observe import tracing
from gateway.observe.tracing import Sampling, Tracing, enabling_variable, sampling, start_tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("named", "argument", "expected"),
    [
        ("", "", Sampling(True, 1.0)),
        ("parentbased_always_off", "", Sampling(True, 0.0)),
        ("always_on", "", Sampling(False, 1.0)),
        ("ALWAYS_OFF", "", Sampling(False, 0.0)),
        ("parentbased_traceidratio", "0.01", Sampling(True, 0.01)),
        ("traceidratio", "0.5", Sampling(False, 0.5)),
        ("traceidratio", "", Sampling(False, 1.0)),
    ],
)
def test_sampler_is_read_from_the_environment(named: str, argument: str, expected: Sampling) -> None:
    assert sampling({"OTEL_TRACES_SAMPLER": named, "OTEL_TRACES_SAMPLER_ARG": argument}) == expected


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1%"},
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
    ],
)
def test_invalid_variable_is_logged_and_its_default_used(variables: dict[str, str]) -> None:
    with capture_logs() as lines:
        assert sampling(variables) == Sampling(True, 1.0)
    assert [line["event"] for line in lines] == ["tracing_setting_ignored"]


def test_parent_based_sampler_uses_the_parents_flag_else_the_ratio() -> None:
    never, always = Tracing(Sampling(True, 0.0)), Tracing(Sampling(True, 1.0))
    sampled, not_sampled = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
    for item in (never, always):
        trace = item.begin(sampled, 1.0)
        assert trace is not None
        assert (trace.trace_id, trace.parent_id, trace.began) == (TRACE, SPAN, 1.0)
        assert item.begin(not_sampled, 1.0) is None
        assert item.begin(f"00-{TRACE}-{SPAN}-02", 1.0) is None  # random, not sampled
    for none in (None, "nonsense"):
        assert never.begin(none, 1.0) is None
        root = always.begin(none, 1.0)
        assert root is not None
        assert (root.parent_id, len(root.trace_id)) == (None, 32)


def test_other_sampler_ignores_the_parents_flag() -> None:
    assert Tracing(Sampling(False, 1.0)).begin(f"00-{TRACE}-{SPAN}-00", 1.0) is not None
    assert Tracing(Sampling(False, 0.0)).begin(f"00-{TRACE}-{SPAN}-01", 1.0) is None


def test_ratio_decides_as_in_opentelemetry() -> None:
    ours, theirs = Tracing(Sampling(False, 0.3)), TraceIdRatioBased(0.3)
    taken = 0
    for n in range(2000):
        trace_id = f"{(n + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"
        sampled = ours.begin(f"00-{trace_id}-{SPAN}-01", 0.0) is not None
        assert sampled == (theirs.should_sample(None, int(trace_id, 16), "x").decision is Decision.RECORD_AND_SAMPLE)
        taken += sampled
    assert 450 < taken < 750
    roots = [ours.new_root_trace(0.0) for _ in range(4000)]
    assert 1000 < sum(root is not None for root in roots) < 1400
    assert all(ours.begin(root.traceparent(), 0.0) is not None for root in roots if root is not None)


def test_otlp_endpoint_turns_tracing_on() -> None:
    assert enabling_variable({}) is None
    assert enabling_variable({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}) is None
    assert enabling_variable({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}) == "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert (
        enabling_variable({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "console"}) is None
    )


def test_log_says_what_to_install_if_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[..., ModuleSpec | None] = tracing.find_spec

    def find(name: str, *extra: Any) -> ModuleSpec | None:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(name)
        return found(name, *extra)

    monkeypatch.setattr(tracing, "find_spec", find)
    with capture_logs() as lines:
        assert start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}) is None
    assert lines == [
        {
            "event": "tracing_off",
            "log_level": "error",
            "detail": "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed, so nothing is traced. "
            "Install it with: pip install 'integration-gateway[otel]'",
        }
    ]
