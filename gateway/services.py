"""Services: all that handlers and middlewares may reach, under one AppKey. Built by `app`, and nowhere else."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from aiohttp import web

from gateway.access.invalid_keys import InvalidKeys
from gateway.access.issue_keys import Issuer
from gateway.access.known_keys import Keys
from gateway.authorization.connect_sessions import ConnectSessions
from gateway.authorization.flows import Flows
from gateway.authorization.outcomes import Outcomes
from gateway.authorization.reconnect_links import ReconnectLinks
from gateway.authorization.session_connections import SessionConnections
from gateway.authorization.typed_credentials import TypedIn
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config
from gateway.connections.api_integrations import ApiIntegrations
from gateway.connections.cache import ConnectionCache
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter
from gateway.egress.client import Egress
from gateway.egress.limits import Gates
from gateway.egress.page_memory import PageMemory
from gateway.events.delivery import Deliverer
from gateway.events.event_keeper import Keeper
from gateway.integrations.registry import Integrations
from gateway.observe.metrics import Metrics
from gateway.observe.request_log import RequestLogger
from gateway.refresh.refresher import Refresher
from gateway.refresh.through_parent import ParentLink
from gateway.refresh.token_exchange import Journals, TokenExchange
from gateway.store import Store
from gateway.vault import Tokens


@dataclass(slots=True)
class Services:
    """What is known before the store is open stands first; the rest is there once the application has started.

    A reload puts another Services in the place of this one (`gateway.app.reload`), so take it from the application anew
    for each request. `retired` are ways out of earlier configurations on which something is still under way, `turning`
    lets one reload follow the other. `journals` are this process's; `parent` is there in a worker of `gateway serve`, and
    does its token exchanges; `exchange` is the one of the two that is used. `serving` is what ``/ready`` says: false before
    the start is complete and again once a stop has begun.
    """

    config: Config
    catalog: Catalog
    keys: Keys
    integrations: Integrations
    egress: Egress
    gates: Gates
    page_memory: PageMemory
    metrics: Metrics
    request_log: RequestLogger
    invalid_keys: InvalidKeys
    started_at: datetime
    retired: tuple[Egress, ...] = ()
    journals: Journals = field(default_factory=Journals)
    parent: ParentLink | None = None
    turning: asyncio.Lock = field(default_factory=asyncio.Lock)
    serving: bool = False
    store: Store = field(init=False)
    exchange: TokenExchange = field(init=False)
    renewer: Refresher = field(init=False)
    live: ConnectionCache = field(init=False)
    creator: Creator = field(init=False)
    sessions: ConnectSessions = field(init=False)
    outcomes: Outcomes = field(init=False)
    flows: Flows = field(init=False)
    links: ReconnectLinks = field(init=False)
    issuer: Issuer = field(init=False)
    session_connections: SessionConnections = field(init=False)
    typed_in: TypedIn = field(init=False)
    page_cursors: Tokens = field(init=False)
    deleter: Deleter = field(init=False)
    deliverer: Deliverer = field(init=False)
    keeper: Keeper = field(init=False)
    made: ApiIntegrations = field(init=False)

    @property
    def journal_writable(self) -> bool:
        """Whether replies of token endpoints can be journalled: where not, a process that is killed may lose a token."""
        return self.store.journal.folder is not None and self.exchange.journal_fault is None


SERVICES = web.AppKey("services", Services)
