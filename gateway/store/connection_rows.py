"""Converts rows of `connections`, with sealed secrets, to records and back. Builds the queries that list connections."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from sys import intern
from typing import Any, Final, NoReturn, TypeVar

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import InvalidRequest, Issue
from gateway.origin import parse_url
from gateway.records.access import KeyLimits
from gateway.records.connection import (
    Account,
    Connection,
    ConnectionRef,
    EndUser,
    Intent,
    Lease,
    Lifespan,
    NewConnection,
    RefreshFailure,
    RefusedScopes,
    Sealed,
)
from gateway.records.states import State
from gateway.store.data_keys import DataKeys
from gateway.store.tables import IN_TROUBLE, connection_tags, connections
from gateway.store.transactions import Transactions
from gateway.vault import Vault

# ── An end user as JSON in a column, for connections and sessions.


def end_user_to_json(end_user: EndUser | None) -> dict[str, Any] | None:
    if end_user is None:
        return None
    members = {field.name: getattr(end_user, field.name) for field in fields(end_user)}
    return {name: value for name, value in members.items() if value is not None}


def end_user_from_json(stored_json: Mapping[str, Any] | None) -> EndUser | None:
    return None if stored_json is None else EndUser(**stored_json)


# ── Lists of connections: filters, order and cursors (docs/compatibility.md#connections).

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """A filter for lists of connections. A connection must meet all given conditions.

    - `integration_ids`: empty for any integration
    - `tags`: tags that the connection must have; keys are compared in lower case
    - `dies_after`, `dies_before`: the credential expires between these times (`Lifespan.dies_at`)
    - `in_trouble`: only connections whose state is not active
    - `within`: the limits of the caller's key. `cursor` (from `cursor_after`) and `offset` both skip rows. A cursor
      stays correct if connections are added or removed between two pages.
    """

    connection_id: str | None = None
    search: str | None = None
    end_user_id: str | None = None
    organization_id: str | None = None
    integration_ids: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    dies_after: datetime | None = None
    dies_before: datetime | None = None
    in_trouble: bool = False
    within: tuple[KeyLimits, ...] = ()
    limit: int = 10_000
    offset: int = 0
    cursor: str | None = None


def cursor_after(connection: Connection) -> str:
    """Return an opaque cursor for the next page of a list. The next page begins after `connection`."""
    position = json.dumps([connection.created_at.isoformat(), connection.id]).encode()
    return base64.urlsafe_b64encode(position).decode().rstrip("=")


def search_text(connection_id: str, end_user: EndUser | None) -> str:
    """Return the case-folded text that `search` matches: connection id, end user's display name, end user's e-mail."""
    parts = [connection_id]
    if end_user is not None:
        parts += [end_user.display_name or "", end_user.email or ""]
    return SEPARATOR.join(parts).casefold()


def list_query(environment: str, filters: ListFilter) -> Select[Any]:
    """Return the query for the matching rows, newest first. Raises InvalidRequest for an invalid cursor."""
    query = select(connections).where(connections.c.environment == environment, *_conditions(filters))
    if filters.cursor is not None:
        query = query.where(_after_cursor(filters.cursor))
    in_order = query.order_by(connections.c.created_at.desc(), connections.c.id.desc())
    return in_order.limit(filters.limit).offset(filters.offset or None)


def _conditions(filters: ListFilter) -> list[ColumnElement[bool]]:
    table = connections.c
    conditions: list[ColumnElement[bool]] = []
    if filters.connection_id is not None:
        conditions.append(table.connection_id == filters.connection_id)
    if filters.end_user_id is not None:
        conditions.append(table.end_user_id == filters.end_user_id)
    if filters.organization_id is not None:
        conditions.append(table.organization_id == filters.organization_id)
    if filters.integration_ids:
        # The concatenation keeps SQLite from using the index by integration, with which it would read the whole
        # integration. Few connections are in trouble, and another index finds them.
        column = table.integration_id.concat("") if filters.in_trouble else table.integration_id
        conditions.append(column.in_(filters.integration_ids))
    if filters.dies_after is not None:
        conditions.append(table.dies_at > filters.dies_after)
    if filters.dies_before is not None:
        conditions.append(table.dies_at < filters.dies_before)
    if filters.in_trouble:
        # The condition must have exactly the text of the index. To a typed expression, SQLAlchemy would append `= 1`.
        conditions.append(literal_column(IN_TROUBLE.text))
    if filters.search:
        conditions.append(table.search_text.contains(filters.search.casefold(), autoescape=True))
    conditions += [table.id.in_(_connections_with_tag(key.lower(), value)) for key, value in filters.tags.items()]
    for limits in filters.within:
        conditions += _limit_conditions(limits)
    return conditions


def _limit_conditions(limits: KeyLimits) -> Iterator[ColumnElement[bool]]:
    """Yield the SQL conditions of `limits`.

    For every connection, these conditions and `access.key_policy` must come to the same decision.
    """
    table = connections.c
    if limits.integrations:
        yield table.integration_id.in_(limits.integrations)
    if limits.connections:
        named_connections = [connection.partition("/")[::2] for connection in limits.connections]
        yield or_(
            *(
                and_(table.connection_id == connection_id, *([] if key == "*" else [table.integration_id == key]))
                for key, connection_id in named_connections
            )
        )
    for key, value in limits.tags.items():
        yield table.id.in_(_connections_with_tag(key.lower(), value))


def _connections_with_tag(key: str, value: str) -> Select[Any]:
    tags = connection_tags.c
    return select(tags.connection).where(tags.key == key, tags.value == value)


def _after_cursor(cursor: str) -> ColumnElement[bool]:
    try:
        created_text, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        created_at = datetime.fromisoformat(created_text)
        is_aware, created_at = created_at.tzinfo is not None, created_at.astimezone(UTC)
    # OverflowError: the time is before year 1 in UTC
    except (binascii.Error, ValueError, TypeError, RecursionError, OverflowError):
        _refuse_cursor()
    if not is_aware or type(row_id) is not int or not 0 <= row_id < 2**63:
        _refuse_cursor()
    table = connections.c
    # The first condition lets the database begin at the right place in the index.
    earlier = or_(table.created_at < created_at, table.id < row_id)
    return and_(table.created_at <= created_at, earlier)


def _refuse_cursor() -> NoReturn:
    message = "Invalid cursor. Omit it to start at the first page."
    raise InvalidRequest("invalid_query_params", message, errors=[Issue("invalid_string", message, ("cursor",))])


NO_LEASE: Final[dict[str, Any]] = {"lease_owner": None, "lease_until": None}
FAILURE: Final = ("code", "message", "final", "at", "attempts", "retry_at")
NO_FAILURE: Final[dict[str, Any]] = {f"failure_{name}": None for name in FAILURE}
NO_INTENT: Final[dict[str, Any]] = {"intent_digest": None, "intent_at": None}
PREVIOUS_COLUMN: Final = "previous_refresh"
NO_PREVIOUS: Final[dict[str, Any]] = {
    PREVIOUS_COLUMN: None,
    f"{PREVIOUS_COLUMN}_version": None,
    f"{PREVIOUS_COLUMN}_until": None,
}


# Frequent statements are built only once, because building a statement costs more than running it.
MATCHES_REF: Final = and_(*(connections.c[name] == bindparam(f"at_{name}") for name in ConnectionRef._fields))
"""Matches the row of one connection. `ref_parameters` returns the parameters."""
SELECT_ROW: Final = select(connections).where(MATCHES_REF)


def ref_parameters(ref: ConnectionRef) -> dict[str, Any]:
    """Return the parameters of `MATCHES_REF`."""
    return {f"at_{name}": value for name, value in zip(ConnectionRef._fields, ref, strict=True)}


def matches_ref(ref: ConnectionRef) -> ColumnElement[bool]:
    """Return the condition that matches the row of `ref`."""
    return and_(*(connections.c[name] == value for name, value in ref._asdict().items()))


async def read_written(db: AsyncConnection, ref: ConnectionRef) -> Connection:
    """Return the row that this transaction has written. The row exists, because this transaction has locked it."""
    return connection_of((await db.execute(SELECT_ROW, ref_parameters(ref))).mappings().one())


async def index_tags(db: AsyncConnection, row_id: int, tags: Mapping[str, str]) -> None:
    """Replace the row's tags in the index of tags. Afterwards, a search finds the row by `tags` only."""
    await db.execute(delete(connection_tags).where(connection_tags.c.connection == row_id))
    rows = [{"connection": row_id, "key": key.lower(), "value": value} for key, value in tags.items()]
    if rows:
        await db.execute(insert(connection_tags), rows)


def life_columns(life: Lifespan) -> dict[str, Any]:
    return {"dies_at": life.dies_at, "keep_alive_at": life.keep_alive_at, "end_settled": life.settled or None}


def lease_columns(lease: Lease) -> dict[str, Any]:
    return {"lease_owner": lease.owner, "lease_until": lease.until}


def failure_columns(failure: RefreshFailure) -> dict[str, Any]:
    return {f"failure_{name}": getattr(failure, name) for name in FAILURE}


def unsealed_columns(new_connection: NewConnection) -> dict[str, Any]:
    """Return the unsealed columns that `new_connection` sets. A field of `new_connection` that is None keeps its stored value."""
    columns: dict[str, Any] = {
        "provider": new_connection.provider,
        "expires_at": new_connection.expires_at,
        **life_columns(new_connection.life),
    }
    columns |= {"account_id": new_connection.account.id, "account_label": new_connection.account.label}
    for name in ("config", "metadata", "webhook_url_override"):
        if getattr(new_connection, name) is not None:
            columns[name] = getattr(new_connection, name)
    if new_connection.config is not None:
        columns["site_origin"] = site_origin(new_connection.config)
    if new_connection.tags is not None:
        columns["tags"] = {key.lower(): value for key, value in new_connection.tags.items()}
    if new_connection.end_user is not None:
        columns |= end_user_columns(new_connection.ref, new_connection.end_user)
    return columns


def site_origin(config: Mapping[str, Any]) -> str | None:
    """Return scheme, host and port of the connection's site.

    The gateway uses this origin to find the connections that a webhook belongs to.
    """
    url = config.get("baseUrl")
    try:
        return parse_url(url).origin if isinstance(url, str) else None
    except ValueError:
        return None


def end_user_columns(ref: ConnectionRef, user: EndUser) -> dict[str, Any]:
    return {
        "end_user": end_user_to_json(user),
        "end_user_id": user.id,
        "organization_id": user.organization_id,
        "search_text": search_text(ref.connection_id, user),
    }


T = TypeVar("T")
EMPTY_MAPPING: Final[dict[str, Any]] = {}  # shared by all records and never changed
NO_EXPIRY: Final = Lifespan()
NO_ACCOUNT: Final = Account()
_TIMES: Final = ("state_since", "granted_at", "created_at", "updated_at", "last_fetched_at", "last_refreshed_at")


def connection_of(row: RowMapping | Mapping[str, Any]) -> Connection:
    """Return the record of a whole row. Each ciphertext in the record carries the place that it is bound to.

    Equal values share one object, because a process can have a million records in memory.
    """
    ref = ConnectionRef(intern(row["environment"]), intern(row["integration_id"]), row["connection_id"])
    times: dict[Any, Any] = {}
    # most times of a row are equal, so equal times share one object
    times_by_name = {name: times.setdefault(row[name], row[name]) for name in _TIMES}
    return Connection(
        ref=ref,
        id=row["id"],
        uid=row["uid"],
        provider=intern(row["provider"]),
        version=row["version"],
        credential=_sealed_value(row, "credential", row["version"], ref),
        expires_at=row["expires_at"],
        config=row["config"] or EMPTY_MAPPING,
        secret_config=None
        if row["secret_config"] is None
        else _sealed_value(row, "secret_config", row["secret_config_version"], ref),
        metadata=row["metadata"],
        tags=row["tags"] or EMPTY_MAPPING,
        end_user=end_user_from_json(row["end_user"]),
        webhook_url_override=row["webhook_url_override"],
        failure=_failure(row),
        state=State(row["state"]),
        state_reason=None if row["state_reason"] is None else intern(row["state_reason"]),
        state_since=times_by_name["state_since"],
        intent=None if row["intent_digest"] is None else Intent(row["intent_digest"], row["intent_at"]),
        lease=None if row["lease_until"] is None else Lease(row["lease_owner"] or "", row["lease_until"]),
        rotates=bool(row["rotates"]),
        previous=None
        if row[PREVIOUS_COLUMN] is None
        else _sealed_value(row, PREVIOUS_COLUMN, row[f"{PREVIOUS_COLUMN}_version"], ref),
        previous_until=row[f"{PREVIOUS_COLUMN}_until"],
        granted_at=times_by_name["granted_at"],
        life=_shared_if_equal(Lifespan(row["dies_at"], row["keep_alive_at"], bool(row["end_settled"])), NO_EXPIRY),
        account=_shared_if_equal(Account(row["account_id"], row["account_label"]), NO_ACCOUNT),
        refused_scopes=_refused_scopes(row["refused_scopes"]),
        created_at=times_by_name["created_at"],
        updated_at=times_by_name["updated_at"],
        last_fetched_at=times_by_name["last_fetched_at"],
        last_refreshed_at=times_by_name["last_refreshed_at"],
    )


def _shared_if_equal(value: T, shared: T) -> T:
    return shared if value == shared else value


def sealed_values(connection: Connection) -> list[Sealed]:
    """Return the connection's sealed values."""
    return [
        sealed
        for sealed in (connection.credential, connection.secret_config, connection.previous)
        if sealed is not None
    ]


def _sealed_value(row: RowMapping | Mapping[str, Any], column: str, version: int, ref: ConnectionRef) -> Sealed:
    return Sealed(row[column], ref.environment, "connections", row["uid"], column, version, ref)


def refused_scopes_json(refused: RefusedScopes) -> dict[str, Any]:
    return {"scopes": list(refused.scopes), "at": refused.at.isoformat(), "path": refused.path}


def _refused_scopes(stored_json: Mapping[str, Any] | None) -> RefusedScopes | None:
    if stored_json is None:
        return None
    return RefusedScopes(tuple(stored_json["scopes"]), datetime.fromisoformat(stored_json["at"]), stored_json["path"])


def _failure(row: RowMapping | Mapping[str, Any]) -> RefreshFailure | None:
    if row["failure_code"] is None:
        return None
    return RefreshFailure(**{name: row[f"failure_{name}"] for name in FAILURE})


# ── Rows of connections with sealed secrets, for `ConnectionStore` and `RefreshStore`.


class SealedRows:
    """Reads and seals rows of connections.

    The data keys of every returned row are loaded, so that `Store.open` needs no query.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self.transactions = transactions
        self.vault = vault
        self.keys = keys

    async def records(self, rows: Iterable[RowMapping | Mapping[str, Any]]) -> list[Connection]:
        """Return the connections in `rows`, with their data keys loaded."""
        stored = [connection_of(row) for row in rows]
        await self.load_keys_of(stored)
        return stored

    async def load_keys_of(self, stored: Iterable[Connection]) -> None:
        """Load the data keys of these connections."""
        await self.keys.load_keys_of(*(sealed for connection in stored for sealed in sealed_values(connection)))

    def seal(self, value: Mapping[str, Any], ref: ConnectionRef, uid: str, column: str, version: int) -> bytes:
        """Return the ciphertext of `value`, bound to this column and version of the row."""
        sealed = self.vault.seal_json(
            value, environment=ref.environment, table="connections", row=uid, column=column, version=version
        )
        return sealed.ciphertext

    async def update(self, statement: Update) -> bool:
        """Execute the update. Return whether it changed one row."""

        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self.transactions.write(write)
