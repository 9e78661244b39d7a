"""Opens and closes everything that exists as long as the application: the store, the services that use it, background
tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import structlog

from gateway import clock
from gateway.access.client_window import InvalidKeyThrottle, RefusalLog
from gateway.access.issue_keys import KeyIssuer
from gateway.access.known_keys import MintedKeyCache
from gateway.app.generations import CheckedConfiguration, build_generation, concurrency_settings
from gateway.authorization.connect_sessions import ConnectSessions
from gateway.authorization.flows import Flows
from gateway.authorization.outcomes import Outcomes
from gateway.authorization.reconnect_links import ReconnectLinks
from gateway.authorization.session_connections import SessionConnections, expire_pending
from gateway.authorization.typed_credentials import TypedCredentialConnector
from gateway.background import end_background, start_background
from gateway.config import Config
from gateway.config.model import CallLogConfig, EgressConfig
from gateway.connections.api_integrations import ApiIntegrations, resume_deletions_regularly
from gateway.connections.cache import ConnectionCache
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter, Revoker
from gateway.egress.client import RetiredEgress
from gateway.egress.limits import EgressLimits
from gateway.egress.page_memory import PageMemory
from gateway.errors import GatewayError, Unavailable, exc_info_of
from gateway.events.audit_keeper import AuditKeeper
from gateway.events.delivery import Deliverer
from gateway.events.event_keeper import EventKeeper
from gateway.events.webhook_keys import WebhookKeyCache
from gateway.generation import CurrentGeneration, Generation
from gateway.integrations.registry import ManagedIntegrations
from gateway.journal.journal_folder import NO_FOLDER, UNWRITABLE_EFFECT
from gateway.observe.call_queue import CallQueue
from gateway.observe.loop_lag import LoopLag
from gateway.observe.metrics import INVALID_KEYS, Metrics
from gateway.observe.metrics_page import MetricsPage
from gateway.observe.tracing import Tracing, start_tracing
from gateway.records.audit import AuditAction, AuditEntry
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.refresh.exchange_message import EgressRoute
from gateway.refresh.keep_alive import KeepAlive
from gateway.refresh.recovery import reconcile, recover
from gateway.refresh.refresher import Refresher
from gateway.refresh.through_parent import ParentExchange, ParentLink
from gateway.refresh.token_exchange import Journals, LocalExchange, TokenExchange
from gateway.runtime import Runtime
from gateway.store import LogPosition, Store, open_store
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.database_faults import refused_start
from gateway.store.preflight import database_name
from gateway.vault import Keyring

PRUNE_INTERVAL_S: Final = 600.0
PRUNE_CALL_LOG_INTERVAL_S: Final = 20.0
HOUSEKEEPING_DELAY_S: Final = 1.0
"""Seconds from the start of the gateway to the start of housekeeping tasks, so that these tasks do not delay the first
requests and interrupted refreshes."""

log = structlog.get_logger(__name__)


def build_runtime(
    checked: CheckedConfiguration,
    store: Store,
    managed: ManagedIntegrations,
    parent: ParentLink | None = None,
    page: MetricsPage | None = None,
    tracing: Tracing | None = None,
) -> Runtime:
    """Build the runtime on an open store. No background task runs yet."""
    minted_keys = MintedKeyCache(store)
    current = CurrentGeneration(build_generation(checked, minted_keys, managed))
    metrics = Metrics(partial(_is_known, current), page)
    call_queue = CallQueue(observe=metrics.observe, tracing=tracing)
    egress_limits, retired = EgressLimits(concurrency_settings(checked.config.egress)), RetiredEgress()
    _apply_each_generation(current, metrics, call_queue, store, egress_limits, retired)
    journals, exchange = _token_exchange(current, parent)
    dialogues = AuthDialogueRunner(current, exchange)
    deliverer = Deliverer(store, current, metrics, call_queue.record_operation)
    sessions = ConnectSessions(store, current)
    links = ReconnectLinks(store, sessions, current)
    refresher = Refresher(store, current, dialogues, metrics, call_queue.record_operation)
    live = ConnectionCache(store, current, managed, refresher, followers=(minted_keys, links), on_change=deliverer.wake)
    creator = Creator(store, current, live, dialogues)
    outcomes, revoker = Outcomes(store, call_queue.record_operation), Revoker(current, dialogues)
    session_connections = SessionConnections(store, current, creator, outcomes, revoker)
    deleter = Deleter(store, current, live, revoker)
    return Runtime(
        current=current,
        started_at=clock.now(),
        store=store,
        minted=minted_keys,
        managed=managed,
        egress_limits=egress_limits,
        retired=retired,
        page_memory=PageMemory(lambda: current.generation.config.egress.page_memory_bytes),
        metrics=metrics,
        call_queue=call_queue,
        tracing=tracing,
        loop_lag=LoopLag(),
        invalid_keys=InvalidKeyThrottle(lambda: metrics.add(INVALID_KEYS)),
        refusal_log=RefusalLog(),
        journals=journals,
        exchange=exchange,
        refresher=refresher,
        live=live,
        creator=creator,
        sessions=sessions,
        outcomes=outcomes,
        flows=Flows(store, current, creator, session_connections, dialogues, outcomes),
        links=links,
        issuer=KeyIssuer(store, minted_keys, lambda: current.generation.catalog),
        session_connections=session_connections,
        typed_credentials=TypedCredentialConnector(store, creator, session_connections, outcomes),
        deleter=deleter,
        api_integrations=ApiIntegrations(store, current, live, deleter),
        deliverer=deliverer,
        webhook_keys=WebhookKeyCache(),
        audit_keeper=AuditKeeper(store, current),
        keeper=EventKeeper(store, lambda: current.generation.config.environments, deliverer.wake),
    )


def _is_known(current: CurrentGeneration, environment: str, integration_id: str) -> bool:
    return current.generation.integrations.has(environment, integration_id)


def _apply_each_generation(
    current: CurrentGeneration,
    metrics: Metrics,
    call_queue: CallQueue,
    store: Store,
    egress_limits: EgressLimits,
    retired: RetiredEgress,
) -> None:
    """Copy some settings into the objects that use them for every request, now and after each reload.

    These settings are the limits, and whether calls are stored. All other code reads settings from `current`.
    """

    def apply_settings(config: Config) -> None:
        _apply_call_log_settings(config.call_log, call_queue, store)
        store.trail.all_refreshes = config.audit.refreshes == "all"

    def apply_generation(old_generation: Generation, new_generation: Generation) -> None:
        metrics.forget_known()
        apply_settings(new_generation.config)
        egress_limits.apply_settings(concurrency_settings(new_generation.config.egress))
        if new_generation.egress is not old_generation.egress:
            retired.add(old_generation.egress)

    apply_settings(current.generation.config)
    current.add_listener(apply_generation)


def _token_exchange(current: CurrentGeneration, parent: ParentLink | None) -> tuple[Journals, TokenExchange]:
    """Return what calls token endpoints for refreshes, and the journals of this process.

    With a parent, the parent calls them and writes its own journals.
    """
    journals = Journals()
    if parent is None:
        return journals, LocalExchange(journals, lambda: current.generation.egress)
    return journals, ParentExchange(parent, lambda: _egress_route(current.generation.config.egress))


def _egress_route(egress: EgressConfig) -> EgressRoute:
    allow = tuple((str(opened.network), opened.port) for opened in egress.allow)
    return EgressRoute(allow, egress.proxy, egress.timeouts.connect_s, egress.limits.connections)


@asynccontextmanager
async def open_runtime(
    configuration: CheckedConfiguration,
    *,
    parent: ParentLink | None = None,
    page: MetricsPage | None = None,
    background: bool = False,
) -> AsyncIterator[Runtime]:
    """Open the store and yield the runtime; with `background` also run the tasks of a serving gateway.

    `parent`: the link to the parent, which sends the token exchanges; None: this process sends the token exchanges.
    `page`: shared memory for the counters; None: memory of this process.
    """
    config = configuration.config
    store = await open_store(
        config.store.url,
        Keyring(config.store.encryption_keys),
        environments=config.environments,
        pool=config.store.pool,
    )
    try:
        with _convert_unavailable(config):
            log_end = await store.changes.log_end()  # before the integrations, so that the change feed misses no change
            managed = ManagedIntegrations(await store.integrations.all())
    except BaseException:
        await store.close()
        raise
    if store.journal.folder is None:
        log.error("refresh_journal_unwritable", detail=NO_FOLDER, effect=UNWRITABLE_EFFECT)
    tracing = start_tracing(connection_ids=config.tracing.connection_ids) if background else None
    runtime = build_runtime(configuration, store, managed, parent, page, tracing)
    tasks: list[asyncio.Task[None]] = []
    try:
        if background:
            with _convert_unavailable(config):
                await store.failover.join()
                await reconcile(store)
            await record_configuration(store, config, "start")
            tasks = _start_background_tasks(runtime, log_end)
        yield runtime
    finally:
        await _close(runtime, tasks)


@contextmanager
def _convert_unavailable(config: Config) -> Iterator[None]:
    """Raise StoreRefused, with one line for the operator, in place of Unavailable: the database can fail, or refuse the
    first write, after it was opened."""
    try:
        yield
    except Unavailable as fault:
        raise refused_start(database_name(config.store), fault) from fault


async def record_configuration(store: Store, config: Config, cause: str) -> None:
    """Record in the audit trail that a changed gateway.yaml took effect. If several processes and nodes load the same
    file, only one of them writes a record."""
    if not config.document.digest:
        return
    detail = {"sha256": config.document.digest, "how": cause, "environments": sorted(config.environments)}
    try:
        await store.audit.record_configuration(
            config.document.digest, AuditEntry.of(AuditAction.CONFIGURATION_LOADED, detail=detail)
        )
    except GatewayError as fault:
        log.error("configuration_not_recorded", detail=fault.message)


def _start_background_tasks(runtime: Runtime, log_end: LogPosition) -> list["asyncio.Task[None]"]:
    store, current, refresher = runtime.store, runtime.current, runtime.refresher
    work: dict[str, Coroutine[Any, Any, None]] = {
        "follow_changes": runtime.live.feed.follow(
            log_end, lambda: runtime.outcomes.deliver_stored_outcomes(runtime.serving)
        ),
        "stay_alive": store.failover.write_heartbeats(),
        "recover_refreshes": recover(store, refresher, runtime.exchange.release, current),
        "keep_alive": _run_after_delay(KeepAlive(store, refresher, current).run),
        "deliver_events": runtime.deliverer.run(),
        "keep_events": _run_after_delay(runtime.keeper.run),
        "prune": _run_after_delay(lambda: _prune(store)),
        "expire_pending": _run_after_delay(lambda: expire_pending(runtime.session_connections)),
        "prune_call_log": _run_after_delay(lambda: _prune_call_log(store)),
        "end_integrations": _run_after_delay(lambda: resume_deletions_regularly(runtime.api_integrations)),
        "write_key_use": runtime.minted.write(),
        "measure_loop_lag": runtime.loop_lag.measure(),
        "write_call_log": runtime.call_queue.write_to(store.call_log, uses=store.uses),
        "keep_audit": runtime.audit_keeper.run(),
    }
    return [start_background(task, name) for name, task in work.items()]


async def _run_after_delay(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await asyncio.sleep(HOUSEKEEPING_DELAY_S)
    await work()


async def _close(runtime: Runtime, tasks: Sequence["asyncio.Task[None]"]) -> None:
    async with (
        AsyncExitStack() as closing_steps
    ):  # runs the steps in reverse order; each step runs even if another step fails
        closing_steps.push_async_callback(runtime.store.close)
        closing_steps.push_async_callback(runtime.store.failover.leave)
        closing_steps.push_async_callback(runtime.retired.close)
        closing_steps.push_async_callback(runtime.generation.egress.close)
        if runtime.tracing is not None:
            closing_steps.push_async_callback(runtime.tracing.close)
        closing_steps.push_async_callback(runtime.call_queue.close)
        closing_steps.push_async_callback(runtime.deliverer.close)
        closing_steps.push_async_callback(runtime.minted.close)
        closing_steps.push_async_callback(end_background, tasks)
        closing_steps.push_async_callback(runtime.links.close)
        closing_steps.push_async_callback(runtime.journals.close)
        closing_steps.push_async_callback(runtime.refresher.close)
        closing_steps.push_async_callback(runtime.deleter.close)
        closing_steps.push_async_callback(runtime.api_integrations.close)
        closing_steps.push_async_callback(runtime.session_connections.close)
        closing_steps.push_async_callback(runtime.typed_credentials.close)
        closing_steps.push_async_callback(runtime.flows.close)
        closing_steps.push_async_callback(runtime.live.close)


async def _prune(store: Store) -> None:
    """Remove expired data from the store regularly, such as sessions and flows, which are valid only for minutes."""
    while True:
        try:
            await store.prune(now := clock.now())
            store.pruned_at["store"] = now
        except ExceptionGroup as group:
            for fault in group.exceptions:
                _log_prune_failure(fault, fault.__notes__[-1])
        await asyncio.sleep(PRUNE_INTERVAL_S)


async def _prune_call_log(store: Store) -> None:
    """Prune the call log often, because its size is limited and a busy gateway writes thousands of rows a second."""
    while True:
        now = clock.now()
        try:
            await store.call_log.prune(now)
            await store.prune_former_log(store.call_log.bounds.oldest(now))
            store.pruned_at["call_log"] = now
        except Exception as fault:  # noqa: BLE001 (the next run may succeed)
            _log_prune_failure(fault, "call log")
        await asyncio.sleep(PRUNE_CALL_LOG_INTERVAL_S)


def _apply_call_log_settings(config: CallLogConfig, call_queue: CallQueue, store: Store) -> None:
    call_queue.stores_calls, call_queue.sample = config.enabled, config.sample
    store.call_log.bounds = CallLogBounds(config.keep_days, config.max_bytes, config.max_rows)


def _log_prune_failure(fault: Exception, subject: str) -> None:
    log.warning("prune_failed", what=subject, detail=str(fault), exc_info=exc_info_of(fault))
