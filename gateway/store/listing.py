"""Which connections a list names, in which order, and where it goes on (api-contract 1.4)."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, Select, and_, or_, select

from gateway.errors import InvalidRequest, Issue
from gateway.records.access import Limits
from gateway.records.connection import Connection, EndUser
from gateway.store.tables import connection_tags, connections

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """All that is given must hold. `integration_ids` empty means any; `tags` keys count in lower case.

    `within`: the limits of whoever asks.
    `cursor` (from `cursor_after`) and `offset` both skip; a cursor stays right while connections come and go.
    """

    connection_id: str | None = None
    search: str | None = None
    end_user_id: str | None = None
    organization_id: str | None = None
    integration_ids: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    dies_before: datetime | None = None
    within: tuple[Limits, ...] = ()
    limit: int = 10_000
    offset: int = 0
    cursor: str | None = None


def cursor_after(connection: Connection) -> str:
    """An opaque text that stands for the place just after `connection`."""
    place = json.dumps([connection.created_at.isoformat(), connection.id]).encode()
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def search_text(connection_id: str, end_user: EndUser | None) -> str:
    """What `search` looks into, folded: connection id, the end user's display name and e-mail."""
    parts = [connection_id]
    if end_user is not None:
        parts += [end_user.display_name or "", end_user.email or ""]
    return SEPARATOR.join(parts).casefold()


def listed(environment: str, wanted: ListFilter) -> Select[Any]:
    """The rows of `connections`, newest first. Raises InvalidRequest for a cursor that is none of ours."""
    found = select(connections).where(connections.c.environment == environment, *_conditions(wanted))
    if wanted.cursor is not None:
        found = found.where(_after(wanted.cursor))
    in_order = found.order_by(connections.c.created_at.desc(), connections.c.id.desc())
    return in_order.limit(wanted.limit).offset(wanted.offset or None)


def _conditions(wanted: ListFilter) -> list[ColumnElement[bool]]:
    table = connections.c
    conditions: list[ColumnElement[bool]] = []
    if wanted.connection_id is not None:
        conditions.append(table.connection_id == wanted.connection_id)
    if wanted.end_user_id is not None:
        conditions.append(table.end_user_id == wanted.end_user_id)
    if wanted.organization_id is not None:
        conditions.append(table.organization_id == wanted.organization_id)
    if wanted.integration_ids:
        conditions.append(table.integration_id.in_(wanted.integration_ids))
    if wanted.dies_before is not None:
        conditions.append(table.dies_at < wanted.dies_before)
    if wanted.search:
        conditions.append(table.search_text.contains(wanted.search.casefold(), autoescape=True))
    conditions += [table.id.in_(_tagged(key.lower(), value)) for key, value in wanted.tags.items()]
    for limits in wanted.within:
        conditions += _reached(limits)
    return conditions


def _reached(limits: Limits) -> Iterator[ColumnElement[bool]]:
    """As `access.policy` decides for one connection."""
    table = connections.c
    if limits.integrations:
        yield table.integration_id.in_(limits.integrations)
    if limits.connections:
        named = [one.partition("/")[::2] for one in limits.connections]
        yield or_(
            *(
                and_(table.connection_id == connection_id, *([] if key == "*" else [table.integration_id == key]))
                for key, connection_id in named
            )
        )
    for key, value in limits.tags.items():
        yield table.id.in_(_tagged(key.lower(), value))


def _tagged(key: str, value: str) -> Select[Any]:
    tags = connection_tags.c
    return select(tags.connection).where(tags.key == key, tags.value == value)


def _after(cursor: str) -> ColumnElement[bool]:
    try:
        created_text, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        created_at = datetime.fromisoformat(created_text)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        _refuse_cursor()
    if created_at.tzinfo is None or type(row_id) is not int or not 0 <= row_id < 2**63:
        _refuse_cursor()
    table = connections.c
    # The first condition says nothing new, but it is the one that lets the index skip to the place.
    earlier = or_(table.created_at < created_at, table.id < row_id)
    return and_(table.created_at <= created_at, earlier)


def _refuse_cursor() -> NoReturn:
    message = "cursor is not one that this list gave: leave it out to begin at the start."
    raise InvalidRequest("invalid_query_params", message, errors=[Issue("invalid_string", message, ("cursor",))])
