"""A connection: one end user's authorized link to one integration. Also its ids, its lease, and the history of an
imported connection."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from gateway.records.states import State


class ConnectionRef(NamedTuple):
    """The reference that identifies a connection. The class is a tuple, because tuples hash fast and every request
    needs the hash."""

    environment: str
    integration_id: str
    connection_id: str


def log_fields(ref: ConnectionRef) -> dict[str, str]:
    """Return the fields that name the connection in a log line."""
    return {"environment": ref.environment, "integration": ref.integration_id, "connection_id": ref.connection_id}


# ── The characters of integration and connection ids.

# OpenAPI publishes these patterns. So they must be valid in ECMA-262 with the flag `u`, in which a backslash before a
# quote is a syntax error.
CONNECTION_ID: Final = r"""^[a-zA-Z0-9,.;:=+~\[\]|@${}"'\\/_ -]+$"""
PROVIDER_CONFIG_KEY: Final = r"^[a-zA-Z0-9~:.@ _-]+$"
_PUNCTUATION: Final = {CONNECTION_ID: ",.;:=+~[]|@${}\"'\\/_-", PROVIDER_CONFIG_KEY: "~:.@_-"}
_COMPILED: Final = {pattern: re.compile(pattern.removesuffix("$")) for pattern in _PUNCTUATION}
_LETTERS_DIGITS_SPACE: Final = string.ascii_letters + string.digits + " "


def id_fault(text: str, pattern: str) -> str | None:
    """Return why `text` does not match `pattern`, for example ``contains 'ü'; allowed are …``; None if `text` matches.

    `pattern`: CONNECTION_ID or PROVIDER_CONFIG_KEY.
    """
    if _COMPILED[pattern].fullmatch(text):
        return None
    punctuation = _PUNCTUATION[pattern]
    invalid_character = next((char for char in text if char not in _LETTERS_DIGITS_SPACE + punctuation), None)
    if invalid_character is None:
        return "is empty"
    character_text = f"'{invalid_character}'" if invalid_character.isprintable() else f"U+{ord(invalid_character):04X}"
    return f"contains {character_text}; allowed are A-Z a-z 0-9, spaces and {' '.join(punctuation)}"


# ── The parts of a connection.

Mark: TypeAlias = tuple[int, datetime]
"""Version and time of a row's last change. If a row has a different mark than before, the row has changed."""


@dataclass(frozen=True, slots=True)
class EndUser:
    """The end user of a connection, as the application describes the user (docs/compatibility.md#identifiers)."""

    id: str
    email: str | None = None
    display_name: str | None = None
    tags: Mapping[str, str] | None = None
    organization_id: str | None = None
    organization_display_name: str | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ciphertext and the place to which it is bound. The ciphertext can be decrypted only for this place.

    `connection`: the connection to which the ciphertext belongs, for messages.
    """

    ciphertext: bytes
    environment: str
    table: str
    row: str
    column: str
    version: int
    connection: ConnectionRef | None = field(default=None, compare=False)

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
    """A mark that a refresh token may have been sent and that the result is unknown. `digest`: digest of that refresh
    token."""

    digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to refresh the credential. `owner`: the attempt that has the right (`store.cluster`). `until`: when the
    right ends, by the database's clock."""

    owner: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Lifespan:
    """The time for which a connection's credential stays usable.

    - `dies_at`: when the refresh token expires if it is not used; without a refresh token, when the access token
      expires; None: no known limit
    - `keep_alive_at`: when the gateway refreshes the token to prevent its expiry; None: not planned
    - `settled`: nothing needs to be done when the access token expires, because a later refresh is still possible, or
      because the end of the credential is already recorded
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
    """Missing scopes that the provider's API reported with 403 after the last authorization of the connection. `at`,
    `path`: time and path of the last refused call; the path is below the base URL and has no query."""

    scopes: tuple[str, ...]
    at: datetime
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection as the store returns it. The credential stays sealed until `vault` decrypts it.

    - `id`: the connection's number in lists
    - `uid`: the identity of the row, to which its ciphertexts are bound
    - `version`: number of the current credential; a write of a new credential must name the version that it replaces
    - `config`: plain settings (``cloudId`` …)
    - `secret_config`: the settings that the catalog marks as secret
    - `granted_at`: when the end user last authorized the connection
    - `rotates`: whether the provider replaced the refresh token at an earlier refresh
    - `previous`: the previous refresh token, which the provider accepts until `previous_until`
    - `intent`: set if a refresh token may have been sent with unknown result
    - `lease`: the current right to refresh the credential, if any
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

    @property
    def refreshed_at(self) -> datetime | None:
        """When the credential was last refreshed; None if it is still the credential that was granted or imported.

        `last_refreshed_at` is then the time at which the credential was stored.
        """
        return None if self.last_refreshed_at == self.granted_at else self.last_refreshed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnection:
    """A connection to store. If the connection exists, a member that is None leaves the existing value unchanged; the
    credential is always replaced.

    - `credential`: JSON as in docs/compatibility.md#credentials (``{"type": "OAUTH2", …}``); the store seals it
    - `ended`: the failure with which the connection has already ended, if nothing can refresh the credential
    - `warning`: one or two sentences for the owner of the connection
    - `integration_uid`: identity of the integration's row, if the integration was created through the API; if this row
      no longer exists, the connection is not stored
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


# ── The history of an imported connection: its dates and its state before the import.

MOVED_IN = "moved_in"  # reason of the first history entry of an imported connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHistory:
    """Dates and state of a connection before its import. A member that is None is unknown, so the import sets the
    value. `state` None: active."""

    created_at: datetime | None = None
    granted_at: datetime | None = None
    last_refreshed_at: datetime | None = None
    last_fetched_at: datetime | None = None
    state: State | None = None
    state_reason: str | None = None
    state_since: datetime | None = None
    failure: RefreshFailure | None = None
    life: Lifespan | None = None
