"""Every metric there is, by name: its kind, its labels and what it tells. docs/operations.md is tested against this."""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

# Milliseconds. From what a request costs in this process to the longest wait for a provider's first byte.
BOUNDS_MS: Final = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0),
    *(100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 30_000.0, 60_000.0),
)


@dataclass(frozen=True, slots=True)
class Family:
    """`labels` in the order in which a sample's values are given. `largest`: of several workers' numbers the one farthest
    from 0 counts, not their sum."""

    kind: Kind
    labels: tuple[str, ...]
    help: str
    largest: bool = False


WHOSE: Final = ("environment", "integration")
REQUESTS: Final = "gateway_proxy_requests_total"
DURATION: Final = "gateway_proxy_duration_seconds"
OTHERS: Final = "gateway_api_requests_total"
REFRESHES: Final = "gateway_token_refreshes_total"
REJECTED_CREDENTIALS: Final = "gateway_rejected_credentials_total"
RELOADS: Final = "gateway_config_reloads_total"
DELIVERIES: Final = "gateway_event_deliveries_total"
INVALID_KEYS: Final = "gateway_invalid_keys_total"
TURNED_AWAY: Final = "gateway_client_connections_refused_total"
CATALOG_RELOADS: Final = "gateway_catalog_reloads_total"

FAMILIES: Final[dict[str, Family]] = {
    REQUESTS: Family(
        "counter",
        (*WHOSE, "method", "status", "error"),
        "Proxied requests; error is the gateway's own code, empty where the provider's answer went out whole.",
    ),
    DURATION: Family(
        "histogram",
        (*WHOSE, "part"),
        "Time until the head of an answer: in the gateway, waiting for a token (where there was a wait), for upstream.",
    ),
    OTHERS: Family(
        "counter",
        ("method", "status", "error"),
        "Requests to the gateway's own API and pages, and those to /proxy without a good key.",
    ),
    REFRESHES: Family(
        "counter",
        (*WHOSE, "outcome"),
        "Refreshes of tokens: renewed, refused (for good), unavailable (tried again), failed (here).",
    ),
    REJECTED_CREDENTIALS: Family(
        "counter",
        (*WHOSE, "state"),
        "Verdicts on credentials that a provider's API rejects on every call, by the state that the connection came to.",
    ),
    DELIVERIES: Family(
        "counter",
        ("environment", "outcome"),
        "Attempts to deliver an event: delivered, failed (tried again), dead (given up).",
    ),
    "gateway_events_pending": Family("gauge", ("environment",), "Events that wait to be delivered."),
    "gateway_events_oldest_seconds": Family("gauge", ("environment",), "How long the oldest of them has waited."),
    "gateway_upstream_connections": Family(
        "gauge", ("provider", "state"), "Connections to providers: busy, idle (kept for the next request) or dialling."
    ),
    "gateway_upstream_connections_waited_for": Family(
        "gauge", ("provider",), "Requests that wait for a connection, because as many are open as there may be."
    ),
    "gateway_upstream_outstanding": Family(
        "gauge", ("provider",), "Requests to providers whose answer has not begun (egress.limits.outstanding)."
    ),
    "gateway_upstream_waiting": Family(
        "gauge", ("provider",), "Requests that wait until fewer are outstanding (egress.limits.waiting)."
    ),
    "gateway_upstream_breakers_open": Family(
        "gauge", ("provider",), "Origins that are left alone for now, because they did not answer, in each worker."
    ),
    "gateway_stored_secrets_unreadable_total": Family(
        "counter",
        ("environment", "table"),
        "Attempts to open a stored secret that was changed or damaged since it was sealed.",
    ),
    "gateway_tokens_written_back_total": Family(
        "counter",
        WHOSE,
        "Newer tokens that were written back from memory after a failover of the database had lost them.",
    ),
    "gateway_clock_offset_seconds": Family(
        "gauge",
        (),
        "How far the database's clock is ahead of this machine's, the worker that is farthest off; 0 with SQLite.",
        largest=True,
    ),
    "gateway_refresh_journal_unwritable": Family(
        "gauge",
        (),
        "Workers whose token endpoints' replies cannot be journalled: a process that is killed may lose a token.",
    ),
    "gateway_client_connections": Family("gauge", (), "Connections from clients that are open."),
    TURNED_AWAY: Family(
        "counter", (), "Connections of clients refused because as many were open as server.limits.connections allows."
    ),
    "gateway_live_connections": Family("gauge", (), "End users' connections kept in memory, in each worker."),
    "gateway_request_log_dropped_total": Family(
        "counter", (), "Records of requests that were dropped because writing them did not keep up."
    ),
    RELOADS: Family("counter", ("outcome",), "Reloads of the configuration: taken, by each worker, or refused."),
    CATALOG_RELOADS: Family(
        "counter",
        ("outcome",),
        "Changes of catalog files while the gateway serves: taken, or refused. Told by one worker.",
    ),
    INVALID_KEYS: Family("counter", (), "Requests with a key or capability that is unknown, expired or revoked."),
    "gateway_workers": Family("gauge", (), "Processes that serve."),
    "gateway_process_cpu_seconds_total": Family("counter", (), "CPU time of these processes, user and system."),
    "gateway_process_resident_memory_bytes": Family("gauge", (), "Resident memory of these processes."),
    "gateway_process_open_fds": Family("gauge", (), "Open file descriptors of these processes."),
    "gateway_start_time_seconds": Family("gauge", (), "When the gateway started, in seconds since 1970."),
    "gateway_build_info": Family("gauge", ("version", "python", "aiohttp"), "Always 1; the labels tell what runs."),
}
