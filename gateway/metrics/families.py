"""Every metric there is, by name: its kind, its labels and what it tells. docs/operations.md is tested against this."""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

# Seconds. From what a request costs in this process to the longest wait for a provider's first byte.
BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


@dataclass(frozen=True, slots=True)
class Family:
    """`labels` in the order in which a sample's values are given."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


WHOSE: Final = ("environment", "integration")

FAMILIES: Final[dict[str, Family]] = {
    "gateway_proxy_requests_total": Family(
        "counter",
        (*WHOSE, "method", "status", "by"),
        "Proxied requests by method class (read, write), status class, and who answered: the provider or the gateway.",
    ),
    "gateway_proxy_seconds": Family(
        "histogram",
        (*WHOSE, "part"),
        "Time to the first byte of an answer, split into gateway, token (only where it was waited for) and upstream.",
    ),
    "gateway_api_requests_total": Family(
        "counter",
        ("method", "status"),
        "Requests to the gateway's own API and pages, and those to /proxy that were refused before a connection was known.",
    ),
    "gateway_token_refreshes_total": Family(
        "counter",
        (*WHOSE, "outcome"),
        "Refreshes: renewed, refused (for good), unavailable (tried again), failed (here).",
    ),
    "gateway_upstream_connections": Family("gauge", ("state",), "Connections to providers: busy or idle."),
    "gateway_upstream_waiting": Family("gauge", (), "Requests that wait for a connection to a provider."),
    "gateway_request_log_dropped_total": Family(
        "counter", (), "Records of requests that were dropped because writing them did not keep up."
    ),
    "gateway_live_connections": Family("gauge", (), "End users' connections kept in memory."),
    "gateway_client_connections": Family("gauge", (), "Connections from clients that are open."),
    "gateway_config_reloads_total": Family("counter", ("outcome",), "Reloads by SIGHUP: taken or refused, per worker."),
    "gateway_workers": Family("gauge", (), "Processes that serve."),
    "gateway_cpu_seconds_total": Family("counter", (), "CPU time of the processes that serve, user and system."),
    "gateway_resident_memory_bytes": Family("gauge", (), "Resident memory of the processes that serve."),
    "gateway_open_fds": Family("gauge", (), "Open file descriptors of the processes that serve."),
    "gateway_start_time_seconds": Family("gauge", (), "When the gateway started, in seconds since 1970."),
    "gateway_build_info": Family("gauge", ("version", "python", "aiohttp"), "Always 1; the labels tell what runs."),
}
