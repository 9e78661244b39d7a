"""A connection: one end user's authorized link to one integration, its lease and its past."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from gateway.records.states import State


class ConnectionRef(NamedTuple):
    """The address of a connection; a tuple, since the hot path hashes it once a request."""

    environment: str
    integration_id: str
    connection_id: str


Mark: TypeAlias = tuple[int, datetime]
"""Version and time of the last change: the row is another one if it has another mark."""


@dataclass(frozen=True, slots=True)
class EndUser:
    """The end user of a connection, in the customer's own words (docs/compatibility.md#identifiers)."""

    id: str
    email: str | None = None
    display_name: str | None = None
    tags: Mapping[str, str] | None = None
    organization_id: str | None = None
    organization_display_name: str | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ciphertext with the address it is bound to: it opens in this place and in no other.

    `of`: the connection that it belongs to, for people.
    """

    ciphertext: bytes
    environment: str
    table: str
    row: str
    column: str
    version: int
    of: ConnectionRef | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Sealed({self.table}.{self.column}, {len(self.ciphertext)} bytes)"


@dataclass(frozen=True, slots=True)
class RefreshFailure:
    """The last refresh went wrong. `final`: the provider said no for good (RFC 6749 §5.2), so nothing is tried again."""

    code: str
    message: str
    final: bool
    at: datetime
    attempts: int
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A refresh token may have been sent, and the result is not known yet. `digest` names that token."""

    digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to refresh the credential, until a time by the database's clock. `owner` names one attempt (`store.cluster`)."""

    owner: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Lifespan:
    """`dies_at`: when the refresh token ends if nothing is done, or the access token where that is all there is;
    `keep_alive_at`: when it is refreshed to prevent that. `settled`: nothing is to be done when the access token ends, since
    it can be refreshed after that, or since its end was noted.
    """

    dies_at: datetime | None = None
    keep_alive_at: datetime | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """The account that authorized, as the provider reports it: `id` never changes for one account, `label` is for people."""

    id: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedScopes:
    """Scopes that the provider's API requested, with 403, since the connection was last authorized. `path`: of the call that
    was refused last, below the base address and without its query.
    """

    scopes: tuple[str, ...]
    at: datetime
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A row as the store returns it; the credential stays sealed until `vault` opens it.

    `id` numbers it for lists; `uid` is the row's own identity, to which its ciphertexts are bound.
    `version` counts the credentials it has held: a write of a new one must name the version it replaces.
    `config` holds plain settings (``cloudId`` …), `secret_config` those that the catalog calls secret. `granted_at`: when
    the end user last authorized it. `intent`, `lease`: see there. `rotates`: the provider has replaced its refresh token at
    an earlier refresh. `previous` holds the refresh token before this one, which the
    provider still takes until `previous_until`.
    """

    ref: ConnectionRef
    id: int
    uid: str
    provider: str
    version: int
    credential: Sealed
    expires_at: datetime | None
    config: Mapping[str, Any] = field(default_factory=dict)
    secret_config: Sealed | None = None
    metadata: Mapping[str, Any] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    end_user: EndUser | None = None
    webhook_url_override: str | None = None
    failure: RefreshFailure | None = None
    state: State = State.ACTIVE
    state_reason: str | None = None
    state_since: datetime | None = None
    intent: Intent | None = None
    lease: Lease | None = None
    rotates: bool = False
    previous: Sealed | None = None
    previous_until: datetime | None = None
    granted_at: datetime | None = None
    life: Lifespan = Lifespan()
    account: Account = Account()
    refused_scopes: RefusedScopes | None = None
    created_at: datetime
    updated_at: datetime
    last_fetched_at: datetime | None = None
    last_refreshed_at: datetime | None = None

    @property
    def mark(self) -> Mark:
        return self.version, self.updated_at


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnection:
    """The connection to store. None leaves what an existing row holds; the credential is always replaced.

    `credential`: JSON as in docs/compatibility.md#credentials (``{"type": "OAUTH2", …}``); the store seals it.
    `ended`: it has ended already, and nothing refreshes it. `warning`: what its owner should know, a sentence or two.
    """

    ref: ConnectionRef
    provider: str
    credential: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None
    config: Mapping[str, Any] | None = None
    secret_config: Mapping[str, str] | None = field(default=None, repr=False)
    metadata: Mapping[str, Any] | None = None
    tags: Mapping[str, str] | None = None
    end_user: EndUser | None = None
    webhook_url_override: str | None = None
    life: Lifespan = Lifespan()
    account: Account = Account()
    ended: RefreshFailure | None = None
    warning: str | None = None


# ── What a connection that moves in brings along besides its credential: its dates and its state.

MOVED = "moved_in"  # the reason of the entry with which its history begins here


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """None: not known, so it is as storing it makes it. `state` None: active, whatever else is said."""

    created_at: datetime | None = None
    granted_at: datetime | None = None
    last_refreshed_at: datetime | None = None
    last_fetched_at: datetime | None = None
    state: State | None = None
    state_reason: str | None = None
    state_since: datetime | None = None
    failure: RefreshFailure | None = None
    life: Lifespan | None = None
