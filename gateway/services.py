"""Services: all that handlers and middlewares may reach, under one AppKey. Built by `app`, and nowhere else."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from aiohttp import web

from gateway.catalog.load import Catalog
from gateway.config import Config
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter
from gateway.connections.flow import Flows
from gateway.connections.integrations import Integrations
from gateway.connections.links import Links
from gateway.connections.live import Live
from gateway.connections.made import MadeIntegrations
from gateway.connections.outcomes import Outcomes
from gateway.connections.renew import Renewer
from gateway.connections.session_connections import SessionConnections
from gateway.connections.sessions import Sessions
from gateway.connections.typed import TypedIn
from gateway.egress.client import Egress
from gateway.egress.gates import Gates
from gateway.egress.page_memory import PageMemory
from gateway.keys import Keys
from gateway.keys.invalid import InvalidKeys
from gateway.keys.issue import Issuer
from gateway.metrics import Metrics
from gateway.refresh.exchange import Exchange, Journals
from gateway.refresh.through_parent import ParentLink
from gateway.request_log import RequestLog
from gateway.store import Store
from gateway.vault import Tokens
from gateway.webhooks.deliver import Deliverer
from gateway.webhooks.keeper import Keeper


@dataclass(slots=True)
class Services:
    """What is known before the store is open stands first; the rest is there once the application has started.

    A reload puts another Services in the place of this one (`gateway.reloading`), so take it from the application anew
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
    request_log: RequestLog
    invalid_keys: InvalidKeys
    started_at: datetime
    retired: tuple[Egress, ...] = ()
    journals: Journals = field(default_factory=Journals)
    parent: ParentLink | None = None
    turning: asyncio.Lock = field(default_factory=asyncio.Lock)
    serving: bool = False
    store: Store = field(init=False)
    exchange: Exchange = field(init=False)
    renewer: Renewer = field(init=False)
    live: Live = field(init=False)
    creator: Creator = field(init=False)
    sessions: Sessions = field(init=False)
    outcomes: Outcomes = field(init=False)
    flows: Flows = field(init=False)
    links: Links = field(init=False)
    issuer: Issuer = field(init=False)
    session_connections: SessionConnections = field(init=False)
    typed_in: TypedIn = field(init=False)
    page_cursors: Tokens = field(init=False)
    deleter: Deleter = field(init=False)
    deliverer: Deliverer = field(init=False)
    keeper: Keeper = field(init=False)
    made: MadeIntegrations = field(init=False)

    @property
    def journal_writable(self) -> bool:
        """Whether replies of token endpoints can be journalled: where not, a process that is killed may lose a token."""
        return self.store.journal.folder is not None and self.exchange.journal_fault is None


SERVICES = web.AppKey("services", Services)
