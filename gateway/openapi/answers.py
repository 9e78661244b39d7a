"""What our API answers, as models. They describe and are not run through: the handlers build the same shapes by hand."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import SkipJsonSchema

Absent = SkipJsonSchema[None]  # a member that is left out rather than null
Moment = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$",
        examples=["2026-01-02T03:04:05.678+00:00"],
        json_schema_extra={"format": "date-time"},
    ),
]


def _without_null_defaults(schema: dict[str, Any]) -> None:
    for member in schema.get("properties", {}).values():
        if member.get("default", ...) is None:
            del member["default"]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, json_schema_extra=_without_null_defaults)


class Issue(Answer):
    """One fault among several."""

    code: str
    """Which rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """Where: the names that lead there."""


class ErrorDetail(Answer):
    code: str
    """API: it does not change."""
    message: str
    """What to do next; it may change."""
    errors: list[Issue] | Absent = None
    payload: dict[str, Any] | Absent = None
    """For programs; what it holds depends on the code."""


class Error(Answer):
    """Every answer of ours that is an error, with the code in the header Gateway-Error too."""

    error: ErrorDetail


class ErrorText(Answer):
    """What a provider is told whose webhook is not signed well."""

    error: str


class SigningKey(Answer):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then the former key signs too."""


class SigningKeyAnswer(Answer):
    data: SigningKey


class Success(Answer):
    success: Literal[True]


class Result(Answer):
    result: str


class Organization(Answer):
    id: str
    display_name: str | None


class EndUser(Answer):
    """Whose connection it is, in the customer's own words."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None


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


class Change(Answer):
    at: Moment
    state: str
    previous_state: str | None
    reason: str
    detail: str | None


class Cause(Answer):
    cause: str
    why: str


class Action(Answer):
    do: str
    how: str


class Happening(Answer):
    at: Moment
    what: str
    detail: str | None
    ahead: bool
    """Still to come."""


class Diagnosis(Answer):
    """Why it is as it is, and the one action that helps."""

    state: str
    since: Moment
    causes: list[Cause]
    action: Action
    timeline: list[Happening]


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


class Revocation(Answer):
    """What became of one token at the provider."""

    token: str
    outcome: Literal["revoked", "already_invalid", "unsupported", "failed", "unavailable", "not_offered"]
    detail: str | Absent | None = None


class DeletedConnection(Success):
    revocation: list[Revocation] | Absent = None


class DeletedConnections(Answer):
    deleted: int
    revocation: dict[str, int]
    """How many tokens had which outcome."""


class DeletedIntegration(Success):
    connections: DeletedConnections | Absent = None
    """Those that went along; absent where there were none."""


class Metadata(RootModel[dict[str, Any]]):
    """Any JSON object."""


class MetadataOf(Answer):
    """What was sent."""

    connection_id: str | list[str]
    provider_config_key: str
    metadata: dict[str, Any]


class Integration(Answer):
    unique_key: str
    """Sent as Provider-Config-Key."""
    provider: str
    display_name: str
    logo: str
    forward_webhooks: bool
    created_at: Moment
    updated_at: Moment
    webhook_url: str | Absent | None = None
    """With include=webhook: where the provider is to send its webhooks; null where they are not routed."""
    credentials: dict[str, str | None] | Absent | None = None
    """With include=credentials: the fields of its type; null where it has none."""
    custom: dict[str, str] | Absent = None
    """With include=credentials, where there are any."""


class IntegrationAnswer(Answer):
    data: Integration


class IntegrationList(Answer):
    data: list[Integration]


class Provider(BaseModel):
    """An entry of the catalog: these fields, and whatever else its file says."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    name: str
    display_name: str
    logo_url: str
    categories: list[str]
    auth_mode: str
    docs: str


class ProviderAnswer(Answer):
    data: Provider


class ProviderList(Answer):
    data: list[Provider]
    next_cursor: str | Absent = None


class ConnectSession(Answer):
    token: str
    connect_link: str
    """The page to open for the end user."""
    expires_at: Moment
    poll_url: str
    """Where the key learns what became of it."""


class ConnectSessionAnswer(Answer):
    data: ConnectSession


class SessionConnection(Answer):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(Answer):
    type: str
    """As the browser's library names it."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(Answer):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: SessionError | Absent = None
    """Of the last attempt, if that failed; the end user may try again while the session lives."""
    expires_at: Moment | Absent = None


class SessionResult(Answer):
    data: SessionOutcome


class Session(Answer):
    """As the published page reads it."""

    endUser: EndUser | None  # noqa: N815
    connectUISettings: dict[str, Any]  # noqa: N815
    websocketsPath: str  # noqa: N815
    allowed_integrations: list[str] | Absent = None
    integrations_config_defaults: dict[str, Any] | Absent = None
    overrides: dict[str, Any] | Absent = None
    isReconnecting: Literal[True] | Absent = None  # noqa: N815


class SessionAnswer(Answer):
    data: Session


class Variable(Answer):
    name: str
    value: str


class Variables(RootModel[list[Variable]]):
    """A bare array."""


class Key(Answer):
    """A minted key without the key itself."""

    id: int
    display_name: str
    kind: Literal["key", "capability"]
    last_four: str
    scopes: list[str]
    limits: list[dict[str, Any]]
    """Its own, and those of the keys that minted it; all of them hold."""
    rate: int | Absent = None
    """Calls a minute."""
    budget: int | Absent = None
    """Calls at all."""
    calls: int | Absent = None
    """Of the budget, so many are used."""
    created_at: Moment
    created_by: str
    expires_at: Moment | Absent = None
    revoked_at: Moment | Absent = None
    last_used_at: Moment | Absent = None


class NewKey(Key):
    secret: str
    """The key itself, shown this once."""
    base_url: str | Absent = None
    """Of a capability: what an SDK takes as the provider's address."""


class NewKeyAnswer(Answer):
    data: NewKey


class KeyList(Answer):
    data: list[Key]
    next_cursor: str | Absent = None


class RevokedKeys(Success):
    revoked: int
    """How many: those that it minted end with it."""


class Connected(Answer):
    connectionId: str  # noqa: N815 (as the browser's library reads it)
    providerConfigKey: str  # noqa: N815


class ClientMetadata(BaseModel):
    """RFC 7591 §2."""

    model_config = ConfigDict(extra="allow")

    client_id: str
    redirect_uris: list[str]


class AnyJson(RootModel[dict[str, Any]]):
    """A JSON object."""
