"""Reads the gauges from the runtime whenever metrics are requested.

Network connections to providers are counted by provider, because one origin serves all integrations of a provider.
They are never counted by origin, because a host name may identify an end user.
"""

from collections import defaultdict
from collections.abc import Iterator

from gateway import clock
from gateway.observe.metrics import Sample
from gateway.runtime import Runtime
from gateway.store import Store


def gauges(runtime: Runtime) -> Iterator[Sample]:
    """Yield all gauge samples. Samples with the same key are added up."""
    yield ("gateway_live_connections",), runtime.live.entry_count
    yield ("gateway_clock_offset_seconds",), clock.offset.seconds
    yield ("gateway_request_log_dropped_total",), runtime.call_queue.dropped
    if runtime.tracing is not None:
        yield ("gateway_spans_exported_total",), runtime.tracing.exported_spans
        for reason, number in runtime.tracing.dropped_spans.items():
            yield ("gateway_spans_dropped_total", reason), number
    for (environment, table), number in runtime.store.unreadable.counts.items():
        yield ("gateway_stored_secrets_unreadable_total", environment, table), number
    for (environment, integration), number in runtime.live.lost_commits.written_back.items():
        yield ("gateway_tokens_written_back_total", environment, integration), number
    yield ("gateway_refresh_journal_unwritable",), not runtime.journal_writable
    yield ("gateway_failover_reconciling",), runtime.store.failover.pending
    yield ("gateway_store_away",), runtime.live.feed.outage_s is not None
    yield ("gateway_store_unwritable",), runtime.store.full or runtime.store.read_only
    yield ("gateway_audit_not_sealed",), runtime.audit_keeper.failing
    yield ("gateway_event_loop_lag_seconds",), runtime.loop_lag.longest_s
    yield from _database_samples(runtime.store)
    yield from _connection_samples(runtime)
    yield from _pool_samples(runtime)
    yield from _concurrency_samples(runtime)
    yield from _event_samples(runtime)


def _database_samples(store: Store) -> Iterator[Sample]:
    waits = store.waits
    for access, number in waits.accesses.items():
        yield ("gateway_database_accesses_total", access), number
        yield ("gateway_database_wait_seconds_total", access), waits.seconds[access]
    for table, pruned_at in store.pruned_at.items():
        yield ("gateway_prune_success_timestamp_seconds", table), pruned_at.timestamp()
    backed_up_at = store.backed_up_at()
    if backed_up_at is not None:
        yield ("gateway_backup_success_timestamp_seconds",), backed_up_at.timestamp()


def _connection_samples(runtime: Runtime) -> Iterator[Sample]:
    for counts in runtime.keeper.connections:
        environment = counts.environment
        yield ("gateway_connections", environment, counts.state), counts.connections
        for days, number in counts.ending.items():
            yield ("gateway_connections_ending", environment, str(days)), number
        overdue_s = 0.0 if counts.overdue_since is None else (clock.now() - counts.overdue_since).total_seconds()
        yield ("gateway_keep_alive_overdue_seconds", environment, counts.state), max(overdue_s, 0.0)


def _event_samples(runtime: Runtime) -> Iterator[Sample]:
    for backlog in runtime.keeper.backlog:
        yield ("gateway_events_pending", backlog.environment), backlog.pending
        oldest_s = (clock.now() - backlog.oldest_at).total_seconds()
        yield ("gateway_events_oldest_seconds", backlog.environment), max(oldest_s, 0.0)


def _pool_samples(runtime: Runtime) -> Iterator[Sample]:
    provider_at = runtime.live.provider_at
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for egress in (runtime.generation.egress, *runtime.retired):
        for origin, load in egress.load():
            provider_sums = sums[provider_at.get(origin, "")]
            for index, number in enumerate(load):
                provider_sums[index] += number
    for provider, (busy, idle, dialling, waiting) in sums.items():
        for state, number in (("busy", busy), ("idle", idle), ("dialling", dialling)):
            yield ("gateway_upstream_connections", provider, state), number
        yield ("gateway_upstream_connections_waited_for", provider), waiting


def _concurrency_samples(runtime: Runtime) -> Iterator[Sample]:
    for gate in runtime.egress_limits:
        provider = runtime.live.provider_at.get(gate.name, "")
        yield ("gateway_upstream_outstanding", provider), gate.concurrency.outstanding
        yield ("gateway_upstream_waiting", provider), gate.concurrency.waiting
        yield ("gateway_upstream_breakers_open", provider), not gate.breaker.is_closed
