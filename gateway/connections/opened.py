"""A connection made ready for use: its records, its provider, and the templates filled in. What the proxy path reads."""

from dataclasses import dataclass, field

from gateway.catalog.provider import Provider
from gateway.records.connection import Connection
from gateway.records.integration import Integration


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The entry's `proxy.base_url` with this connection's settings in it; `path` has no trailing slash."""

    scheme: str
    host: str
    port: int
    path: str


@dataclass(frozen=True, slots=True)
class Placement:
    """What goes on every request of this connection.

    `slots` carry the credential and replace whatever the caller sent under these (lower-case) names; `defaults` stand in
    where the caller sent none. The same for the query: pairs already percent-encoded, `query_slots` replacing.
    """

    slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    defaults: tuple[tuple[str, str], ...] = ()
    query_slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query_defaults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """`allowed_origins`: where its credential may travel, spelled as `UpstreamRequest.origin` spells it."""

    connection: Connection
    integration: Integration
    provider: Provider
    base: BaseUrl
    allowed_origins: frozenset[str]
    placement: Placement = field(repr=False)
    for_one_request: bool = False  # the entry's templates hold ``${now}`` or ``${random}``
