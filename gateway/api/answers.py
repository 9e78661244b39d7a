"""What our API answers, as models."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import SkipJsonSchema

# ── What every model of an answer is made from.

Absent = SkipJsonSchema[None]  # a member that is left out rather than null
Moment = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$",
        examples=["2026-01-02T03:04:05.678+00:00"],
        json_schema_extra={"format": "date-time"},
    ),
]


class AnswerModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


# ── What answers of several areas have in common.


class Success(AnswerModel):
    success: Literal[True]


class Result(AnswerModel):
    result: str


class AnyJson(RootModel[dict[str, Any]]):
    """A JSON object."""


class Organization(AnswerModel):
    id: str
    display_name: str | None


class EndUser(AnswerModel):
    """Whose connection it is, in the customer's own words."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None


# ── Errors, as models.


class Issue(AnswerModel):
    """One fault among several."""

    code: str
    """Which rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """Where: the names that lead there."""


class ErrorDetail(AnswerModel):
    code: str
    """API: it does not change."""
    message: str
    """What to do next; it may change."""
    errors: list[Issue] | Absent = None
    payload: dict[str, Any] | Absent = None
    """For programs; what it holds depends on the code."""


class Error(AnswerModel):
    """Every answer of ours that is an error, with the code in the header Gateway-Error too."""

    error: ErrorDetail


class ErrorText(AnswerModel):
    """What a provider gets whose webhook is not signed well."""

    error: str


# ── How a connection came to be as it is, and what helps.


class Change(AnswerModel):
    at: Moment
    state: str
    previous_state: str | None
    reason: str
    detail: str | None


class Cause(AnswerModel):
    cause: str
    why: str


class Action(AnswerModel):
    do: str
    how: str


class Happening(AnswerModel):
    at: Moment
    what: str
    detail: str | None
    ahead: bool
    """Still to come."""


class Diagnosis(AnswerModel):
    """Why it is as it is, and the one action that helps."""

    state: str
    since: Moment
    causes: list[Cause]
    action: Action
    timeline: list[Happening]


# ── Connections and their metadata.


class Trouble(AnswerModel):
    type: Literal["auth", "sync"]
    log_id: str


class Account(AnswerModel):
    """Who authorized, in the provider's words, as far as it tells."""

    id: str | None
    label: str | None


class _Connection(AnswerModel):
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


class ConnectionList(AnswerModel):
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


class MetadataOf(AnswerModel):
    """What was sent."""

    connection_id: str | list[str]
    provider_config_key: str
    metadata: dict[str, Any]


# ── What became of something that was deleted, and of its tokens.


class Revocation(AnswerModel):
    """What became of one token at the provider."""

    token: str
    outcome: Literal["revoked", "already_invalid", "unsupported", "failed", "unavailable", "not_offered"]
    detail: str | Absent | None = None


class DeletedConnection(Success):
    at_provider: bool
    """Whether its tokens were ended at the provider; if not, they live on there until they expire or are revoked."""
    revocation: list[Revocation] | Absent = None
    """Absent if the provider offers no revocation, or `revoke=false` was sent."""


class DeletedConnections(AnswerModel):
    deleted: int
    revocation: dict[str, int]
    """How many tokens had which outcome."""


class DeletedIntegration(Success):
    connections: DeletedConnections | Absent = None
    """Those that went along; absent where there were none."""


# ── An environment's own: what signs its events, and its variables.


class SigningKey(AnswerModel):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then the former key signs too."""


class SigningKeyAnswer(AnswerModel):
    data: SigningKey


class Variable(AnswerModel):
    name: str
    value: str


class Variables(RootModel[list[Variable]]):
    """A bare array."""


# ── Integrations.


class Integration(AnswerModel):
    unique_key: str
    """Sent as Provider-Config-Key."""
    provider: str
    display_name: str
    logo: str
    forward_webhooks: bool
    allowed_hosts: list[str] | Absent = None
    """Hosts that end users may name and that its client secret may go to; absent where it names none."""
    allow_unsigned_webhooks: bool
    """Whether webhooks that no secret can check are accepted, from anybody who knows the address."""
    created_at: Moment
    updated_at: Moment
    webhook_url: str | Absent | None = None
    """With include=webhook: where the provider is to send its webhooks; null where they are not routed."""
    credentials: dict[str, str | None] | Absent | None = None
    """With include=credentials: the fields of its type; null where it has none."""
    custom: dict[str, str] | Absent = None
    """With include=credentials, where there are any."""


class IntegrationAnswer(AnswerModel):
    data: Integration


class IntegrationList(AnswerModel):
    data: list[Integration]


# ── Minted keys.


class Key(AnswerModel):
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


class NewKeyAnswer(AnswerModel):
    data: NewKey


class KeyList(AnswerModel):
    data: list[Key]
    next_cursor: str | Absent = None


class RevokedKeys(Success):
    revoked: int
    """How many: those that it minted end with it."""


# ── The catalog's entries.


class Provider(BaseModel):
    """An entry of the catalog: these fields, and whatever else its file says."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    name: str
    display_name: str
    logo_url: str
    categories: list[str]
    auth_mode: str
    docs: str


class ProviderAnswer(AnswerModel):
    data: Provider


class ProviderList(AnswerModel):
    data: list[Provider]
    next_cursor: str | Absent = None


# ── Connecting an end user: sessions, and what comes of them.


class ConnectSession(AnswerModel):
    session_id: str
    """By which the application completes it, and which the result of a return names; no secret."""
    token: str
    connect_link: str
    """The page to open for the end user."""
    expires_at: Moment
    poll_url: str
    """Where the key learns what became of it."""


class ConnectSessionAnswer(AnswerModel):
    data: ConnectSession


class SessionConnection(AnswerModel):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(AnswerModel):
    type: str
    """As the browser's library names it."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(AnswerModel):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: SessionError | Absent = None
    """Of the last attempt, if that failed; the end user may try again while the session lives."""
    expires_at: Moment | Absent = None


class SessionResult(AnswerModel):
    data: SessionOutcome


class CompletedSession(AnswerModel):
    status: Literal["connected"]
    connections: list[SessionConnection]


class CompletionAnswer(AnswerModel):
    data: CompletedSession


class Session(AnswerModel):
    """As the published page reads it."""

    endUser: EndUser | None  # noqa: N815
    connectUISettings: dict[str, Any]  # noqa: N815
    websocketsPath: str  # noqa: N815
    allowed_integrations: list[str] | Absent = None
    integrations_config_defaults: dict[str, Any] | Absent = None
    overrides: dict[str, Any] | Absent = None
    isReconnecting: Literal[True] | Absent = None  # noqa: N815


class SessionAnswer(AnswerModel):
    data: Session


class Connected(AnswerModel):
    connectionId: str  # noqa: N815 (as the browser's library reads it)
    providerConfigKey: str  # noqa: N815
    isPending: Literal[True] | Absent = None  # noqa: N815
    """The application has yet to complete it."""


class ClientMetadata(BaseModel):
    """RFC 7591 §2."""

    model_config = ConfigDict(extra="allow")

    client_id: str
    redirect_uris: list[str]
