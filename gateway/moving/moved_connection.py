"""Defines a connection that is imported from any source: as a record, as a JSON object, and the outcome of its import."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict

from gateway.api.connection_json import full_connection_json
from gateway.api.request_body import Strict, check_levels, validated
from gateway.api.shapes import (
    ConnectionId,
    EndUserBody,
    OrganizationBody,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    end_user,
    replacing_tags,
)
from gateway.http.json_depth import MAX_STORED_LEVELS, prune
from gateway.records.connection import Connection, EndUser, ImportedHistory, Lifespan, RefreshFailure
from gateway.records.states import State
from gateway.store import Store
from gateway.timestamps import iso

# ── A connection that is imported, from any source, and the outcome of its import.


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedConnection:
    """A connection that is imported.

    - `provider`: the name of the connection's catalog entry in the source; None if unknown
    - `past`: the history of the connection in the source
    - `from_bundle`: whether ``gateway connections export`` wrote the connection, so that credential and settings need
      no conversion
    - `from_api`: whether the connection comes from another gateway's API, which returns more members of a credential
      than an auth mode accepts
    - `line`: the line number in the source file; None if unknown
    """

    integration_id: str
    connection_id: str | None
    credentials: Mapping[str, Any] = field(repr=False)
    provider: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] | None = None
    tags: Mapping[str, str] | None = None
    end_user: EndUser | None = None
    webhook_url_override: str | None = None
    past: ImportedHistory = field(default_factory=ImportedHistory)
    from_bundle: bool = False
    from_api: bool = False
    line: int | None = None


class ImportResult(StrEnum):
    """The result of an import. After ``refused``, a retry gives the same result. After ``failed``, a retry can help."""

    IMPORTED = "imported"
    REPLACED = "replaced"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """The outcome of one connection's import.

    - `reason`: a code for programs
    - `detail`: a text for people. Both can be empty, and neither contains a secret.
    - `renewed`: the result of the test refresh; None if there was none
    - `notes`: the changes that the import made to the connection
    """

    integration_id: str
    connection_id: str
    result: ImportResult
    reason: str = ""
    detail: str = ""
    renewed: str | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        body = {
            "integration": self.integration_id,
            "connection_id": self.connection_id,
            "result": self.result.value,
            "reason": self.reason,
            "detail": self.detail,
            "renewed": self.renewed,
            "notes": list(self.notes),
        }
        return {name: value for name, value in body.items() if value not in ("", None, [])}


class UnusableConnection(Exception):
    """The source does not provide this connection in a usable form. `can_retry`: whether a retry can help."""

    def __init__(
        self, integration_id: str, connection_id: str, reason: str, detail: str, *, can_retry: bool = False
    ) -> None:
        super().__init__(detail)
        self.outcome = ImportOutcome(
            integration_id=integration_id,
            connection_id=connection_id,
            result=ImportResult.FAILED if can_retry else ImportResult.REFUSED,
            reason=reason,
            detail=detail,
        )


class SourceRefused(Exception):
    """The whole source cannot be read, for example because of a wrong key or a truncated bundle.

    The text says what to do.
    """


# ── A connection as JSON, which is the body of ``POST /connections``. Exports of this gateway add the provider and the
# history of the connection.

FLAT_NAMES: Final = {"api_key": "apiKey"}  # old clients use another name for this member of a credential
CONNECTION_MEMBERS: Final = frozenset(
    {
        "provider_config_key",
        "connection_id",
        "provider",
        "connection_config",
        "metadata",
        "webhook_url_override",
        "end_user",
        "tags",
        "past",
    }
)


class FailureBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: str
    message: str
    final: bool
    at: AwareDatetime
    attempts: int
    retry_at: AwareDatetime | None = None


class PastBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    created_at: AwareDatetime | None = None
    granted_at: AwareDatetime | None = None
    last_refreshed_at: AwareDatetime | None = None
    last_fetched_at: AwareDatetime | None = None
    state: State | None = None
    state_reason: str | None = None
    state_since: AwareDatetime | None = None
    failure: FailureBody | None = None
    dies_at: AwareDatetime | None = None
    keep_alive_at: AwareDatetime | None = None


class MovedEndUser(EndUserBody):
    organization: OrganizationBody | None = None


class MovedBody(Strict):
    """The JSON of an imported connection.

    Only ``gateway connections export`` writes `past`. The credential and the settings of such a connection need no
    conversion.
    """

    provider_config_key: ProviderConfigKey
    credentials: dict[str, Any]
    connection_id: ConnectionId | None = None
    provider: str | None = None
    connection_config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    webhook_url_override: WebhookUrl | None = None
    end_user: MovedEndUser | None = None
    tags: Tags | None = None
    past: PastBody | None = None


def parse_connection(value: Any, *, default_integration: str | None = None) -> MovedConnection:
    """Return the connection that a JSON object describes. Raises InvalidRequest with every fault.

    `default_integration`: the key of the integration if the object names none.
    """
    if isinstance(value, dict):
        if default_integration is not None:
            value = {"provider_config_key": default_integration, **value}
        if "credentials" not in value:
            value = _nested_form(value)
        if "past" in value:
            value = prune(value, MAX_STORED_LEVELS)  # earlier versions could store values with more levels
        else:
            check_levels(value)
    body = validated(value, MovedBody, "invalid_body")
    user = end_user(body.end_user, body.end_user.organization if body.end_user else None)
    tags = body.tags if body.past else replacing_tags(user, body.tags)
    return MovedConnection(
        integration_id=body.provider_config_key,
        connection_id=body.connection_id,
        credentials=body.credentials,
        provider=body.provider,
        config=body.connection_config or {},
        metadata=body.metadata,
        tags=tags,
        end_user=user,
        webhook_url_override=body.webhook_url_override,
        past=_history_before_import(body.past) if body.past else ImportedHistory(),
        from_bundle=body.past is not None,
    )


def body_of(store: Store, connection: Connection) -> dict[str, Any]:
    """Return a whole connection as JSON, with its credential in plain text.

    Raises VaultError if the credential cannot be decrypted.
    """
    body = full_connection_json(store, connection, with_refresh_token=True, times_in_z=True)
    own_members = {
        "provider_config_key": connection.ref.integration_id,
        "connection_id": connection.ref.connection_id,
        "provider": connection.provider,
        "credentials": {"type": "NONE"} | body["credentials"],
        "connection_config": body["connection_config"],
        "metadata": connection.metadata,
        "tags": dict(connection.tags),
        "end_user": body["end_user"],
        "webhook_url_override": connection.webhook_url_override,
    }
    return {name: value for name, value in own_members.items() if value is not None} | {"past": _past_json(connection)}


def _past_json(connection: Connection) -> dict[str, Any]:
    failure = connection.failure
    moments = {
        "created_at": connection.created_at,
        "granted_at": connection.granted_at,
        "last_refreshed_at": connection.last_refreshed_at,
        "last_fetched_at": connection.last_fetched_at,
        "state_since": connection.state_since,
        "dies_at": connection.life.dies_at,
        "keep_alive_at": connection.life.keep_alive_at,
    }
    body: dict[str, Any] = {name: iso(moment) for name, moment in moments.items() if moment is not None}
    body["state"] = connection.state.value
    if connection.state_reason is not None:
        body["state_reason"] = connection.state_reason
    if failure is not None:
        body["failure"] = {
            "code": failure.code,
            "message": failure.message,
            "final": failure.final,
            "at": iso(failure.at),
            "attempts": failure.attempts,
            **({"retry_at": iso(failure.retry_at)} if failure.retry_at else {}),
        }
    return body


def _history_before_import(body: PastBody) -> ImportedHistory:
    failure = RefreshFailure(**body.failure.model_dump()) if body.failure else None
    shared_members = body.model_dump(exclude={"failure", "dies_at", "keep_alive_at"})
    return ImportedHistory(**shared_members, failure=failure, life=Lifespan(body.dies_at, body.keep_alive_at))


def _nested_form(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat object as a nested object. Members that are not fields of a connection become its credential."""
    credentials = {FLAT_NAMES.get(name, name): value for name, value in flat.items() if name not in CONNECTION_MEMBERS}
    return {**{name: flat[name] for name in flat if name in CONNECTION_MEMBERS}, "credentials": credentials}
