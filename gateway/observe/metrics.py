"""Defines all metrics, and counts requests (ADR 15).

Counting a request costs one look-up and a few additions: no objects, no locks, no text. All label values come from
fixed lists (methods, statuses, the gateway's error codes, declared integrations). So no caller and no provider can
create an unlimited number of time series.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal, TypeAlias, get_args

import structlog

from gateway import clock
from gateway.errors import Code
from gateway.observe.metrics_page import PUBLISHED_AT, SPARE_CELLS, Key, MetricsPage, PageFull
from gateway.records.proxied_call import ExchangeRecord

# ── All metrics: name, type, labels and help text. A test compares docs/operations.md with this table.

Kind = Literal["counter", "gauge", "histogram"]

# The upper bounds of the histogram buckets, in milliseconds. The lowest bounds suit the gateway's own time for a
# request, and the highest bounds suit the longest waits for a provider's first byte.
BOUNDS_MS: Final = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0),
    *(100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 30_000.0, 60_000.0),
)


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: all time series with the same name.

    `labels`: the label names, in the order of a sample's values.
    `help`: the text in ``/metrics``.
    `largest`: show the number of the worker that is farthest from 0, instead of the sum of all workers.
    """

    kind: Kind
    labels: tuple[str, ...]
    help: str
    largest: bool = False


INTEGRATION_LABELS: Final = ("environment", "integration")
REQUESTS: Final = "gateway_proxy_requests_total"
DURATION: Final = "gateway_proxy_duration_seconds"
API_REQUESTS: Final = "gateway_api_requests_total"
REFRESHES: Final = "gateway_token_refreshes_total"
REFRESH_DURATION: Final = "gateway_token_refresh_seconds"
REFRESH_FAILURES: Final = "gateway_token_refresh_failures_total"
REFRESH_WAITS: Final = "gateway_token_refresh_waits_total"
REJECTED_CREDENTIALS: Final = "gateway_rejected_credentials_total"
RELOADS: Final = "gateway_config_reloads_total"
DELIVERIES: Final = "gateway_event_deliveries_total"
INVALID_KEYS: Final = "gateway_invalid_keys_total"
REFUSED_CONNECTIONS: Final = "gateway_client_connections_refused_total"
CATALOG_RELOADS: Final = "gateway_catalog_reloads_total"

FAMILIES: Final[dict[str, Family]] = {
    REQUESTS: Family(
        "counter",
        (*INTEGRATION_LABELS, "method", "status", "error"),
        "Proxied requests; error is the gateway's own code, empty if the provider's response was passed on completely.",
    ),
    DURATION: Family(
        "histogram",
        (*INTEGRATION_LABELS, "part"),
        "Time until the head of a response: in the gateway, waiting for a token (if there was a wait), for upstream.",
    ),
    "gateway_fast_path_requests_total": Family(
        "counter", (), "Proxied requests that the fast path sent; the chain of middlewares handles the others."
    ),
    "gateway_fast_path_handed_over_total": Family(
        "counter", (), "Requests that the fast path began and the chain finished, for example after an error or a 401."
    ),
    API_REQUESTS: Family(
        "counter",
        ("method", "status", "error"),
        "Requests to the gateway's own API and pages, and those to /proxy without a valid key.",
    ),
    REFRESHES: Family(
        "counter",
        (*INTEGRATION_LABELS, "outcome"),
        "Refreshes of tokens: renewed, refused (permanently), unavailable (retried), failed (in the gateway).",
    ),
    REFRESH_FAILURES: Family(
        "counter",
        (*INTEGRATION_LABELS, "reason"),
        "Refreshes that returned no token, by the token endpoint's error code or the gateway's.",
    ),
    REFRESH_DURATION: Family(
        "histogram", INTEGRATION_LABELS, "Time that the token endpoint and the database took for a refresh."
    ),
    REFRESH_WAITS: Family(
        "counter",
        INTEGRATION_LABELS,
        "Refreshes that waited for another process or node that held the lease of the connection.",
    ),
    REJECTED_CREDENTIALS: Family(
        "counter",
        (*INTEGRATION_LABELS, "state"),
        "Connections whose state changed because a provider's API rejects their credential, by the new state.",
    ),
    DELIVERIES: Family(
        "counter",
        ("environment", "outcome"),
        "Attempts to deliver an event: delivered, failed (will be retried), dead (given up).",
    ),
    "gateway_events_pending": Family("gauge", ("environment",), "Events that wait to be delivered."),
    "gateway_events_oldest_seconds": Family(
        "gauge", ("environment",), "How long the oldest event has waited to be delivered."
    ),
    "gateway_upstream_connections": Family(
        "gauge", ("provider", "state"), "Connections to providers: busy, idle (kept for the next request) or dialling."
    ),
    "gateway_upstream_connections_waited_for": Family(
        "gauge", ("provider",), "Requests that wait for a connection because the maximum number is open."
    ),
    "gateway_upstream_outstanding": Family(
        "gauge", ("provider",), "Requests to providers that wait for the response to begin (egress.limits.outstanding)."
    ),
    "gateway_upstream_waiting": Family(
        "gauge", ("provider",), "Requests that wait until fewer are outstanding (egress.limits.waiting)."
    ),
    "gateway_upstream_breakers_open": Family(
        "gauge", ("provider",), "Origins with an open circuit breaker, because they did not respond, in each worker."
    ),
    "gateway_stored_secrets_unreadable_total": Family(
        "counter",
        ("environment", "table"),
        "Attempts to open a stored secret that was changed or damaged since it was sealed.",
    ),
    "gateway_tokens_written_back_total": Family(
        "counter",
        INTEGRATION_LABELS,
        "Newer tokens that were written back from memory after a failover of the database had lost them.",
    ),
    "gateway_clock_offset_seconds": Family(
        "gauge",
        (),
        "Seconds that the database's clock is ahead of this machine's, in the worker that differs most; 0 with SQLite.",
        largest=True,
    ),
    "gateway_failover_reconciling": Family(
        "gauge",
        (),
        "Workers that do not refresh tokens until all processes have written theirs back after a failover.",
    ),
    "gateway_refresh_journal_unwritable": Family(
        "gauge",
        (),
        "Workers that cannot journal token endpoints' responses: a process that is killed may lose a token.",
    ),
    "gateway_connections": Family("gauge", ("environment", "state"), "End users' connections, by state."),
    "gateway_connections_ending": Family(
        "gauge",
        ("environment", "within_days"),
        "Connections that end within 1, 7 or 30 days and that no refresh can extend; 7 includes 1, 30 includes both.",
    ),
    "gateway_keep_alive_overdue_seconds": Family(
        "gauge",
        ("environment", "state"),
        "Delay of the most overdue keep-alive refresh of a connection.",
    ),
    "gateway_store_away": Family("gauge", (), "1 while the shared database does not respond.", largest=True),
    "gateway_store_unwritable": Family(
        "gauge",
        (),
        "1 while writes fail because the database's disk is full or the database is read-only.",
        largest=True,
    ),
    "gateway_database_accesses_total": Family(
        "counter", ("access",), "Reads and writes of the database: read, write (a transaction)."
    ),
    "gateway_database_wait_seconds_total": Family(
        "counter", ("access",), "Total time that database accesses waited for a pool connection or for the write lock."
    ),
    "gateway_prune_success_timestamp_seconds": Family(
        "gauge",
        ("what",),
        "When expired records were last removed, in seconds since 1970: store, call_log, audit.",
        largest=True,
    ),
    "gateway_backup_success_timestamp_seconds": Family(
        "gauge",
        (),
        "When gateway backup last copied this SQLite database, in seconds since 1970; absent before that.",
        largest=True,
    ),
    "gateway_audit_not_sealed": Family(
        "gauge", (), "1 while audit records cannot be placed in the hash chain.", largest=True
    ),
    "gateway_event_loop_lag_seconds": Family(
        "gauge",
        (),
        "Longest time that an event loop was blocked in the last 15 seconds, for the slowest worker.",
        largest=True,
    ),
    "gateway_client_connections": Family("gauge", (), "Connections from clients that are open."),
    REFUSED_CONNECTIONS: Family(
        "counter", (), "Client connections refused because server.limits.connections was reached."
    ),
    "gateway_live_connections": Family("gauge", (), "End users' connections kept in memory, in each worker."),
    "gateway_request_log_dropped_total": Family(
        "counter", (), "Records of requests that were dropped because they could not be written fast enough."
    ),
    "gateway_spans_exported_total": Family("counter", (), "Spans that the collector has accepted."),
    "gateway_spans_dropped_total": Family(
        "counter",
        ("reason",),
        "Spans that were not exported: queue_full (the exporter is too slow), not_exported (the collector cannot be "
        "reached or refuses them).",
    ),
    RELOADS: Family(
        "counter", ("outcome",), "Reloads of the configuration: taken (applied, counted by each worker) or refused."
    ),
    CATALOG_RELOADS: Family(
        "counter",
        ("outcome",),
        "Changes of catalog files while the gateway serves: taken (applied) or refused. Counted by one worker.",
    ),
    INVALID_KEYS: Family("counter", (), "Requests with a key or capability that is unknown, expired or revoked."),
    "gateway_workers": Family("gauge", (), "Processes that serve."),
    "gateway_process_cpu_seconds_total": Family("counter", (), "CPU time of the gateway's processes, user and system."),
    "gateway_process_resident_memory_bytes": Family("gauge", (), "Resident memory of the gateway's processes."),
    "gateway_process_open_fds": Family("gauge", (), "Open file descriptors of the gateway's processes."),
    "gateway_process_max_fds": Family(
        "gauge", (), "Maximum number of open file descriptors of the gateway's processes, together."
    ),
    "gateway_workers_wanted": Family("gauge", (), "Processes that should serve (server.workers)."),
    "gateway_start_time_seconds": Family("gauge", (), "When the gateway started, in seconds since 1970."),
    "process_cpu_seconds_total": Family("counter", (), "As gateway_process_cpu_seconds_total."),
    "process_resident_memory_bytes": Family("gauge", (), "As gateway_process_resident_memory_bytes."),
    "process_open_fds": Family("gauge", (), "As gateway_process_open_fds."),
    "process_max_fds": Family("gauge", (), "As gateway_process_max_fds."),
    "process_start_time_seconds": Family("gauge", (), "As gateway_start_time_seconds."),
    "gateway_build_info": Family("gauge", ("version", "python", "aiohttp"), "Always 1; the labels show what runs."),
}


# ── Counts requests.

IntegrationLabels: TypeAlias = tuple[str, str]
Response: TypeAlias = tuple[str, int, str | None]
# For one integration: the cell that counts each response, and the first cell of the histograms.
IntegrationCells: TypeAlias = tuple[dict[Response, int], int]
Sample: TypeAlias = tuple[Key, float]

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATUSES: Final = frozenset({499, *(status.value for status in HTTPStatus)})
ERRORS: Final = frozenset({"client_left", "cut", "stopped", *get_args(Code)})
OTHER: Final = "other"

PARTS: Final = ("gateway", "token", "upstream")
BUCKETS: Final = len(BOUNDS_MS) + 1
HISTOGRAM_CELLS: Final = BUCKETS + 1  # the last cell of a histogram is the sum of its values, in ms
GATEWAY, TOKEN, UPSTREAM = (n * HISTOGRAM_CELLS for n in range(3))
# the first part of the key of an integration's three histograms, which are adjacent in a page
PARTS_KEY: Final = "split"

MAX_INTEGRATIONS: Final = 1000
OVER_LIMIT: Final[IntegrationLabels] = ("", OTHER)  # the labels for all integrations beyond `MAX_INTEGRATIONS`

log = structlog.get_logger(__name__)


class Metrics:
    """The metrics of this process. A reload of the configuration keeps the numbers.

    `is_known`: returns whether an environment has an integration with that name. Requests to unknown integrations are
    counted under an empty name.
    `page`: where the numbers are kept; None: in memory of this process alone.
    """

    def __init__(self, is_known: Callable[[str, str], bool], page: MetricsPage | None = None) -> None:
        self.is_known = is_known
        self._readers: list[Callable[[], Iterable[Sample]]] = []
        # If the page has numbers already, this process continues with them.
        self.page = page = page or MetricsPage.for_one_process()
        self._cells = page.cells
        self._cells_by_integration: dict[IntegrationLabels, IntegrationCells] = {}
        self._known_integrations = {key[1:] for key, _ in page.read() if key[0] == PARTS_KEY}
        self._other_responses: dict[Response, int] = {}
        self._first_cells: dict[Key, int] = {}
        self._first_values: dict[Key, float] = {}
        self._is_full = False

    def forget_known(self) -> None:
        """Forget the cached results of `is_known`, for example after a change of the integrations. The counts stay."""
        self._cells_by_integration.clear()

    def observe(self, exchange: ExchangeRecord) -> None:
        """Count a finished request.

        Counting takes less than a microsecond, except for the first request with the same labels.
        """
        upstream_ms = exchange.upstream_ms
        if upstream_ms is None:
            self._add(self._other_responses, (API_REQUESTS,), (exchange.method, exchange.status, exchange.error_code))
            return
        cells = self._cells
        try:
            responses, first_cell = self._cells_by_integration[exchange.environment, exchange.integration_id]
            cells[responses[exchange.method, exchange.status, exchange.error_code]] += 1.0
        except KeyError:
            first_cell = self._count_first_of_kind(exchange)
        gateway_ms, token_ms = exchange.gateway_ms or 0.0, exchange.token_ms
        cells[first_cell + bisect_left(BOUNDS_MS, gateway_ms)] += 1.0
        cells[first_cell + BUCKETS] += gateway_ms
        if upstream_ms:
            cells[first_cell + UPSTREAM + bisect_left(BOUNDS_MS, upstream_ms)] += 1.0
            cells[first_cell + UPSTREAM + BUCKETS] += upstream_ms
        if token_ms:
            cells[first_cell + TOKEN + bisect_left(BOUNDS_MS, token_ms)] += 1.0
            cells[first_cell + TOKEN + BUCKETS] += token_ms

    def add(self, name: str, *labels: str) -> None:
        """Add 1 to the counter `name`, one of `FAMILIES`. Requests are counted by `observe` instead."""
        self._cells[self._first_cell(checked_key((name, *labels), "counter"))] += 1.0

    def measure(self, name: str, duration_ms: float, *labels: str) -> None:
        """Add a value to the histogram `name`, one of `FAMILIES`. Requests are measured by `observe` instead."""
        first_cell = self._first_cell(checked_key((name, *labels), "histogram"), HISTOGRAM_CELLS)
        self._cells[first_cell + bisect_left(BOUNDS_MS, duration_ms)] += 1.0
        self._cells[first_cell + BUCKETS] += duration_ms

    def watch(self, read_samples: Callable[[], Iterable[Sample]]) -> None:
        """Call `read_samples` at each `publish`, for gauges and for counters that other objects of this process count."""
        self._readers.append(read_samples)

    def publish(self) -> None:
        """Write the watched numbers to the page, where other processes read them."""
        values: dict[Key, float] = {}
        for read_samples in self._readers:
            for key, number in read_samples():
                values[key] = values.get(key, 0.0) + number
        for key in self._first_values.keys() - values.keys():
            if FAMILIES[key[0]].kind == "gauge":
                self._cells[self._first_cell(key)] = 0.0
        for key, number in values.items():
            cell = self._first_cell(checked_key(key, "gauge", "counter"))
            if key not in self._first_values:  # a counter continues from the number that the previous process wrote
                self._first_values[key] = self._cells[cell] if FAMILIES[key[0]].kind == "counter" else 0.0
            self._cells[cell] = self._first_values[key] + number
        self._cells[PUBLISHED_AT] = clock.monotonic()

    def _count_first_of_kind(self, exchange: ExchangeRecord) -> int:
        labels = exchange.environment, exchange.integration_id
        if not self.is_known(*labels):
            labels = exchange.environment, ""
        elif labels not in self._known_integrations and len(self._known_integrations) >= MAX_INTEGRATIONS:
            labels = OVER_LIMIT
        responses, first_cell = self._cells_by_integration.get(labels) or self._new_integration_cells(labels)
        self._add(responses, (REQUESTS, *labels), (exchange.method, exchange.status, exchange.error_code))
        return first_cell

    def _new_integration_cells(self, labels: IntegrationLabels) -> IntegrationCells:
        cells_of_integration: IntegrationCells = (
            {},
            self._first_cell((PARTS_KEY, *labels), len(PARTS) * HISTOGRAM_CELLS),
        )
        self._known_integrations.add(labels)
        self._cells_by_integration[labels] = cells_of_integration
        return cells_of_integration

    def _add(self, responses: dict[Response, int], family: Key, response: Response) -> None:
        cell = responses.get(response)
        if cell is None:
            method, status, error = response = listed_values(response)
            cell = responses[response] = self._first_cell((*family, method, status_text(status), error or ""))
        self._cells[cell] += 1.0

    def _first_cell(self, key: Key, width: int = 1) -> int:
        cell = self._first_cells.get(key)
        if cell is None:
            try:
                cell = self._first_cells[key] = self.page.first_cell(key, width)
            except PageFull:
                cell = self._spare_cell()
        return cell

    def _spare_cell(self) -> int:
        """Return the cell for numbers without room in the page, which is never shown."""
        if not self._is_full:
            self._is_full = True
            log.error("metrics_full", effect="new series are not shown at /metrics from now on")
        return len(self._cells) - SPARE_CELLS


def listed_values(response: Response) -> Response:
    """Return the response with only values of the fixed lists.

    Such a value is replaced by a general one: an unknown method becomes ``other``.
    """
    method, status, error = response
    return (
        method if method in METHODS else OTHER,
        status if status in STATUSES else status // 100 if 100 <= status <= 599 else 0,
        error if error is None or error in ERRORS else OTHER,
    )


def status_text(status: int) -> str:
    """Return the label for a status: ``404``, ``4xx`` for a status that HTTP does not define, or ``other``."""
    return OTHER if status == 0 else f"{status}xx" if status < 10 else str(status)


def checked_key(key: Key, *kinds: str) -> Key:
    """Return `key`. Raises ValueError if FAMILIES has no such metric of this type with this number of labels."""
    family = FAMILIES.get(key[0])
    if family is None or family.kind not in kinds or len(key) != 1 + len(family.labels):
        raise ValueError(f"{key} is not in FAMILIES as a {' or '.join(kinds)} with these labels")
    return key
