"""A connection made ready for use: its records, its provider, and the templates filled in. What the proxy path reads."""

from dataclasses import dataclass, field

from gateway.catalog.provider import Provider
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.wire.origin import Address


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
    """`base`: the entry's `proxy.base_url` with this connection's settings in it.

    `allowed_origins`: where its credential may travel, spelled as `Address.origin` and `UpstreamRequest.origin` do.
    """

    connection: Connection
    integration: Integration
    provider: Provider
    base: Address
    allowed_origins: frozenset[str]
    placement: Placement = field(repr=False)
    for_one_request: bool = False  # the entry's templates hold ``${now}`` or ``${random}``
    heads: dict[bytes, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Heads of plain requests made with this credential, by what the caller sent: the fast lane's, gone when this is."""
