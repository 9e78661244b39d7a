"""Connections and their metadata."""

from typing import Any, Literal

from pydantic import RootModel

from gateway.openapi.answers.common import EndUser
from gateway.openapi.answers.diagnosis import Change, Diagnosis
from gateway.openapi.answers.errors import Issue
from gateway.openapi.answers.model import Absent, Answer, Moment


class Trouble(Answer):
    type: Literal["auth", "sync"]
    log_id: str


class Account(Answer):
    """Who authorized, in the provider's words, as far as it tells."""

    id: str | None
    label: str | None


class _Connection(Answer):
    id: int
    connection_id: str
    provider_config_key: str
    """The integration's key."""
    provider: str
    state: Literal["active", "degraded", "needs_reauth", "incomplete", "revoked"]
    dies_at: Moment | None
    """When the refresh token ends if nothing is done."""
    keep_alive_at: Moment | None
    """When it is refreshed to prevent that."""
    account: Account | None
    errors: list[Trouble]
    """Trouble that has not passed: the last refresh failed."""
    end_user: EndUser | None
    tags: dict[str, str]
    metadata: dict[str, Any] | None


class ListedConnection(_Connection):
    """One row of the list: never a credential, never a setting."""

    created: Moment


class ConnectionList(Answer):
    connections: list[ListedConnection]
    next_cursor: str | Absent = None
    """Stands for the place where the list goes on; absent at its end."""


class Connection(_Connection):
    """The whole connection. `credentials` is the object of its auth mode, without refresh tokens unless asked for."""

    connection_config: dict[str, Any]
    webhook_url_override: str | None
    created_at: Moment
    updated_at: Moment
    last_fetched_at: Moment | None
    credentials: dict[str, Any]
    history: list[Change] | Absent = None
    """With include=history."""
    diagnosis: Diagnosis | Absent = None
    """With include=history."""
    warnings: list[Issue] | Absent = None
    """What is odd about an import, and was taken all the same."""


class Metadata(RootModel[dict[str, Any]]):
    """Any JSON object."""


class MetadataOf(Answer):
    """What was sent."""

    connection_id: str | list[str]
    provider_config_key: str
    metadata: dict[str, Any]
