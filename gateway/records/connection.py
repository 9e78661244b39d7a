"""A connection: one end user's authorized link to one integration; its lease, and the past of an imported
connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from gateway.records.states import State


class ConnectionRef(NamedTuple):
    """The reference that identifies a connection. A tuple, since the hot path hashes it for every request."""

    environment: str
    integration_id: str
    connection_id: str


Mark: TypeAlias = tuple[int, datetime]
"""Version and time of the last change: a row with another mark has changed."""


@dataclass(frozen=True, slots=True)
class EndUser:
    """The end user of a connection, as the customer describes it (docs/compatibility.md#identifiers)."""

    id: str
    email: str | None = None
    display_name: str | None = None
    tags: Mapping[str, str] | None = None
    organization_id: str | None = None
    organization_display_name: str | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ciphertext with the place that it is bound to: it can be opened only at this place.

    `of`: the connection that it belongs to, for messages.
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
    """The failure of the last refresh. `final`: the provider refused permanently (RFC 6749 §5.2); no retry follows."""

    code: str
    message: str
    final: bool
    at: datetime
    attempts: int
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A mark that a refresh token may have been sent, with unknown result. `digest` names that token."""

    digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to refresh the credential, until a time by the database's clock. `owner` names one attempt
    (`store.cluster`)."""

    owner: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Lifespan:
    """The lifespan of a refresh credential.

    `dies_at`: when the refresh token expires if it is not used; without a refresh token, when the access token expires.
    `keep_alive_at`: when the gateway refreshes the token to prevent that. `settled`: nothing needs to be done when the
    access token expires, because it can be refreshed later, or because its end is already recorded.
    """

    dies_at: datetime | None = None
    keep_alive_at: datetime | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """The account that authorized, as reported by the provider. `id` never changes for one account; `label` is for
    people."""

    id: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedScopes:
    """Scopes that the provider's API required, with 403, since the connection was last authorized. `path`: the path of
    the last refused call, below the base URL and without its query.
    """

    scopes: tuple[str, ...]
    at: datetime
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A row as the store returns it; the credential stays sealed until `vault` opens it.

    `id`: its number in lists. `uid`: the row's own identity, to which its ciphertexts are bound. `version` counts its
    credentials: a write of a new one must name the version it replaces. `config`: plain settings (``cloudId`` …);
    `secret_config`: those that the catalog marks as secret. `granted_at`: when the end user last authorized it.
    `rotates`: the provider replaced the refresh token at an earlier refresh. `previous`: the refresh token before this
    one, which the provider accepts until `previous_until`. `intent`, `lease`: see their classes.
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
    """A connection to store. A member that is None keeps the value of an existing row; the credential is always
    replaced.

    `credential`: JSON as in docs/compatibility.md#credentials (``{"type": "OAUTH2", …}``); the store seals it. `ended`:
    why the connection has already ended, if nothing can refresh it. `warning`: one or two sentences for its owner.
    `integration_uid`: the row of an integration that was created through the API; without it, nothing is stored.
    """

    ref: ConnectionRef
    provider: str
    credential: Mapping[str, Any] = field(repr=False)
    expires_at: datetime | None
    integration_uid: str | None = None
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


# ── The past of an imported connection: its dates and its state.

MOVED_IN = "moved_in"  # reason of the first history entry of an imported connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHistory:
    """Dates and state of a connection before its import. None: unknown, so the import sets the value. `state` None:
    active."""

    created_at: datetime | None = None
    granted_at: datetime | None = None
    last_refreshed_at: datetime | None = None
    last_fetched_at: datetime | None = None
    state: State | None = None
    state_reason: str | None = None
    state_since: datetime | None = None
    failure: RefreshFailure | None = None
    life: Lifespan | None = None
