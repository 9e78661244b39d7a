"""Numbers: counted, added up over workers, and told in the form that Prometheus reads."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Board, Metrics, Snapshot, added, exposition
from gateway.metrics.board import TooLarge
from gateway.metrics.counts import place
from gateway.metrics.families import FAMILIES

JIRA = ("dev", "jira")


def told(*snapshots: Snapshot) -> dict[tuple[str, ...], float]:
    """Samples by name and sorted label values, as Prometheus's own parser reads them."""
    read = {}
    for family in text_string_to_metric_families(exposition(added(snapshots))):
        assert family.documentation
        for sample in family.samples:
            read[sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))] = sample.value
    return read


def exchange(metrics: Metrics, status: int = 200, *, ours: bool = False, token_s: float = 0.0) -> None:
    metrics.exchange(JIRA, "GET", status, ours, 0.0002, token_s, 0.3)


def test_an_exchange_is_told_by_integration_classes_and_parts() -> None:
    metrics = Metrics()
    exchange(metrics)
    exchange(metrics, 404)
    exchange(metrics, 502, ours=True, token_s=2.0)
    metrics.exchange(JIRA, "POST", 201, False, 0.0002, 0.0, 0.0)
    seen = told(metrics.snapshot())
    whose = ("environment=dev", "integration=jira")
    requests = {key[1:]: value for key, value in seen.items() if key[0] == "gateway_proxy_requests_total"}
    assert requests == {
        ("by=provider", *whose, "method=read", "status=2xx"): 1,
        ("by=provider", *whose, "method=read", "status=4xx"): 1,
        ("by=gateway", *whose, "method=read", "status=5xx"): 1,
        ("by=provider", *whose, "method=write", "status=2xx"): 1,
    }
    assert seen["gateway_proxy_seconds_count", *whose, "part=gateway"] == 4
    assert seen["gateway_proxy_seconds_count", *whose, "part=upstream"] == 3
    assert seen["gateway_proxy_seconds_count", *whose, "part=token"] == 1
    assert seen["gateway_proxy_seconds_sum", *whose, "part=token"] == 2.0
    assert seen["gateway_proxy_seconds_bucket", *whose, "le=0.25", "part=upstream"] == 0
    assert seen["gateway_proxy_seconds_bucket", *whose, "le=0.5", "part=upstream"] == 3
    assert seen["gateway_proxy_seconds_bucket", *whose, "le=+Inf", "part=gateway"] == 4


def test_what_has_no_connection_is_told_without_an_integration() -> None:
    metrics = Metrics()
    metrics.request("GET", 401)
    assert told(metrics.snapshot()) == {("gateway_api_requests_total", "method=read", "status=4xx"): 1}


@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_an_odd_status_is_counted_apart(status: int) -> None:
    assert place("GET", status, False) == place("GET", 42, False)
    metrics = Metrics()
    exchange(metrics, status)
    assert any("status=other" in key for key in told(metrics.snapshot()))


def test_places_do_not_overlap() -> None:
    every = [
        place(method, status, ours) for method in ("GET", "PUT") for status in range(0, 600, 100) for ours in (0, 1)
    ]
    assert len(set(every)) == len(every) == 24


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics.exchange(("dev", 'a"\\\n'), "GET", 200, False, 0.1, 0.0, 0.0)
    assert any('integration=a"\\\n' in key for key in told(metrics.snapshot()))


def test_workers_are_added_up() -> None:
    one, two = Metrics(), Metrics()
    for metrics in (one, two, two):
        exchange(metrics)
        metrics.add("gateway_config_reloads_total", "taken")
    for metrics in (one, two):
        metrics.watch("gateway_workers", read=lambda: 1)
    sent = [Snapshot.from_bytes(metrics.snapshot().as_bytes()) for metrics in (one, two)]
    seen = told(*sent)
    assert seen["gateway_workers",] == 2
    assert seen["gateway_config_reloads_total", "outcome=taken"] == 3
    assert seen["gateway_proxy_seconds_count", "environment=dev", "integration=jira", "part=gateway"] == 3
    assert one.snapshot().exchanges[JIRA][2] == 1  # adding up has changed neither


def test_a_replacement_goes_on_from_the_counters_alone() -> None:
    former, then = Metrics(), Metrics()
    exchange(former)
    former.watch("gateway_workers", read=lambda: 1)
    former.watch("gateway_cpu_seconds_total", read=lambda: 5.0)
    then.go_on_from(Snapshot.from_bytes(former.snapshot().as_bytes()))
    then.watch("gateway_cpu_seconds_total", read=lambda: 0.5)
    exchange(then)
    seen = told(then.snapshot())
    assert seen["gateway_cpu_seconds_total",] == 5.5
    assert ("gateway_workers",) not in seen
    assert seen["gateway_proxy_seconds_count", "environment=dev", "integration=jira", "part=gateway"] == 2


@pytest.mark.parametrize(
    ("name", "labels"), [("gateway_unheard_of", ()), ("gateway_workers", ("x",)), ("gateway_proxy_seconds", JIRA)]
)
def test_only_what_is_in_the_table_can_be_told(name: str, labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=name):
        Metrics().watch(name, *labels, read=lambda: 1)
    with pytest.raises(ValueError, match=name):
        Metrics().add(name, *labels)


@pytest.mark.parametrize("name", FAMILIES)
def test_names_follow_prometheus_habits(name: str) -> None:
    assert name.startswith("gateway_")
    assert name.endswith("_total") == (FAMILIES[name].kind == "counter")


def test_a_board_keeps_what_each_said_last() -> None:
    board = Board(2, half_bytes=64)
    assert board.read(0) == b""
    for n in range(5):
        board.write(1, b"told %d" % n)
        assert board.read(1) == b"told %d" % n
    assert board.read(0) == b""
    with pytest.raises(TooLarge):
        board.write(1, bytes(64))
    assert board.read(1) == b"told 4"


def test_a_torn_write_is_not_read() -> None:
    board = Board(1, half_bytes=64)
    board.write(0, b"first")
    board.write(0, b"other")
    board._memory[64 + 16] ^= 1  # as if the second had been read while it was written
    assert board.read(0) == b""
