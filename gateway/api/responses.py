"""The shapes of response bodies: handlers return them, mypy checks them, and the OpenAPI document publishes them.

A `NotRequired` member that does not apply is left out of the body.
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


# ── Shapes that responses of several areas share.


class Success(TypedDict):
    success: Literal[True]


class Result(TypedDict):
    result: str


class Readiness(TypedDict):
    """The readiness of a node. A node without problems reports only `result`."""

    result: Literal["ok", "not ready"]
    store: NotRequired[Literal["away", "damaged", "full", "read-only"]]
    clock: NotRequired[Literal["off", "refused"]]
    """The node's clock differs from the database's: `off` by seconds, `refused` by so much that this node does not
    refresh tokens."""
    clock_offset_seconds: NotRequired[float]
    """Seconds by which the database's clock is ahead of the node's."""
    journal: NotRequired[Literal["unwritable"]]
    """The refresh journal cannot be written."""
    failover: NotRequired[Literal["reconciling"]]
    """The database has failed over; tokens are not refreshed until its state is reconciled."""


AnyJson = TypeAliasType("AnyJson", Annotated[dict[str, Any], Field(description="A JSON object.")])


class Organization(TypedDict):
    id: str
    display_name: str | None


class EndUserJson(TypedDict):
    """The end user of a connection, as your application describes them."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None


# ── Errors, as models.


class IssueJson(TypedDict):
    """One error in the request; there may be several."""

    code: str
    """The rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """Path to the wrong member: the names of the members that contain it, and its own."""


class ErrorDetail(TypedDict):
    code: str
    """Stable error code. Use it in programs."""
    message: str
    """What happened and what to do next. The text may change."""
    errors: NotRequired[list[IssueJson]]
    payload: NotRequired[dict[str, Any]]
    """Details for programs. The members depend on the code."""
    trace_id: NotRequired[str]
    """Trace id, 32 hex digits: from the request's `traceparent`, or of the trace that the gateway started."""


class Error(TypedDict):
    """The body of every error of the gateway. The header `Gateway-Error` has the same code."""

    error: ErrorDetail


class ErrorText(TypedDict):
    """The response to a provider's webhook with an invalid signature."""

    error: str


# ── The history and the diagnosis of a connection, and the action that helps.


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
    """Whether the event is in the future."""


class Diagnosis(TypedDict):
    """Why the connection is in its state, and what to do about it."""

    state: str
    since: Moment
    causes: list[Cause]
    action: Action
    timeline: list[HappeningJson]


# ── Connections and their metadata.


StateName = Annotated[str, Field(json_schema_extra={"enum": [state.value for state in State]})]


class RefreshErrorJson(TypedDict):
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
    dies_at: Annotated[
        Moment | None, Field(description="When the credential expires if it is not refreshed; null: no known limit.")
    ]
    keep_alive_at: Annotated[
        Moment | None,
        Field(description="When the gateway refreshes the credential to prevent that; null: not planned."),
    ]
    account: AccountJson | None
    errors: Annotated[
        list[RefreshErrorJson], Field(description="The error of the last refresh, if it failed; else empty.")
    ]
    end_user: EndUserJson | None
    tags: dict[str, str]
    metadata: dict[str, Any] | None


class ConnectionState(TypedDict):
    """The state of a connection, for keys that may create connect sessions but not read connections."""

    connection_id: str
    provider_config_key: str
    provider: str
    state: StateName
    errors: list[RefreshErrorJson]


class ListedConnection(AnyConnection):
    """A connection in the list, without credential and settings."""

    created: Moment


class ConnectionList(TypedDict):
    connections: list[ListedConnection]
    next_cursor: NotRequired[str]
    """Cursor for the next page; absent on the last page."""


class ScopesRefused(TypedDict):
    """Missing scopes that the provider's API reported with 403 since the last authorization. `path`: the path of
    the last such call."""

    scopes: list[str]
    at: Moment
    path: str


class Scopes(TypedDict):
    """Granted and needed scopes. `granted` is null if the provider did not report them. `missing`: scopes that the
    integration requests or that the provider's API required with 403, and that were not granted."""

    granted: list[str] | None
    needed: list[str]
    missing: list[str]
    refused: NotRequired[ScopesRefused]


class History(TypedDict):
    """The members that `include=history` adds."""

    history: list[ChangeJson]
    diagnosis: Diagnosis
    scopes: Scopes


class ConnectionJson(AnyConnection):
    """A connection with its settings. The members of `credentials` depend on the auth mode. Refresh tokens are included
    only with `refresh_token=true`, and in the response to an import."""

    connection_config: dict[str, Any]
    webhook_url_override: str | None
    created_at: Moment
    updated_at: Moment
    last_fetched_at: Moment | None
    credentials: dict[str, Any]
    history: NotRequired[list[ChangeJson]]
    """Only with `include=history`."""
    diagnosis: NotRequired[Diagnosis]
    """Only with `include=history`."""
    scopes: NotRequired[Scopes]
    """Only with `include=history`."""
    warnings: NotRequired[list[IssueJson]]
    """Settings of an import that the provider does not have. They were stored; check their names."""


Metadata = TypeAliasType("Metadata", Annotated[dict[str, Any], Field(description="Any JSON object.")])


class MetadataOf(TypedDict):
    """The metadata as sent, and the connections whose metadata changed."""

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
    """Whether all tokens were revoked at the provider. If not, they stay valid there until they expire or are
    revoked."""
    revocation: NotRequired[list[Revocation]]
    """The result for each token. Absent if the provider offers no revocation, or with `revoke=false`."""


class DeletedConnections(TypedDict):
    deleted: int
    revocation: dict[str, int]
    """The number of tokens with each outcome."""


class DeletedIntegration(Success):
    connections: NotRequired[DeletedConnections]
    """The connections that were deleted with it; absent if there were none."""


# ── An environment's signing key for events, and its variables.


class SigningKey(TypedDict):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then, events are also signed with the previous key."""


class SigningKeyResponse(TypedDict):
    data: SigningKey


class Variable(TypedDict):
    name: str
    value: str


Variables = TypeAliasType("Variables", Annotated[list[Variable], Field(description="An array of variables.")])


# ── Integrations.


class IntegrationJson(TypedDict):
    unique_key: str
    """The integration's key. Send it as `Provider-Config-Key`."""
    provider: str
    display_name: str
    logo: str
    forward_webhooks: bool
    allowed_hosts: NotRequired[list[str]]
    """Hosts that end users may name and to which the client secret may be sent; absent if there are none."""
    allow_unsigned_webhooks: bool
    """Whether webhooks are accepted without a signature, from anyone who knows the URL."""
    created_at: Moment
    updated_at: Moment
    webhook_url: NotRequired[str | None]
    """Only with `include=webhook`: the URL for the provider's webhooks; null if the gateway does not route them."""
    credentials: NotRequired[dict[str, str | None] | None]
    """Only with `include=credentials`: the fields of the auth mode; null if it has none."""
    custom: NotRequired[dict[str, str]]
    """Only with `include=credentials`: your own values, if any."""


class IntegrationResponse(TypedDict):
    data: IntegrationJson


class IntegrationList(TypedDict):
    data: list[IntegrationJson]


# ── Minted keys.


class Key(TypedDict):
    """A minted key, without its secret."""

    id: int
    display_name: str
    kind: Literal["key", "capability"]
    last_four: str
    scopes: list[str]
    limits: Annotated[
        list[dict[str, Any]], Field(description="Limits of the key and of the keys that minted it. All of them apply.")
    ]
    rate: NotRequired[Annotated[int, Field(description="Maximum calls per minute.")]]
    budget: NotRequired[Annotated[int, Field(description="Maximum calls in total.")]]
    calls: NotRequired[Annotated[int, Field(description="Calls of the budget that are used.")]]
    created_at: Moment
    created_by: str
    expires_at: NotRequired[Moment]
    revoked_at: NotRequired[Moment]
    last_used_at: NotRequired[Moment]


class KeyItself(TypedDict):
    secret: Annotated[str, Field(description="The secret key. Returned only once.")]
    base_url: NotRequired[
        Annotated[
            str,
            Field(
                description="Only for a capability: the capability URL. Give it to an SDK as the provider's base URL."
            ),
        ]
    ]
    warnings: NotRequired[
        Annotated[
            list[str], Field(description="Limits that are probably mistakes, such as a rule with a mistyped method.")
        ]
    ]


class NewKey(Key, KeyItself):
    pass


class NewKeyResponse(TypedDict):
    data: NewKey


class KeyList(TypedDict):
    data: list[Key]
    next_cursor: NotRequired[str]


class RevokedKeys(Success):
    revoked: int
    """Number of revoked keys, including those that the key minted."""


# ── Agent sessions.


class AgentSessionTools(TypedDict):
    connected: bool
    tools_pinned: int
    """Number of this integration's tools in the tool list."""
    tools_searchable: int
    """Number of this integration's tools that only `find_tools` finds."""


class AgentSessionMetaTools(TypedDict):
    nango_tool_search: bool
    nango_execute: bool
    nango_proxy: bool


class AgentSession(TypedDict):
    session_id: str
    session_token: Annotated[
        str, Field(description="A minted key, returned only once. Send it as `Authorization: Bearer`.")
    ]
    mcp_url: str
    expires_at: Moment
    toolset: dict[str, AgentSessionTools]
    meta_tools: AgentSessionMetaTools


class AgentSessionResponse(TypedDict):
    data: AgentSession


class EndedAgentSession(TypedDict):
    session_id: str
    ended_at: Moment
    reason: Literal["terminated", "expired"]


class EndedAgentSessionResponse(TypedDict):
    data: EndedAgentSession


# ── The call log.


class LoggedOperation(TypedDict):
    """A record of the call log: a call, refresh, authorization, event delivery or provider's webhook."""

    id: int
    """Increases in the order in which operations were stored."""
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})]
    at: Moment
    request_id: str
    trace_id: str | None
    """Trace id: from the caller's `traceparent`, or of the trace that the gateway started."""
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
    """The rule of the key that allowed the call, or the limit that refused it."""
    tool: str | None
    """The MCP tool of the call: a tool of the gateway, or of the provider's own MCP server."""
    duration_ms: float
    gateway_ms: float | None
    token_ms: float | None
    upstream_ms: float | None
    attempts: int
    bytes_in: int
    bytes_out: int
    detail: dict[str, Any] | None
    operations: NotRequired[list[dict[str, Any]]]
    """Only with `include=operations`: the other operations of the same request."""


class Logs(TypedDict):
    data: list[LoggedOperation]
    """Newest first."""
    next_cursor: NotRequired[str]
    searched_to: NotRequired[Moment]
    """Present if the search timed out: how far back it searched. Continue with `next_cursor`."""


# ── The audit trail.


class AuditRecord(TypedDict):
    """A record of the audit trail: actor, action, and position in the hash chain."""

    sequence: int
    """Position in the hash chain: 1, 2, 3 … without gaps."""
    hash: str
    """Hash of the previous record's hash, the sequence number and this record (docs/audit.md)."""
    at: Moment
    action: Annotated[str, Field(json_schema_extra={"enum": list(AuditAction)})]
    outcome: Annotated[str, Field(json_schema_extra={"enum": ["ok", "failed"]})]
    actor: dict[str, Any]
    """Who acted: `kind` and, depending on it, `key_id`, `name`, `parents`, `session`, `command`."""
    address: str | None
    """The client's IP address."""
    environment: str | None
    provider_config_key: str | None
    connection_id: str | None
    key_id: int | None
    """Id of the key that the action concerns. The key that acted is in `actor`."""
    end_user: str | None
    """Keyed digest of the end user's id."""
    request_id: str | None
    detail: dict[str, Any]


class AuditPage(TypedDict):
    data: list[AuditRecord]
    """Newest first."""
    next_cursor: NotRequired[str]


class CredentialUse(TypedDict):
    key_id: int | None
    """Id of the minted key; null for the keys of `gateway.yaml`."""
    provider_config_key: str
    connection_id: str
    calls: int
    failed: int
    """Number of these calls with an error or a status of 400 or above."""


CredentialUses = TypedDict(
    "CredentialUses",
    {"from": Moment, "to": Moment, "calls": int, "failed": int, "uses_in_all": int, "data": list[CredentialUse]},
)
"""`from`, `to`: the range of whole hours. `calls`, `failed`: totals of all uses in this range, including uses that
`limit` leaves out. `uses_in_all`: the total number of pairs of a connection and a key."""


# ── The catalog's entries.


@with_config(ConfigDict(extra="allow"))
class ProviderJson(TypedDict):
    """A provider of the catalog, with all fields of its entry."""

    name: str
    display_name: str
    logo_url: str
    categories: list[str]
    auth_mode: str
    docs: str


class ProviderResponseJson(TypedDict):
    data: ProviderJson


class ProviderList(TypedDict):
    data: list[ProviderJson]
    next_cursor: NotRequired[str]


class ApiOperationJson(TypedDict):
    """An operation of the provider's API."""

    id: str
    """Id of the operation, for key rules and tools. Unique within the provider."""
    method: str
    path: str
    """Path below the provider's base URL, as in `/proxy/<path>`. Replace `{placeholders}`; `${connectionConfig.x}` is a
    setting of the connection."""
    risk: Literal["read", "write", "delete", "admin"]
    """Derived from method and name. A safeguard, not a guarantee."""
    summary: NotRequired[str]
    scopes: NotRequired[list[str]]
    """Scopes that the source states. Some providers require all of them, others one."""
    query: NotRequired[list[str]]
    """Names of known query parameters. There may be more."""
    body: bool
    starter: NotRequired[bool]
    """Whether this is one of the operations that an assistant needs most."""
    deprecated: NotRequired[bool]
    origin: NotRequired[str]
    """Origin of the URL, if it differs from that of the base URL."""
    graphql: NotRequired[str]
    """`query` or `mutation`."""
    field: NotRequired[str]
    """Field of the GraphQL root type."""


class OperationScopes(TypedDict):
    """Scopes that all matching operations need, including those on other pages."""

    all_of: list[str]
    any_of: list[list[str]]
    """One scope of each of these lists is needed."""
    unstated: int
    """Number of operations whose scopes are not known."""
    missing: NotRequired[list[list[str]]]
    """Only with `granted`: one scope of each of these lists must be added."""
    unneeded: NotRequired[list[str]]
    """Only with `granted`: scopes that none of the matching operations needs."""


class ApiOperationList(TypedDict):
    data: list[ApiOperationJson]
    source: dict[str, str]
    """Where the operations come from: source, version, date, licence, cautions."""
    scopes: OperationScopes
    next_cursor: NotRequired[str]


# ── Connecting an end user: sessions and their results.


class ConnectSessionJson(TypedDict):
    session_id: str
    """Id of the session, for `POST /connect/sessions/{session_id}/complete`. Not secret."""
    token: str
    connect_link: str
    """URL of the connect page. Open it for the end user."""
    expires_at: Moment
    poll_url: str
    """URL of the session's result, to read with the secret key."""


class ConnectSessionResponse(TypedDict):
    data: ConnectSessionJson


class SessionConnection(TypedDict):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(TypedDict):
    type: str
    """Error type, as `@nangohq/frontend` names it."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(TypedDict):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: NotRequired[SessionError]
    """The error of the last attempt, if it failed. The end user can try again until the session expires."""
    expires_at: NotRequired[Moment]


class SessionResult(TypedDict):
    data: SessionOutcome


class CompletedSession(TypedDict):
    status: Literal["connected"]
    connections: list[SessionConnection]


class CompletionResponse(TypedDict):
    data: CompletedSession


class Session(TypedDict):
    """A connect session in the shape that Nango's connect page reads."""

    endUser: EndUserJson | None
    connectUISettings: dict[str, Any]
    websocketsPath: str
    allowed_integrations: NotRequired[list[str]]
    integrations_config_defaults: NotRequired[dict[str, Any]]
    overrides: NotRequired[dict[str, Any]]
    isReconnecting: NotRequired[Literal[True]]


class SessionResponse(TypedDict):
    data: Session


class Connected(TypedDict):
    connectionId: str  # the name that the browser's library reads
    providerConfigKey: str
    isPending: NotRequired[Literal[True]]
    """Whether your application must still complete the connection."""


@with_config(ConfigDict(extra="allow"))
class ClientMetadata(TypedDict):
    """A client metadata document (RFC 7591 §2)."""

    client_id: str
    redirect_uris: list[str]
