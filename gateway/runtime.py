"""Runtime: everything that lives as long as the process, under one AppKey;
and the generation that a request started with.

Only `gateway.app.lifetime` builds the runtime: completely, when the application starts.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiohttp import web

from gateway.access.client_window import InvalidKeyThrottle, RefusalLog
from gateway.access.issue_keys import KeyIssuer
from gateway.access.known_keys import MintedKeyCache
from gateway.authorization.connect_sessions import ConnectSessions
from gateway.authorization.flows import Flows
from gateway.authorization.outcomes import Outcomes
from gateway.authorization.reconnect_links import ReconnectLinks
from gateway.authorization.session_connections import SessionConnections
from gateway.authorization.typed_credentials import TypedCredentialConnector
from gateway.connections.api_integrations import ApiIntegrations
from gateway.connections.cache import ConnectionCache
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter
from gateway.egress.client import RetiredEgress
from gateway.egress.limits import EgressLimits
from gateway.egress.page_memory import PageMemory
from gateway.events.audit_keeper import AuditKeeper
from gateway.events.delivery import Deliverer
from gateway.events.event_keeper import EventKeeper
from gateway.events.webhook_keys import WebhookKeyCache
from gateway.generation import CurrentGeneration, Generation
from gateway.integrations.registry import ManagedIntegrations
from gateway.observe.call_queue import CallQueue
from gateway.observe.loop_lag import LoopLag
from gateway.observe.metrics import Metrics
from gateway.observe.tracing import Tracing
from gateway.refresh.refresher import Refresher
from gateway.refresh.token_exchange import Journals, TokenExchange
from gateway.store import Store


@dataclass(slots=True, kw_only=True)
class Runtime:
    """The services of the process. `current` holds the generation in use; all other members stay the same objects.

    - `managed`: the integrations created through the API, in this process's copy
    - `exchange`: the object that calls token endpoints for refreshes, in this process or through its parent
    - `retired`: the egress objects of earlier generations, each until its last exchange ends
    - `tracing`: None if tracing is off
    - `serving`: whether the process is ready for requests, as ``/ready`` reports; false before the start is complete
      and after a stop has begun
    - `reloading`: a lock, held during the replacement of the generation
    """

    current: CurrentGeneration
    started_at: datetime
    store: Store
    minted: MintedKeyCache
    managed: ManagedIntegrations
    egress_limits: EgressLimits
    retired: RetiredEgress
    page_memory: PageMemory
    metrics: Metrics
    call_queue: CallQueue
    tracing: Tracing | None
    loop_lag: LoopLag
    invalid_keys: InvalidKeyThrottle
    refusal_log: RefusalLog
    journals: Journals
    exchange: TokenExchange
    refresher: Refresher
    live: ConnectionCache
    creator: Creator
    sessions: ConnectSessions
    outcomes: Outcomes
    flows: Flows
    links: ReconnectLinks
    issuer: KeyIssuer
    session_connections: SessionConnections
    typed_credentials: TypedCredentialConnector
    deleter: Deleter
    api_integrations: ApiIntegrations
    deliverer: Deliverer
    webhook_keys: WebhookKeyCache
    keeper: EventKeeper
    audit_keeper: AuditKeeper
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    serving: bool = False

    @property
    def generation(self) -> Generation:
        """The generation in use.

        Within a request, call `generation_of` instead: a reload during the request can replace the generation in use.
        """
        return self.current.generation

    @property
    def journal_writable(self) -> bool:
        """Whether replies of token endpoints can be journalled.

        If the journal cannot be written, a process that is killed can lose a token.
        """
        return self.store.journal.folder is not None and self.exchange.journal_fault is None


RUNTIME: Final = web.AppKey("runtime", Runtime)
_GENERATION: Final = web.RequestKey("generation", Generation)


def generation_of(request: web.Request) -> Generation:
    """Return the generation of the request, which stays the same until the request ends.

    For a request that started on the fast path, return the generation that the fast path used. For any other request,
    return the generation in use at the first call of this function.
    """
    generation = request.get(_GENERATION)
    if generation is None:
        handover = getattr(request.protocol, "handover", None)
        generation = request.app[RUNTIME].current.generation if handover is None else handover.generation
        request[_GENERATION] = generation
    return generation
