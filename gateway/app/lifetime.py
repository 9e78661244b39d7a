"""What lives as long as the application: the store and all that stands on it, the tasks that go on by themselves, their end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.access.issue_keys import Issuer
from gateway.authorization.connect_sessions import ConnectSessions
from gateway.authorization.flows import Flows
from gateway.authorization.outcomes import Outcomes
from gateway.authorization.reconnect_links import ReconnectLinks
from gateway.authorization.session_connections import SessionConnections, expire_pending
from gateway.authorization.typed_credentials import TypedIn
from gateway.config import RequestLogConfig
from gateway.connections.api_integrations import ApiIntegrations, go_on
from gateway.connections.cache import ConnectionCache
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter, Revoker
from gateway.errors import GatewayError
from gateway.events.delivery import Deliverer
from gateway.events.event_keeper import Keeper
from gateway.journal.place import EFFECT, NO_FOLDER
from gateway.refresh.auth_exchange import Dialogues
from gateway.refresh.exchange_message import EgressRoute
from gateway.refresh.keep_alive import KeepAlive
from gateway.refresh.recovery import recover
from gateway.refresh.refresher import Refresher
from gateway.refresh.through_parent import ThroughParent
from gateway.refresh.token_exchange import InProcess, TokenExchange
from gateway.services import Services
from gateway.store import Store, open_store
from gateway.vault import Keyring, Tokens

PRUNE_EVERY_S: Final = 600.0
PRUNE_REQUEST_LOG_EVERY_S: Final = 20.0

log = structlog.get_logger(__name__)


def complete(services: Services) -> Dialogues:
    """Add what is built on the rest and keeps nothing of its own; the conversations with providers that it uses."""
    store, catalog, live, integrations = services.store, services.catalog, services.live, services.integrations
    dialogues, public_url = dialogues_of(services), services.config.server.public_url
    services.creator = Creator(store, catalog, live, services.egress, dialogues, public_url)
    services.sessions = ConnectSessions(store, services.config.connect)
    services.page_cursors = Tokens(services.config.store.encryption_keys, "page cursor")
    environments = services.config.environments.values()
    open_to_declared = [one.name for one in environments if one.connect_links_in_errors]
    bound = [one.name for one in environments if one.requires_binding]
    services.links = ReconnectLinks(store, services.sessions, public_url, open_to_declared, bound)
    services.issuer = Issuer(store, services.keys.minted)
    live.followers = (services.keys.minted, services.links)
    revoker = Revoker(catalog, dialogues)
    services.session_connections = kept = SessionConnections(
        store, integrations, services.creator, services.outcomes, revoker
    )
    services.flows = Flows(store, integrations, services.creator, kept, dialogues, services.outcomes, public_url)
    services.typed_in = TypedIn(store, services.creator, kept, services.outcomes)
    services.deleter = Deleter(store, integrations, live, revoker)
    services.made = ApiIntegrations(store, integrations, live, services.deleter)
    return dialogues


def dialogues_of(services: Services) -> Dialogues:
    """Conversations by the configuration's way; the exchanges of refreshes by the parent where this process has one."""
    services.exchange = _exchange(services)
    return Dialogues(services.egress, services.exchange)


def _exchange(services: Services) -> TokenExchange:
    if services.parent is None:
        return InProcess(services.journals, services.egress)
    egress = services.config.egress
    allow = tuple((str(opened.network), opened.port) for opened in egress.allow)
    return ThroughParent(
        services.parent, EgressRoute(allow, egress.proxy, egress.timeouts.connect_s, egress.limits.connections)
    )


@asynccontextmanager
async def opened(
    services: Services, *, latest: Callable[[], Services] | None = None, background: bool = False
) -> AsyncIterator[None]:
    """The store and all that stands on it; with `background` also what goes on by itself while a gateway serves.

    `latest` tells what is to be closed at the end, where a reload may have put others in place.
    """
    config = services.config
    store = services.store = await open_store(
        config.store.url,
        Keyring(config.store.encryption_keys),
        environments=config.environments,
        pool=config.store.pool,
    )
    try:
        since = await store.changes.end()  # before they are read, so that none that comes meanwhile is missed
        services.integrations.learn(await store.integrations.all())
    except BaseException:
        await store.close()
        raise
    dialogues = dialogues_of(services)
    if store.journal.folder is None:
        log.error("refresh_journal_unwritable", detail=NO_FOLDER, effect=EFFECT)
    services.renewer = Refresher(store, services.integrations, services.catalog, dialogues, services.metrics)
    services.live = ConnectionCache(config.live, store, services.integrations, services.catalog, services.renewer)
    services.deliverer = Deliverer(store, config, services.catalog, services.egress, services.metrics)
    services.keys.minted.open(store)
    services.outcomes = Outcomes(store)
    complete(services)
    now = latest or (lambda: services)
    services.keeper = Keeper(store, lambda: now().config.environments, services.deliverer.wake)
    tasks = []
    if background:
        services.live.heard = services.deliverer.wake
        keep_alive = KeepAlive(store, services.renewer, lambda: (now().integrations, now().catalog))
        tasks = [
            asyncio.create_task(
                services.live.follow(since, lambda: services.outcomes.look(now().serving)), name="follow_changes"
            ),
            asyncio.create_task(
                recover(store, services.renewer, dialogues.exchange.released), name="recover_refreshes"
            ),
            asyncio.create_task(keep_alive.run(), name="keep_alive"),
            asyncio.create_task(services.deliverer.run(), name="deliver_events"),
            asyncio.create_task(services.keeper.run(), name="keep_events"),
            asyncio.create_task(_prune(store), name="prune"),
            asyncio.create_task(expire_pending(lambda: now().session_connections), name="expire_pending"),
            asyncio.create_task(_prune_request_log(store, lambda: now().config.request_log), name="prune_request_log"),
            asyncio.create_task(go_on(lambda: now().made), name="end_integrations"),
            asyncio.create_task(services.keys.minted.write(), name="write_key_use"),
            asyncio.create_task(services.request_log.write_to(store.request_log), name="write_request_log"),
        ]
    try:
        yield
    finally:
        await _closed(latest() if latest else services, tasks)


async def _closed(services: Services, tasks: Sequence["asyncio.Task[None]"]) -> None:
    async with AsyncExitStack() as end:  # from the bottom up, each whatever became of the one before
        end.push_async_callback(services.store.close)
        for egress in (services.egress, *services.retired):
            end.push_async_callback(egress.close)
        end.push_async_callback(services.request_log.close)
        end.push_async_callback(services.deliverer.close)
        end.push_async_callback(services.keys.minted.close)
        end.push_async_callback(_ended, tasks)
        end.push_async_callback(services.links.close)
        end.push_async_callback(services.journals.close)
        end.push_async_callback(services.renewer.close)
        end.push_async_callback(services.deleter.close)
        end.push_async_callback(services.made.close)
        end.push_async_callback(services.flows.close)
        end.push_async_callback(services.live.close)


async def _ended(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("background_task_failed", exc_info=outcome)


async def _prune(store: Store) -> None:
    """Sessions and flows live minutes, and what is older is only weight."""
    while True:
        try:
            await store.prune(clock.now())
        except ExceptionGroup as group:
            for fault in group.exceptions:
                _prune_failed(fault, fault.__notes__[-1])
        await asyncio.sleep(PRUNE_EVERY_S)


async def _prune_request_log(store: Store, config: Callable[[], RequestLogConfig]) -> None:
    """Often, since it is bounded by its number of rows, and a busy gateway writes thousands a second."""
    while True:
        bounds = config()
        try:
            await store.request_log.prune(clock.now() - timedelta(days=bounds.keep_days), max_rows=bounds.max_rows)
        except Exception as fault:  # noqa: BLE001 (whatever it was, the next time may do better)
            _prune_failed(fault, "request log")
        await asyncio.sleep(PRUNE_REQUEST_LOG_EVERY_S)


def _prune_failed(fault: Exception, what: str) -> None:
    known = isinstance(fault, GatewayError)
    log.warning("prune_failed", what=what, detail=str(fault), exc_info=None if known else fault)
