"""The records of the audit trail: the actions, who acted, one record, and its canonical bytes (docs/audit.md)."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, Self

from gateway import clock
from gateway.observe.masking import masked, masked_text
from gateway.records.operation import current_request_id

MAX_DETAIL_CHARS: Final = 4000  # characters of a record's `detail` as JSON
MAX_TEXT_CHARS: Final = 500  # characters of each text in `detail`


class AuditAction(StrEnum):
    """The actions that the audit trail records. Records, filters and exports show the value."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    CREDENTIAL_READ = "credential.read", "a connection's credential was returned by the API"
    CLIENT_SECRET_READ = "client_secret.read", "an integration's client secret was returned by the API"
    KEY_CREATED = "key.created", "a secret key or capability was minted, with the scopes and limits in `detail`"
    KEY_FIRST_USED = "key.first_used", "a minted key was used for the first time"
    KEY_REVOKED = "key.revoked", "a minted key was revoked: one record for it and for each key that it had minted"
    CONNECTION_CREATED = "connection.created", "an end user connected"
    CONNECTION_RECONNECTED = "connection.reconnected", "an end user authorized an existing connection again"
    CONNECTION_IMPORTED = (
        "connection.imported",
        "a credential was imported through the API, from a file or from a bundle",
    )
    CONNECTION_CHANGED = (
        "connection.changed",
        "metadata, tags, end user or webhook URL were changed; `detail` names which",
    )
    CONNECTION_DELETED = "connection.deleted", "a connection was deleted"
    CONNECTION_EXPORTED = "connection.exported", "a connection was written to a file, credential included"
    CONNECTION_REFRESHED = "connection.refreshed", "a refresh of a token succeeded or failed (`audit.refreshes`)"
    INTEGRATION_CREATED = "integration.created", "an integration was made through the API"
    INTEGRATION_CHANGED = "integration.changed", "an integration made through the API was changed"
    INTEGRATION_DELETED = "integration.deleted", "an integration made through the API was deleted"
    EVENTS_REPLAYED = "events.replayed", "an operator sent events again"
    EVENT_KEY_ROTATED = "event_key.rotated", "the key that signs events was replaced"
    ENCRYPTION_KEYS_ROTATED = "encryption_keys.rotated", "values were sealed again under the first encryption key"
    CONFIGURATION_LOADED = "configuration.loaded", "a changed gateway.yaml took effect; `detail` has its SHA-256 digest"
    CONNECT_LINK_CREATED = (
        "connect_link.created",
        "an operator made a connect link at the console; `detail` has the session that it opens",
    )
    OPERATOR_SIGNED_IN = "operator.signed_in", "somebody used a link of `gateway console`; `detail` has the role"
    OPERATOR_SIGNED_OUT = (
        "operator.signed_out",
        (
            "somebody signed out of the console (`detail` has the role), or `gateway console --sign-out-all` ended all "
            "sessions and unused links (`detail` has their number)"
        ),
    )
    STORE_BACKED_UP = "store.backed_up", "`gateway backup` copied the database; `detail` has the file"
    STORE_RESTORED = (
        "store.restored",
        "`gateway restore` put a backup in place; `detail` has its file and time, and what it changed",
    )
    AUDIT_KEY_CREATED = "audit_key.created", "the key that signs checkpoints was made or replaced"
    AUDIT_PRUNED = "audit.pruned", "records older than `audit.keep_days` were removed; `detail` says up to which one"
    PERSON_FORGOTTEN = (
        "person.forgotten",
        "an end user's audit key was deleted: nobody can find out any more to whom the digest belongs",
    )


ActorKind = Literal["key", "configured_key", "session", "browser", "operator", "system"]


@dataclass(frozen=True, slots=True)
class AuditActor:
    """The actor of an audit record.

    ``key``: a minted key; `parents` has the ids of the key that minted it, of the key that minted that key, and so on.
    ``configured_key``: a key of gateway.yaml. ``session``: an end user in a connect session; `session` has the first 16
    hex digits of the digest of the session's token, and `key_id` the id of the minted key that created the session.
    ``browser``: an end user's browser without a known connect session. ``operator``: a command; `name` is the user of
    the operating system, `command` the command line. ``system``: the gateway itself.

    `address`: the client's network address, if known.
    """

    kind: ActorKind
    key_id: int | None = None
    name: str = ""
    parents: tuple[int, ...] = ()
    session: str = ""
    command: str = ""
    address: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the actor without `address`, which is a separate member of the record."""
        members = {
            "kind": self.kind,
            "key_id": self.key_id,
            "name": self.name,
            "parents": list(self.parents),
            "session": self.session,
            "command": self.command,
        }
        return {name: value for name, value in members.items() if value not in (None, "", [])}


SYSTEM: Final = AuditActor("system")
current_actor: ContextVar[AuditActor] = ContextVar("current_actor", default=SYSTEM)
"""The current actor. A request to the API and a command set this variable; otherwise the actor is the gateway
itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A record before it gets its place in the hash chain. `of` creates a record with the current actor.

    - `key_id`: id of the minted key that the action concerns
    - `outcome`: ``ok`` or ``failed``
    - `end_user`: a keyed digest of the end user's id, never the id itself
    - `environment`: empty: the record concerns the whole store
    """

    action: AuditAction
    at: datetime
    actor: AuditActor
    environment: str = ""
    integration_id: str = ""
    connection_id: str = ""
    key_id: int | None = None
    outcome: str = "ok"
    end_user: str = ""
    request_id: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, action: AuditAction, environment: str = "", at: datetime | None = None, **members: Any) -> "AuditEntry":
        """Return an entry with the actor in `current_actor` and the current request's id. `at` None: the current
        time."""
        return cls(
            action=action,
            at=at or clock.now(),
            actor=current_actor.get(),
            environment=environment,
            request_id=current_request_id.get(),
            **members,
        )

    def with_session(self, session_digest: str, key_id: int | None) -> "AuditEntry":
        """Return a copy of this entry with an end user as its actor. `session_digest`: digest of the token of the end
        user's connect session. `key_id`: the minted key that created the session."""
        actor = replace(self.actor, kind="session", session=session_digest[:16], key_id=key_id)
        return replace(self, actor=actor)

    def body(self) -> str:
        """Return the canonical text of the record, which is stored, hashed and exported: JSON in ASCII, members sorted,
        no spaces, without empty members."""
        target = {
            "integration": self.integration_id,
            "connection": self.connection_id,
            "key_id": self.key_id,
        }
        members = {
            "action": str(self.action),
            "actor": self.actor.as_json(),
            "address": self.actor.address,
            "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "detail": safe_detail(self.detail),
            "end_user": self.end_user,
            "environment": self.environment,
            "object": {name: value for name, value in target.items() if value not in (None, "")},
            "outcome": self.outcome,
            "request_id": self.request_id,
        }
        return canonical_json({name: value for name, value in members.items() if value not in (None, "", {})})


def canonical_json(value: Any) -> str:
    """Return the canonical text of a value, the same on every machine: JSON in ASCII, members sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def safe_detail(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return `detail` with masked secrets and shortened texts. If `detail` is still too long, return only the names of
    its members."""
    length = 0  # of the masked texts so far; above the limit, no text is shown, so no further text is masked

    def shorten(value: Any) -> Any:
        nonlocal length
        if isinstance(value, str):
            text = masked_text(value[:MAX_TEXT_CHARS]) if length <= MAX_DETAIL_CHARS else ""
            length += len(text)
            return text
        if isinstance(value, Mapping):
            return {str(name): shorten(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [shorten(inner) for inner in value]
        return value if isinstance(value, int | float | bool) or value is None else str(value)[:MAX_TEXT_CHARS]

    masked_detail: dict[str, Any] = shorten(masked(dict(detail)))
    if length > MAX_DETAIL_CHARS or len(canonical_json(masked_detail)) > MAX_DETAIL_CHARS:
        return {"too_long": sorted(masked_detail)[:50]}
    return masked_detail


class AuditColumns(NamedTuple):
    """The columns for searches of the audit trail, copied from a record's body. `key_id`: the `key_id` of the
    actor."""

    at: datetime
    environment: str
    action: str
    key_id: int | None
    integration_id: str
    connection_id: str
    end_user: str


def columns_of(body: str) -> AuditColumns:
    """Return the columns of `body`. Raises ValueError if `body` is not a record of the audit trail, for example because
    somebody edited the text."""
    try:
        members = json.loads(body)
        actor, target = members.get("actor", {}), members.get("object", {})
        columns = AuditColumns(
            datetime.fromisoformat(members["at"]),
            members.get("environment", ""),
            members["action"],
            actor.get("key_id"),
            target.get("integration", ""),
            target.get("connection", ""),
            members.get("end_user", ""),
        )
        texts = columns.environment + columns.action + columns.integration_id + columns.connection_id + columns.end_user
    except (KeyError, AttributeError, TypeError, RecursionError) as fault:
        raise ValueError("not a record of the audit") from fault
    key_id = columns.key_id
    if columns.at.tzinfo is None or b"\0" in texts.encode():
        raise ValueError("not a record of the audit")
    if key_id is not None and (type(key_id) is not int or not 0 <= key_id < 2**63):
        raise ValueError("not a record of the audit")
    return columns


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A search in the audit trail; None or empty matches anything.

    - `environment`: None: all environments, and records that concern the whole store
    - `since`, `until`: the time range, from `since` up to but not including `until`
    - `key_ids`: only actions of these minted keys and of the connect sessions that they created; empty: of any actor
    - `end_user_id`: the application's id of the end user. The id of an end user that `gateway audit forget` has removed
      matches nothing.
    - `before`, `after`: only records with a lower or a higher sequence number
    """

    environment: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    action: str | None = None
    key_ids: frozenset[int] = frozenset()
    integration_id: str | None = None
    connection_id: str | None = None
    end_user_id: str | None = None
    before: int | None = None
    after: int | None = None
    limit: int = 100


class ChainedRecord(NamedTuple):
    """A record in the hash chain. `hash`: 64 hex digits, computed from the previous record's hash, the sequence number
    and `body`."""

    sequence: int
    hash: str
    columns: AuditColumns
    body: str

    def as_json(self) -> dict[str, Any]:
        """Return the record as the API and the export show it."""
        members: dict[str, Any] = json.loads(self.body)
        return {"sequence": self.sequence, "hash": self.hash, **members}


class CredentialUseRef(NamedTuple):
    """A connection, and a key that calls with the connection's credential. `key_id`: id of the minted key; 0: a key of
    gateway.yaml."""

    environment: str
    integration_id: str
    connection_id: str
    key_id: int


class CredentialUseCount(NamedTuple):
    """How often a credential was used in the hour that starts at `hour`. `calls`: the number of proxied calls.
    `failed`: the number of these calls with an error or a status of 400 or above."""

    hour: datetime
    use: CredentialUseRef
    calls: int
    failed: int


@dataclass(frozen=True, slots=True)
class CredentialUseFilter:
    """A search for uses of credentials. It covers whole hours: every hour that overlaps the time from `since` up to but
    not including `until`.

    `key_ids`: only uses with these keys; empty: uses with any key.
    """

    environment: str
    since: datetime
    until: datetime
    key_ids: frozenset[int] = frozenset()
    integration_id: str | None = None
    connection_id: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class CredentialUsePage:
    """A page of uses of credentials.

    - `uses`: the calls and failed calls for each pair of connection and key, the most used first
    - `calls`, `failed`: totals of all matching uses, also of uses that `limit` leaves out
    - `connections`: the number of all matching pairs
    """

    uses: list[tuple[CredentialUseRef, int, int]]
    calls: int
    failed: int
    connections: int
