"""The shapes of our API's answers: handlers return them, mypy checks them, and the OpenAPI document publishes them.

A member that is `NotRequired` is left out rather than null.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

from gateway.records.audit import AuditAction
from gateway.records.operation import KINDS
from gateway.records.states import State

Moment = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$",
        examples=["2026-01-02T03:04:05.678+00:00"],
        json_schema_extra={"format": "date-time"},
    ),
]


# ── Members that answers of several areas share.


class Success(TypedDict):
    success: Literal[True]


class Result(TypedDict):
    result: str


class Readiness(TypedDict):
    """The readiness of a node. A node without problems reports only `result`."""

    result: Literal["ok", "not ready"]
    store: NotRequired[Literal["away", "damaged", "full"]]
    clock: NotRequired[Literal["off", "refused"]]
    """How much the clock differs from the database's: by seconds, or by so much that no token is refreshed."""
    clock_offset_seconds: NotRequired[float]
    """How many seconds the database's clock is ahead."""
    journal: NotRequired[Literal["unwritable"]]
    """Replies of token endpoints cannot be journalled."""
    failover: NotRequired[Literal["reconciling"]]
    """No token is refreshed yet after a failover of the database."""


AnyJson = TypeAliasType("AnyJson", Annotated[dict[str, Any], Field(description="A JSON object.")])


class Organization(TypedDict):
    id: str
    display_name: str | None


class EndUserJson(TypedDict):
    """The end user of a connection, as the customer describes them."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None


# ── Errors, as models.


class IssueJson(TypedDict):
    """One of several faults."""

    code: str
    """The rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """The names that lead to the faulty member."""


class ErrorDetail(TypedDict):
    code: str
    """Part of the API: it does not change."""
    message: str
    """What to do next; the text may change."""
    errors: NotRequired[list[IssueJson]]
    payload: NotRequired[dict[str, Any]]
    """For programs; the members depend on the code."""
    trace_id: NotRequired[str]
    """32 hex digits: from the request's `traceparent`, or of the trace that the gateway started for it."""


class Error(TypedDict):
    """The body of every error of the gateway; the header Gateway-Error has the code too."""

    error: ErrorDetail


class ErrorText(TypedDict):
    """The answer to a provider's webhook with an invalid signature."""

    error: str


# ── The history of a connection, and the action that helps.


class ChangeJson(TypedDict):
    at: Moment
    state: str
    previous_state: str | None
    reason: str
    detail: str | None


class Cause(TypedDict):
    cause: str
    why: str


class Action(TypedDict):
    do: str
    how: str


class HappeningJson(TypedDict):
    at: Moment
    what: str
    detail: str | None
    ahead: bool
    """Whether it is still to come."""


class Diagnosis(TypedDict):
    """Why the connection is in its state, and the one action that helps."""

    state: str
    since: Moment
    causes: list[Cause]
    action: Action
    timeline: list[HappeningJson]


# ── Connections and their metadata.


StateName = Annotated[str, Field(json_schema_extra={"enum": [one.value for one in State]})]


class Trouble(TypedDict):
    type: Literal["auth", "sync"]
    log_id: str


class AccountJson(TypedDict):
    """The account that authorized, if the provider reports it."""

    id: str | None
    label: str | None


class AnyConnection(TypedDict):  # pydantic reads docstrings of members in the class itself, not in base classes
    id: int
    connection_id: str
    provider_config_key: Annotated[str, Field(description="The integration's key.")]
    provider: str
    state: StateName
    dies_at: Annotated[Moment | None, Field(description="When the refresh token ends if nothing is done.")]
    keep_alive_at: Annotated[Moment | None, Field(description="When it is refreshed to prevent that.")]
    account: AccountJson | None
    errors: Annotated[list[Trouble], Field(description="Trouble that has not passed: the last refresh failed.")]
    end_user: EndUserJson | None
    tags: dict[str, str]
    metadata: dict[str, Any] | None


class ConnectionState(TypedDict):
    """The state of a connection and nothing else: for keys that may create connect sessions but not read connections."""

    connection_id: str
    provider_config_key: str
    provider: str
    state: StateName
    errors: list[Trouble]


class ListedConnection(AnyConnection):
    """A row of the list: never a credential, never a setting."""

    created: Moment


class ConnectionList(TypedDict):
    connections: list[ListedConnection]
    next_cursor: NotRequired[str]
    """Where the list continues; absent at its end."""


class ScopesRefused(TypedDict):
    """Scopes that the provider's API required with 403 since the last authorization, and the path of the last such call."""

    scopes: list[str]
    at: Moment
    path: str


class Scopes(TypedDict):
    """Granted and needed scopes; `granted` is null if the provider did not report it. `missing`: scopes that the
    integration requests, and scopes that the provider's API required with 403."""

    granted: list[str] | None
    needed: list[str]
    missing: list[str]
    refused: NotRequired[ScopesRefused]


class History(TypedDict):
    """The members that include=history adds."""

    history: list[ChangeJson]
    diagnosis: Diagnosis
    scopes: Scopes


class ConnectionJson(AnyConnection):
    """The whole connection. `credentials` is the object of its auth mode, without refresh tokens unless requested."""

    connection_config: dict[str, Any]
    webhook_url_override: str | None
    created_at: Moment
    updated_at: Moment
    last_fetched_at: Moment | None
    credentials: dict[str, Any]
    history: NotRequired[list[ChangeJson]]
    """With include=history."""
    diagnosis: NotRequired[Diagnosis]
    """With include=history."""
    scopes: NotRequired[Scopes]
    """With include=history."""
    warnings: NotRequired[list[IssueJson]]
    """Unusual members of an import, which were accepted."""


Metadata = TypeAliasType("Metadata", Annotated[dict[str, Any], Field(description="Any JSON object.")])


class MetadataOf(TypedDict):
    """The metadata as sent, and the connections it was sent for."""

    connection_id: str | list[str]
    provider_config_key: str
    metadata: dict[str, Any]


# ── The results of a deletion: of the connection or integration, and of its tokens at the provider.


class Revocation(TypedDict):
    """The result of revoking one token at the provider."""

    token: str
    outcome: Literal["revoked", "already_invalid", "unsupported", "failed", "unavailable", "not_offered"]
    detail: NotRequired[str | None]


class DeletedConnection(Success):
    at_provider: bool
    """Whether its tokens were revoked at the provider; if not, they stay valid there until they expire or are revoked."""
    revocation: NotRequired[list[Revocation]]
    """Absent if the provider offers no revocation, or `revoke=false` was sent."""


class DeletedConnections(TypedDict):
    deleted: int
    revocation: dict[str, int]
    """The number of tokens with each outcome."""


class DeletedIntegration(Success):
    connections: NotRequired[DeletedConnections]
    """The connections deleted with it; absent if there were none."""


# ── An environment's signing key for events, and its variables.


class SigningKey(TypedDict):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then the former key also signs."""


class SigningKeyAnswer(TypedDict):
    data: SigningKey


class Variable(TypedDict):
    name: str
    value: str


Variables = TypeAliasType("Variables", Annotated[list[Variable], Field(description="A bare array.")])


# ── Integrations.


class IntegrationJson(TypedDict):
    unique_key: str
    """Sent as Provider-Config-Key."""
    provider: str
    display_name: str
    logo: str
    forward_webhooks: bool
    allowed_hosts: NotRequired[list[str]]
    """Hosts that end users may name and to which the client secret may be sent; absent if there are none."""
    allow_unsigned_webhooks: bool
    """Whether webhooks are accepted without a secret to check them, from anyone who knows the address."""
    created_at: Moment
    updated_at: Moment
    webhook_url: NotRequired[str | None]
    """With include=webhook: the address for the provider's webhooks; null if they are not routed."""
    credentials: NotRequired[dict[str, str | None] | None]
    """With include=credentials: the fields of its type; null if it has none."""
    custom: NotRequired[dict[str, str]]
    """With include=credentials, if there are any."""


class IntegrationAnswer(TypedDict):
    data: IntegrationJson


class IntegrationList(TypedDict):
    data: list[IntegrationJson]


# ── Minted keys.


class Key(TypedDict):
    """A minted key without the key itself."""

    id: int
    display_name: str
    kind: Literal["key", "capability"]
    last_four: str
    scopes: list[str]
    limits: Annotated[
        list[dict[str, Any]], Field(description="Its own, and those of the keys that minted it; all of them hold.")
    ]
    rate: NotRequired[Annotated[int, Field(description="Calls a minute.")]]
    budget: NotRequired[Annotated[int, Field(description="Calls at all.")]]
    calls: NotRequired[Annotated[int, Field(description="Of the budget, so many are used.")]]
    created_at: Moment
    created_by: str
    expires_at: NotRequired[Moment]
    revoked_at: NotRequired[Moment]
    last_used_at: NotRequired[Moment]


class KeyItself(TypedDict):
    secret: Annotated[str, Field(description="The key itself, shown this once.")]
    base_url: NotRequired[
        Annotated[str, Field(description="Of a capability: what an SDK takes as the provider's address.")]
    ]


class NewKey(Key, KeyItself):
    pass


class NewKeyAnswer(TypedDict):
    data: NewKey


class KeyList(TypedDict):
    data: list[Key]
    next_cursor: NotRequired[str]


class RevokedKeys(Success):
    revoked: int
    """The number of keys: those that the key minted end with it."""


# ── Agent sessions.


class AgentSessionTools(TypedDict):
    connected: bool
    tools_pinned: int
    """The number of its tools in the tool list."""
    tools_searchable: int
    """The number of its tools that `find_tools` finds."""


class AgentSessionMetaTools(TypedDict):
    nango_tool_search: bool
    nango_execute: bool
    nango_proxy: bool


class AgentSession(TypedDict):
    session_id: str
    session_token: Annotated[str, Field(description="A minted key, shown this once: `Authorization: Bearer`.")]
    mcp_url: str
    expires_at: Moment
    toolset: dict[str, AgentSessionTools]
    meta_tools: AgentSessionMetaTools


class AgentSessionAnswer(TypedDict):
    data: AgentSession


class EndedAgentSession(TypedDict):
    session_id: str
    ended_at: Moment
    reason: Literal["terminated", "expired"]


class EndedAgentSessionAnswer(TypedDict):
    data: EndedAgentSession


# ── The call log.


class LoggedOperation(TypedDict):
    """A call, a refresh, an authorization, a delivery of an event, or a provider's webhook."""

    id: int
    """Increases in the order in which operations were stored."""
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})]
    at: Moment
    request_id: str
    trace_id: str | None
    """From the caller's `traceparent`."""
    key_id: int | None
    """The id of the minted key."""
    provider_config_key: str | None
    connection_id: str | None
    method: str | None
    host: str | None
    path: str | None
    """The path without its query."""
    status: int | None
    error: str | None
    """An error code of the gateway, or `client_left`, `cut`, `stopped`."""
    rule: str | None
    """The rule of the key that allowed the call, or the word for the refusal."""
    tool: str | None
    """The name of the MCP tool that made the call: of the gateway's MCP endpoint, or of the provider's own MCP server."""
    duration_ms: float
    gateway_ms: float | None
    token_ms: float | None
    upstream_ms: float | None
    attempts: int
    bytes_in: int
    bytes_out: int
    detail: dict[str, Any] | None
    operations: NotRequired[list[dict[str, Any]]]
    """With include=operations: the other operations of the same request."""


class Logs(TypedDict):
    data: list[LoggedOperation]
    """Newest first."""
    next_cursor: NotRequired[str]
    searched_to: NotRequired[Moment]
    """If the time for a search ran out: how far back it searched; `next_cursor` continues."""


# ── The audit trail.


class AuditRecord(TypedDict):
    """A record of the audit trail: the actor, the action, and the record's place in the chain of hashes."""

    sequence: int
    """Its place in the chain: 1, 2, 3 … without a gap."""
    hash: str
    """Hash over the previous record's hash, the sequence number and the record (docs/audit.md)."""
    at: Moment
    action: Annotated[str, Field(json_schema_extra={"enum": list(AuditAction)})]
    outcome: Annotated[str, Field(json_schema_extra={"enum": ["ok", "failed"]})]
    actor: dict[str, Any]
    """`kind`, and depending on it `key_id`, `name`, `parents`, `session`, `command`."""
    address: str | None
    """The client's network address."""
    environment: str | None
    provider_config_key: str | None
    connection_id: str | None
    key_id: int | None
    """The key that the action concerns; the key that acted is in `actor`."""
    end_user: str | None
    """A keyed digest."""
    request_id: str | None
    detail: dict[str, Any]


class AuditPage(TypedDict):
    data: list[AuditRecord]
    """Newest first."""
    next_cursor: NotRequired[str]


class CredentialUse(TypedDict):
    key_id: int | None
    """The id of the minted key; null: the keys of gateway.yaml."""
    provider_config_key: str
    connection_id: str
    calls: int
    failed: int
    """The number of these calls with an error or a status from 400."""


CredentialUses = TypedDict(
    "CredentialUses",
    {"from": Moment, "to": Moment, "calls": int, "failed": int, "uses_in_all": int, "data": list[CredentialUse]},
)
"""`from` and `to`: the hours that were added up. `calls` and `failed` are totals, including uses that `limit` leaves
out; `uses_in_all`: the total number of connection and key pairs."""


# ── The catalog's entries.


@with_config(ConfigDict(extra="allow"))
class ProviderJson(TypedDict):
    """An entry of the catalog: these fields, and all others of its file."""

    name: str
    display_name: str
    logo_url: str
    categories: list[str]
    auth_mode: str
    docs: str


class ProviderAnswerJson(TypedDict):
    data: ProviderJson


class ProviderList(TypedDict):
    data: list[ProviderJson]
    next_cursor: NotRequired[str]


class ApiOperationJson(TypedDict):
    """An operation of the provider's API."""

    id: str
    """The name for rules and tools, unique in the provider."""
    method: str
    path: str
    """The path below the entry's base URL, as `/proxy` takes it. Fill in `{placeholders}`; `${connectionConfig.x}` is a
    setting of the connection."""
    risk: Literal["read", "write", "delete", "admin"]
    """Derived from method and name: a safeguard, no guarantee."""
    summary: NotRequired[str]
    scopes: NotRequired[list[str]]
    """The scopes that the source states."""
    query: NotRequired[list[str]]
    """Names of some URL parameters."""
    body: bool
    starter: NotRequired[bool]
    """Whether it is one of the operations that an assistant needs most."""
    deprecated: NotRequired[bool]
    origin: NotRequired[str]
    """Its origin, if not that of the base URL."""
    graphql: NotRequired[str]
    """`query` or `mutation`."""
    field: NotRequired[str]
    """The field of the GraphQL root type."""


class OperationScopes(TypedDict):
    """The scopes that the operations found need, on all pages."""

    all_of: list[str]
    any_of: list[list[str]]
    """One scope of each list is needed."""
    unstated: int
    """The number of operations whose scopes the source does not state."""
    missing: NotRequired[list[list[str]]]
    """With `granted`: one scope of each list must be added."""
    unneeded: NotRequired[list[str]]
    """With `granted`: scopes that no found operation names."""


class ApiOperationList(TypedDict):
    data: list[ApiOperationJson]
    source: dict[str, str]
    """Their origin: source, version, date, licence, cautions."""
    scopes: OperationScopes
    next_cursor: NotRequired[str]


# ── Connecting an end user: sessions and their results.


class ConnectSessionJson(TypedDict):
    session_id: str
    """The id for completing the session, also in the result of a return; not secret."""
    token: str
    connect_link: str
    """The page to open for the end user."""
    expires_at: Moment
    poll_url: str
    """The address for reading the session's result with the key."""


class ConnectSessionAnswer(TypedDict):
    data: ConnectSessionJson


class SessionConnection(TypedDict):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(TypedDict):
    type: str
    """The type in the browser library's terms."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(TypedDict):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: NotRequired[SessionError]
    """The error of the last attempt, if it failed; the end user may try again while the session is valid."""
    expires_at: NotRequired[Moment]


class SessionResult(TypedDict):
    data: SessionOutcome


class CompletedSession(TypedDict):
    status: Literal["connected"]
    connections: list[SessionConnection]


class CompletionAnswer(TypedDict):
    data: CompletedSession


class Session(TypedDict):
    """A connect session in the form that the published page reads."""

    endUser: EndUserJson | None
    connectUISettings: dict[str, Any]
    websocketsPath: str
    allowed_integrations: NotRequired[list[str]]
    integrations_config_defaults: NotRequired[dict[str, Any]]
    overrides: NotRequired[dict[str, Any]]
    isReconnecting: NotRequired[Literal[True]]


class SessionAnswer(TypedDict):
    data: Session


class Connected(TypedDict):
    connectionId: str  # the name that the browser's library reads
    providerConfigKey: str
    isPending: NotRequired[Literal[True]]
    """Whether the application must still complete it."""


@with_config(ConfigDict(extra="allow"))
class ClientMetadata(TypedDict):
    """A client metadata document (RFC 7591 §2)."""

    client_id: str
    redirect_uris: list[str]
