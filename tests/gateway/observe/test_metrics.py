"""Metrics: labels with a bounded number of values, summed over workers, in Prometheus format."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway import clock
from gateway.observe import metrics as counting
from gateway.observe import metrics_page
from gateway.observe.metrics import FAMILIES, Metrics
from gateway.observe.metrics_page import MetricsPage, SharedPages
from gateway.observe.metrics_text import exposition, total
from gateway.records.proxied_call import ExchangeRecord

KNOWN = {("dev", "jira"), ("dev", 'a"\\\nb'), ("live", "jira")}
JIRA = ("environment=dev", "integration=jira")


def exchange(integration_id: str = "jira", **changes: Any) -> ExchangeRecord:
    """Return the record of a successful proxied call, changed by `changes`."""
    record: dict[str, Any] = {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "request_id": "r1",
        "environment": "dev",
        "integration_id": integration_id,
        "connection_id": "u1",
        "method": "GET",
        "host": "acme.example.com",
        "path": "/secret-path",
        "status": 200,
        "duration_ms": 310.0,
        "bytes_in": 0,
        "bytes_out": 10,
        "gateway_ms": 0.2,
        "token_ms": 0.0,
        "upstream_ms": 300.0,
    }
    return ExchangeRecord(**record | changes)


def api_request(**changes: Any) -> ExchangeRecord:
    """Return the record of a request to the gateway's own API."""
    return exchange("", connection_id="", gateway_ms=None, token_ms=None, upstream_ms=None, **changes)


def metrics(page: MetricsPage | None = None) -> Metrics:
    return Metrics(lambda *whose: whose in KNOWN, page)


def text(*pages: MetricsPage) -> str:
    return exposition(total(pages))


def samples(*pages: MetricsPage) -> dict[tuple[str, ...], float]:
    """Return samples by name and sorted label values, as Prometheus's own parser reads them."""
    read = {}
    for family in text_string_to_metric_families(text(*pages)):
        assert family.documentation
        for sample in family.samples:
            read[sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))] = sample.value
    return read


def requests(*pages: MetricsPage) -> dict[tuple[str, ...], float]:
    """Return the number of proxied requests by error, integration, method and status."""
    return {
        tuple(label.partition("=")[2] for label in key[2:]): number
        for key, number in samples(*pages).items()
        if key[0] == "gateway_proxy_requests_total"
    }


@pytest.fixture
def page() -> MetricsPage:
    return MetricsPage.for_one_process()


def test_an_exchange_is_reported_by_integration_method_status_and_error(page: MetricsPage) -> None:
    counts = metrics(page)
    for changes in (
        {},
        {},
        {"status": 429},
        {"status": 504, "error_code": "upstream_timeout"},
        {"status": 200, "error_code": "cut"},
        {"method": "POST", "status": 201},
    ):
        counts.observe(exchange(**changes))
    assert requests(page) == {
        ("", "jira", "GET", "200"): 2,
        ("", "jira", "GET", "429"): 1,
        ("upstream_timeout", "jira", "GET", "504"): 1,
        ("cut", "jira", "GET", "200"): 1,
        ("", "jira", "POST", "201"): 1,
    }


def test_duration_is_split_by_part_and_parts_without_a_wait_are_left_out(page: MetricsPage) -> None:
    counts = metrics(page)
    counts.observe(exchange())
    counts.observe(exchange(token_ms=2000.0))
    counts.observe(exchange(upstream_ms=0.0, status=400, error_code="bad_path"))
    seen = samples(page)
    name = "gateway_proxy_duration_seconds"
    assert {part: seen.get((f"{name}_count", *JIRA, f"part={part}")) for part in ("gateway", "token", "upstream")} == {
        "gateway": 3,
        "token": 1,
        "upstream": 2,
    }
    assert seen[f"{name}_sum", *JIRA, "part=token"] == 2.0
    assert seen[f"{name}_sum", *JIRA, "part=upstream"] == pytest.approx(0.6)
    assert seen[f"{name}_bucket", *JIRA, "le=0.25", "part=upstream"] == 0
    assert seen[f"{name}_bucket", *JIRA, "le=0.5", "part=upstream"] == 2
    assert seen[f"{name}_bucket", *JIRA, "le=+Inf", "part=upstream"] == 2
    assert seen[f"{name}_bucket", *JIRA, "le=0.00025", "part=gateway"] == 3


def test_value_equal_to_a_bound_is_in_that_bucket(page: MetricsPage) -> None:
    metrics(page).observe(exchange(upstream_ms=250.0))
    assert samples(page)["gateway_proxy_duration_seconds_bucket", *JIRA, "le=0.25", "part=upstream"] == 1


def test_other_requests_are_counted_separately(page: MetricsPage) -> None:
    counts = metrics(page)
    counts.observe(api_request())
    counts.observe(api_request(status=401, error_code="unknown_account", environment=""))
    assert samples(page) == {
        ("gateway_api_requests_total", "error=", "method=GET", "status=200"): 1,
        ("gateway_api_requests_total", "error=unknown_account", "method=GET", "status=401"): 1,
    }


def test_callers_and_providers_cannot_create_many_labels(page: MetricsPage) -> None:
    counts = metrics(page)
    for n in range(300):
        counts.observe(exchange(f"made-up-{n}", status=404, error_code="unknown_provider_config"))
        counts.observe(exchange(method=f"M{n}"))
        counts.observe(exchange(status=n + 300))
        counts.observe(exchange(error_code=f"made-up-{n}"))
        counts.observe(api_request(method=f"M{n}", status=1000 + n))
    seen = requests(page)
    assert seen["unknown_provider_config", "", "GET", "404"] == 300
    assert seen["", "jira", "other", "200"] == 300
    assert seen["other", "jira", "GET", "200"] == 300
    assert seen["", "jira", "GET", "4xx"] == sum(1 for status in range(400, 500) if status not in counting.STATUSES)
    assert sum(seen.values()) == 4 * 300
    assert len(seen) < 70
    assert samples(page)["gateway_api_requests_total", "error=", "method=other", "status=other"] == 300
    assert "made-up" not in text(page)


def test_metrics_contain_no_end_user(page: MetricsPage) -> None:
    metrics(page).observe(exchange())
    assert not any(word in text(page) for word in ("u1", "acme", "secret-path", "r1"))


def test_integrations_beyond_a_thousand_are_reported_together(
    page: MetricsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_INTEGRATIONS", 2)
    counts = Metrics(lambda *_: True, page)
    for n in (1, 2, 3, 4, 1):
        counts.observe(exchange(f"i{n}"))
    assert {key[1]: number for key, number in requests(page).items()} == {"i1": 2, "i2": 1, "other": 2}
    counts.forget_known()
    again = Metrics(lambda *_: True, page)  # a successor knows how many integrations are counted
    again.observe(exchange("i5"))
    again.observe(exchange("i2"))
    assert {key[1]: number for key, number in requests(page).items()} == {"i1": 2, "i2": 2, "other": 3}


def test_new_configuration_applies_to_later_requests(page: MetricsPage) -> None:
    counts = metrics(page)
    counts.observe(exchange())
    counts.is_known = lambda *whose: whose == ("dev", "new")
    counts.forget_known()
    counts.observe(exchange())
    counts.observe(exchange("new"))
    assert {key[1]: number for key, number in requests(page).items()} == {"jira": 1, "": 1, "new": 1}


def test_labels_are_escaped(page: MetricsPage) -> None:
    metrics(page).observe(exchange('a"\\\nb'))
    assert any('integration=a"\\\nb' in key for key in samples(page))


def test_counters_of_all_workers_and_gauges_of_running_workers_are_summed() -> None:
    board = SharedPages(3)
    for page in board.pages[:2]:
        counts = metrics(page)
        counts.observe(exchange())
        counts.add("gateway_config_reloads_total", "taken")
        counts.watch(lambda: [(("gateway_workers",), 1), (("gateway_process_cpu_seconds_total",), 2.5)])
        counts.publish()
    seen = samples(*board.pages)
    assert seen["gateway_workers",] == 2
    assert seen["gateway_config_reloads_total", "outcome=taken"] == 2
    assert seen["gateway_process_cpu_seconds_total",] == 5
    assert seen["gateway_proxy_duration_seconds_count", *JIRA, "part=gateway"] == 2
    board.pages[0].cells[metrics_page.PUBLISHED_AT] = clock.monotonic() - 60  # this worker has died
    seen = samples(*board.pages)
    assert seen["gateway_workers",] == 1
    assert seen["gateway_process_cpu_seconds_total",] == 5
    assert seen["gateway_proxy_duration_seconds_count", *JIRA, "part=gateway"] == 2


def test_replacement_worker_continues_the_counters(page: MetricsPage) -> None:
    for used_s in (5.0, 0.5):
        counts = metrics(page)
        counts.watch(lambda used_s=used_s: [(("gateway_process_cpu_seconds_total",), used_s)])
        counts.watch(lambda: [(("gateway_workers",), 1)])
        counts.publish()
        counts.publish()
        counts.observe(exchange())
    seen = samples(page)
    assert seen["gateway_process_cpu_seconds_total",] == 5.5
    assert seen["gateway_workers",] == 1
    assert requests(page) == {("", "jira", "GET", "200"): 2}


def test_gauge_that_is_no_longer_reported_is_zero(page: MetricsPage) -> None:
    counts = metrics(page)
    shown = [(("gateway_upstream_waiting", "jira"), 3.0), (("gateway_upstream_waiting", "jira"), 2.0)]
    counts.watch(lambda: shown)
    counts.publish()
    assert samples(page)["gateway_upstream_waiting", "provider=jira"] == 5
    shown.clear()
    counts.publish()
    assert samples(page)["gateway_upstream_waiting", "provider=jira"] == 0


@pytest.mark.parametrize(
    ("name", "labels"),
    [("gateway_unheard_of", ()), ("gateway_workers", ("x",)), ("gateway_proxy_duration_seconds", ())],
)
def test_only_metrics_in_the_table_can_be_reported(name: str, labels: tuple[str, ...]) -> None:
    counts = metrics()
    with pytest.raises(ValueError, match=name):
        counts.add(name, *labels)
    counts.watch(lambda: [((name, *labels), 1)])
    with pytest.raises(ValueError, match=name):
        counts.publish()


def test_names_follow_prometheus_conventions() -> None:
    assert [name for name in FAMILIES if not name.startswith(("gateway_", "process_"))] == []
    assert [name for name, family in FAMILIES.items() if name.endswith("_total") != (family.kind == "counter")] == []


def test_full_page_continues_to_count_known_series(page: MetricsPage, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Metrics(lambda *_: True, page)
    counts.observe(exchange())
    monkeypatch.setattr(metrics_page, "ENTRY_BYTES", int(page.cells[metrics_page.USED_BYTES]))
    for _ in range(3):
        counts.observe(exchange())
        counts.observe(exchange("another"))
        counts.observe(exchange(status=500))
        counts.add("gateway_token_refreshes_total", "dev", "jira", "renewed")
    assert requests(page) == {("", "jira", "GET", "200"): 4}
    assert samples(page)["gateway_proxy_duration_seconds_count", *JIRA, "part=gateway"] == 7
