"""The shapes of our API's answers: what a handler returns, mypy checks and the OpenAPI document states.

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


# ── What answers of several areas have in common.


class Success(TypedDict):
    success: Literal[True]


class Result(TypedDict):
    result: str


class Readiness(TypedDict):
    """A node that lacks nothing says its result alone."""

    result: Literal["ok", "not ready"]
    store: NotRequired[Literal["away", "damaged", "full"]]
    clock: NotRequired[Literal["off", "refused"]]
    """How it differs from the database's: by seconds, or by so much that no token is refreshed."""
    clock_offset_seconds: NotRequired[float]
    """How far the database's is ahead."""
    journal: NotRequired[Literal["unwritable"]]
    """Replies of token endpoints cannot be journalled."""
    failover: NotRequired[Literal["reconciling"]]
    """No token is refreshed yet after a failover of the database."""


AnyJson = TypeAliasType("AnyJson", Annotated[dict[str, Any], Field(description="A JSON object.")])


class Organization(TypedDict):
    id: str
    display_name: str | None


class EndUserJson(TypedDict):
    """Whose connection it is, in the customer's own words."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None


# ── Errors, as models.


class IssueJson(TypedDict):
    """A fault, one of several."""

    code: str
    """Which rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """Where: the names that lead there."""


class ErrorDetail(TypedDict):
    code: str
    """API: it does not change."""
    message: str
    """What to do next; it may change."""
    errors: NotRequired[list[IssueJson]]
    payload: NotRequired[dict[str, Any]]
    """For programs; what it holds depends on the code."""
    trace_id: NotRequired[str]
    """32 hex digits: of the request's `traceparent`, or of the trace that the gateway has begun for it."""


class Error(TypedDict):
    """Every answer of ours that is an error, with the code in the header Gateway-Error too."""

    error: ErrorDetail


class ErrorText(TypedDict):
    """The answer to a provider whose webhook is not signed well."""

    error: str


# ── How a connection came to be as it is, and what helps.


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
    """Still to come."""


class Diagnosis(TypedDict):
    """Why it is as it is, and the one action that helps."""

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
    """The account that authorized, as far as the provider reports it."""

    id: str | None
    label: str | None


class AnyConnection(TypedDict):  # pydantic finds docstrings of members in the class itself, not in what extends it
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
    """How a connection is, and nothing else of it: for keys that may make connect sessions and read no connections."""

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
    """Stands for the place where the list goes on; absent at its end."""


class ScopesRefused(TypedDict):
    """The scopes that the provider's API asked for with 403 since the last authorization, and the path of the last such call."""

    scopes: list[str]
    at: Moment
    path: str


class Scopes(TypedDict):
    """Granted against needed scopes: null where the provider did not say what it granted. `missing`: those that the integration
    asks for, and those that the provider's API asked for with 403."""

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
    """What is odd about an import, and was taken all the same."""


Metadata = TypeAliasType("Metadata", Annotated[dict[str, Any], Field(description="Any JSON object.")])


class MetadataOf(TypedDict):
    """The metadata as it was sent, and the connections it was sent for."""

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
    """Whether its tokens were ended at the provider; if not, they live on there until they expire or are revoked."""
    revocation: NotRequired[list[Revocation]]
    """Absent if the provider offers no revocation, or `revoke=false` was sent."""


class DeletedConnections(TypedDict):
    deleted: int
    revocation: dict[str, int]
    """How many tokens had which outcome."""


class DeletedIntegration(Success):
    connections: NotRequired[DeletedConnections]
    """Those that went along; absent where there were none."""


# ── An environment's own: what signs its events, and its variables.


class SigningKey(TypedDict):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then the former key signs too."""


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
    """Hosts that end users may name and that its client secret may go to; absent where it names none."""
    allow_unsigned_webhooks: bool
    """Whether webhooks that no secret can check are accepted, from anybody who knows the address."""
    created_at: Moment
    updated_at: Moment
    webhook_url: NotRequired[str | None]
    """With include=webhook: where the provider is to send its webhooks; null where they are not routed."""
    credentials: NotRequired[dict[str, str | None] | None]
    """With include=credentials: the fields of its type; null where it has none."""
    custom: NotRequired[dict[str, str]]
    """With include=credentials, where there are any."""


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
    """How many: those that it minted end with it."""


# ── Agent sessions.


class AgentSessionTools(TypedDict):
    connected: bool
    tools_pinned: int
    """How many of its tools are in the list."""
    tools_searchable: int
    """How many are found by `find_tools`."""


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
    """Rises with the order in which operations were stored."""
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})]
    at: Moment
    request_id: str
    trace_id: str | None
    """Of the caller's `traceparent`."""
    key_id: int | None
    """Of a minted key."""
    provider_config_key: str | None
    connection_id: str | None
    method: str | None
    host: str | None
    path: str | None
    """Without its query."""
    status: int | None
    error: str | None
    """A code of ours, or `client_left`, `cut`, `stopped`."""
    rule: str | None
    """Of the key's rules the one that allowed the call, or the word for what refused it."""
    tool: str | None
    """By which an agent made the call: at the agent door, or of the provider's own MCP server."""
    duration_ms: float
    gateway_ms: float | None
    token_ms: float | None
    upstream_ms: float | None
    attempts: int
    bytes_in: int
    bytes_out: int
    detail: dict[str, Any] | None
    operations: NotRequired[list[dict[str, Any]]]
    """With include=operations: the others under the same request."""


class Logs(TypedDict):
    data: list[LoggedOperation]
    """Newest first."""
    next_cursor: NotRequired[str]
    searched_to: NotRequired[Moment]
    """Where the time for a search ran out: how far back it looked; `next_cursor` goes on."""


# ── The audit trail.


class AuditRecord(TypedDict):
    """A record of the audit trail: the actor, the action, and the record's place in the chain of hashes."""

    sequence: int
    """Its place: 1, 2, 3 … without a gap."""
    hash: str
    """Over the hash of the record before, the sequence number and the record (docs/audit.md)."""
    at: Moment
    action: Annotated[str, Field(json_schema_extra={"enum": list(AuditAction)})]
    outcome: Annotated[str, Field(json_schema_extra={"enum": ["ok", "failed"]})]
    actor: dict[str, Any]
    """`kind`, and by kind `key_id`, `name`, `parents`, `session`, `command`."""
    address: str | None
    """The client's network address."""
    environment: str | None
    provider_config_key: str | None
    connection_id: str | None
    key_id: int | None
    """Of the key that it is about; who acted is in `actor`."""
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
    """Of a minted key; null: the keys of gateway.yaml."""
    provider_config_key: str
    connection_id: str
    calls: int
    failed: int
    """Of these, with an error or a status from 400."""


CredentialUses = TypedDict(
    "CredentialUses",
    {"from": Moment, "to": Moment, "calls": int, "failed": int, "uses_in_all": int, "data": list[CredentialUse]},
)
"""`from` and `to`: the hours that were added up. `calls` and `failed` count all, also what `limit` leaves out; `uses_in_all`
is how many connections and keys those are."""


# ── The catalog's entries.


@with_config(ConfigDict(extra="allow"))
class ProviderJson(TypedDict):
    """An entry of the catalog: these fields, and whatever else its file says."""

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
    """A request that the provider's API takes."""

    id: str
    """For rules and tools: unique in the provider."""
    method: str
    path: str
    """Below the entry's base URL, as `/proxy` takes it. `{places}` are to be filled in; `${connectionConfig.x}` is a setting of
    the connection."""
    risk: Literal["read", "write", "delete", "admin"]
    """By a rule on method and name: a guard, no proof."""
    summary: NotRequired[str]
    scopes: NotRequired[list[str]]
    """As the source states them."""
    query: NotRequired[list[str]]
    """Names of URL parameters; not all of them."""
    body: bool
    starter: NotRequired[bool]
    """One of those that an assistant needs most."""
    deprecated: NotRequired[bool]
    origin: NotRequired[str]
    """It lives at this origin instead of the base URL."""
    graphql: NotRequired[str]
    """`query` or `mutation`."""
    field: NotRequired[str]
    """The field of the GraphQL root type."""


class OperationScopes(TypedDict):
    """The scopes that the operations found need, on all pages."""

    all_of: list[str]
    any_of: list[list[str]]
    """One of each."""
    unstated: int
    """Operations whose scopes the source does not state."""
    missing: NotRequired[list[list[str]]]
    """With `granted`: one of each is to be added."""
    unneeded: NotRequired[list[str]]
    """With `granted`: those that no operation found names."""


class ApiOperationList(TypedDict):
    data: list[ApiOperationJson]
    source: dict[str, str]
    """Where they come from: source, version, date, licence, cautions."""
    scopes: OperationScopes
    next_cursor: NotRequired[str]


# ── Connecting an end user: sessions, and what comes of them.


class ConnectSessionJson(TypedDict):
    session_id: str
    """By which the application completes it, and which the result of a return names; no secret."""
    token: str
    connect_link: str
    """The page to open for the end user."""
    expires_at: Moment
    poll_url: str
    """The address at which the key reads the session's result."""


class ConnectSessionAnswer(TypedDict):
    data: ConnectSessionJson


class SessionConnection(TypedDict):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(TypedDict):
    type: str
    """As the browser's library names it."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(TypedDict):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: NotRequired[SessionError]
    """Of the last attempt, if that failed; the end user may try again while the session lives."""
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
    connectionId: str  # as the browser's library reads it
    providerConfigKey: str
    isPending: NotRequired[Literal[True]]
    """The application has yet to complete it."""


@with_config(ConfigDict(extra="allow"))
class ClientMetadata(TypedDict):
    """RFC 7591 §2."""

    client_id: str
    redirect_uris: list[str]
