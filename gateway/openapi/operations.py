"""Describes every route, for the OpenAPI document and the page ``/docs``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from typing_extensions import TypeAliasType

from gateway.api import credential_forms, responses
from gateway.api.agent_sessions import NewAgentSession
from gateway.api.connect_endpoints import NewSession, Reconnect
from gateway.api.connection_import import Import
from gateway.api.connections import MAX_LIMIT, ConnectionChanges, NewMetadata
from gateway.api.integration_shapes import IntegrationChanges, NewIntegration
from gateway.api.keys import NewKeyBody, RevokeKeyBody
from gateway.api.session_results import Completion, Telemetry
from gateway.catalog.api_operations import RISKS
from gateway.errors import Code
from gateway.openapi.codes import AGENT_SESSION_ERRORS, CREATE_CONNECTION_ERRORS, PROXY_ERRORS, WEBHOOK_SIGNATURE_ERRORS
from gateway.records.audit import AuditAction
from gateway.records.operation import KINDS

# ── The description of one route.

Authentication = Literal["key", "session", "open"]
Shape = type[Any] | TypeAliasType  # a request model, or a type of gateway/api/responses.py


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter or a header. `description`: what it does. `schema`: JSON Schema of its value. `style`:
    ``deepObject`` for ``name[key]=value``."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    style: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `path` has its parameters as ``{name}``; the method ``*`` matches any method.

    - `authentication`: who may call the route: the holder of a secret key with `scope` (``key``), an end user's browser
      with a connect session (``session``), or anyone (``open``)
    - `errors`: the error codes of this route that not every route has; a pair of code and status if the status is
      unusual for the code
    - `other_success_statuses`: other success statuses, without a body
    - `content`: the media type of the response
    - `description`: a longer description
    - `example` and `response_example`: example bodies of request and response
    - `internal`: not shown on ``/docs``
    """

    method: str
    path: str
    summary: str
    group: str
    response: Shape | None = None
    body: Shape | None = None
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    errors: tuple[Code | tuple[Code, int], ...] = ()
    scope: str | None = None
    authentication: Authentication = "key"
    status: int = 200
    other_success_statuses: tuple[int, ...] = ()
    content: str = "application/json"
    description: str = ""
    example: Any = None
    deprecated: bool = False
    internal: bool = False
    response_example: Any = None

    @property
    def id(self) -> str:
        """A name for generated clients and for links: ``get_connections_connection_id``."""
        words = "".join(char if char.isalnum() else " " for char in self.path).split()
        last_word = ["index"] if self.path.endswith("/") else []
        return "_".join(["any" if self.method == "*" else self.method.lower(), *words, *last_word]).lower()


PROVIDERS: Final = "Providers"
INTEGRATIONS: Final = "Integrations"
CONNECTIONS: Final = "Connections"
SESSIONS: Final = "Connecting end users"
ENVIRONMENT: Final = "Environment"
LOGS: Final = "Logs"
PROXY: Final = "Proxy"
WEBHOOKS: Final = "Webhooks of providers"
AGENTS: Final = "Agents"
HEALTH: Final = "Health and pages"

BOOLEAN_SCHEMA: Final = {"type": "string", "enum": ["true", "false", "1", "0", "yes", "no", "on", "off"]}
TEXT_SCHEMA: Final = {"type": "string"}
KEY_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9~:.@ _-]+$"}
INTEGRATION_KEY_PARAM: Final = Param("provider_config_key", "The integration's key.", KEY_SCHEMA, required=True)
CURSOR_PARAM: Final = Param("cursor", "Cursor for the next page: `next_cursor` of the previous response.")


def _words(*words: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(words)}}


LIST_CONNECTIONS_PARAMS: Final = (
    Param("connectionId", "Only the connections with exactly this id."),
    Param("search", "Text to search for in the connection id and in the end user's name and e-mail. Case-insensitive."),
    Param("endUserId", "Only connections of this end user."),
    Param("endUserOrganizationId", "Only connections of end users of this organization."),
    Param("integrationId", "Only connections of these integrations. Comma-separated integration keys."),
    Param(
        "tags",
        "Only connections with all these tags: `tags[team]=red`.",
        {
            "type": "object",
            "propertyNames": {"pattern": "^[a-zA-Z][a-zA-Z0-9_./-]{0,63}$"},
            "additionalProperties": TEXT_SCHEMA,
            "maxProperties": 10,
        },
        style="deepObject",
    ),
    Param(
        "limit",
        "Maximum number of results, 1 to 2,000. Default 10,000. If there are more, `next_cursor` continues.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    ),
    Param(
        "page",
        "Page number, starting at 0; `limit` is the page size. Send either `page` or `cursor`.",
        {"type": "integer", "minimum": 0, "maximum": 10**9},
    ),
    CURSOR_PARAM,
    Param(
        "missingScopes",
        "`true`: only connections that lack scopes which their integration or the provider's API requires. One request examines up to 10,000 connections; continue with `next_cursor`.",
    ),
)
READ_CONNECTION_PARAMS: Final = (
    INTEGRATION_KEY_PARAM,
    Param("force_refresh", "Refresh the credential now, even if it is not due.", BOOLEAN_SCHEMA),
    Param("refresh_token", "Include the refresh token.", BOOLEAN_SCHEMA),
    Param("refresh_github_app_jwt_token", "Accepted for compatibility; ignored.", BOOLEAN_SCHEMA),
    Param(
        "include",
        "`history`: include the connection's state history, a diagnosis and its scopes.",
        {"type": "string", "enum": ["history"]},
    ),
)
DELETE_CONNECTION_PARAMS: Final = (
    INTEGRATION_KEY_PARAM,
    Param("revoke", "Whether to revoke the connection's tokens at the provider. Default `true`.", BOOLEAN_SCHEMA),
)
FIND_PROVIDERS_PARAMS: Final = (
    Param("search", "Words to search for in name, display name and categories.", {"type": "string", "maxLength": 510}),
    Param("category", "Only providers in this category."),
    Param("auth_mode", "Only providers with this auth mode."),
    Param("limit", "Maximum number of results. Default: all.", {"type": "integer", "minimum": 1, "maximum": 10**9 - 1}),
    CURSOR_PARAM,
)
FIND_OPERATIONS_PARAMS: Final = (
    Param("search", "Words to search for in id, path and summary."),
    Param("risk", "Only operations of this risk.", {"type": "string", "enum": list(RISKS)}),
    Param("scope", "Only operations whose scopes include this one."),
    Param("starter", "`true`: only the operations that an assistant needs most.", {"type": "string", "enum": ["true"]}),
    Param(
        "granted",
        "Scopes that you have, separated by spaces or commas. The response shows which scopes are missing and which are not needed.",
    ),
    Param("limit", "Maximum number of results. Default 100.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    CURSOR_PARAM,
)
PAGINATE_HEADER: Final = Param(
    "Gateway-Paginate",
    "`all` or a number of pages: fetch the pages and return the whole list, one record per line. For GET, and for POST requests that read a list.",
)
PROXY_HEADERS: Final = (
    Param("Provider-Config-Key", "The integration's key.", KEY_SCHEMA, required=True),
    Param("Connection-Id", "Connection id.", {"type": "string", "minLength": 1, "maxLength": 255}, required=True),
    Param(
        "Base-Url-Override", "Base URL for this call. The provider's entry or the integration must allow its origin."
    ),
    Param("Retries", "Maximum number of retries, 0 to 10. Default 0."),
    Param("Retry-On", "Additional statuses to retry on, such as `409,423`."),
    Param(
        "Decompress",
        "Whether to decompress the provider's response (gzip, deflate, br, zstd).",
        {"type": "string", "enum": ["true", "false"]},
    ),
    Param("Gateway-Timeout", "Maximum seconds until the provider's response begins, such as `2.5`."),
    Param(
        "Gateway-Dry-Run",
        "`true`: return the request that would be sent, and send nothing.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    PAGINATE_HEADER,
    Param("Gateway-Paginate-From", "Cursor from an earlier paginated response; continues from there."),
    Param("Gateway-Select", "JMESPath expression that selects the part of a JSON response to return."),
    Param(
        "Gateway-Max-Bytes",
        "Maximum size of the response in bytes. A longer response is cut after whole values.",
        {"type": "integer", "minimum": 100, "maximum": 1 << 20},
    ),
)
CAPABILITY_URL_HEADERS: Final = PROXY_HEADERS[2:]
SEARCH_LOGS_PARAMS: Final = (
    Param("from", "Start of the time range: ISO 8601, or a duration before now such as `2h`."),
    Param("to", "End of the time range, in the same formats."),
    Param("kind", "Only records of this kind.", {"type": "string", "enum": list(KINDS)}),
    Param("integrationId", "Only records of this integration."),
    Param("connectionId", "Only records of this connection; it may already be deleted."),
    Param("endUserId", "Only records of this end user's connections."),
    LIST_CONNECTIONS_PARAMS[5],
    Param("keyId", "Only records of this minted key, by id.", {"type": "integer", "minimum": 1}),
    Param(
        "status",
        "Only records with this status such as `404`, or status class such as `4xx`.",
        {"type": "string", "pattern": "^([1-5][xX]{2}|[0-9]{3})$"},
    ),
    Param(
        "failed",
        "`true`: only records with an error or a status of 400 or above. `false`: only the others.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    Param("code", "Only records with this error code."),
    Param("method", "Only records with this HTTP method."),
    Param("path", "Only records whose path starts with this text."),
    Param(
        "text",
        "Only records with this text in path, error code or detail. Case-insensitive.",
        {"type": "string", "minLength": 2, "maxLength": 200},
    ),
    Param("tool", "Only calls that an agent made with this MCP tool."),
    Param("requestId", "Only records of the request with this id."),
    Param("traceId", "Only records with this trace id."),
    Param("limit", "Maximum number of results. Default 100.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Param(
        "cursor",
        "Cursor for the next page: `next_cursor` of the previous response.",
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ),
    Param(
        "after",
        "Only operations stored after the one with this id. Use it to follow the log.",
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ),
    Param(
        "include",
        "`operations`: include the other operations of the same request in each record. Returns at most 20 records.",
        {"type": "string", "enum": ["operations"]},
    ),
)
AUDIT_KEY_PARAM: Final = Param(
    "keyId",
    "Id of the minted key that made the call or the change. For `/audit/uses`, 0 means the keys of `gateway.yaml`.",
    {"type": "integer", "minimum": 0},
)
SEARCH_AUDIT_PARAMS: Final = (
    *SEARCH_LOGS_PARAMS[:2],
    Param("action", "Only records of this action.", {"type": "string", "enum": list(AuditAction)}),
    *SEARCH_LOGS_PARAMS[3:5],
    Param(
        "endUserId",
        "Only records that concern this end user. No records match once the end user's data has been erased.",
    ),
    AUDIT_KEY_PARAM,
    Param("limit", "Maximum number of results. Default 100.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Param(
        "cursor", "Cursor for the next page: `next_cursor` of the previous response.", {"type": "integer", "minimum": 1}
    ),
    Param(
        "after",
        "Only records after the one with this sequence number. Use it to follow the audit trail.",
        {"type": "integer", "minimum": 0},
    ),
)
COUNT_USES_PARAMS: Final = (
    *SEARCH_LOGS_PARAMS[:2],
    *SEARCH_LOGS_PARAMS[3:5],
    AUDIT_KEY_PARAM,
    Param("limit", "Maximum number of results. Default 1,000.", {"type": "integer", "minimum": 1, "maximum": 1000}),
)
WAIT_PARAM: Final = Param(
    "wait_s", "Maximum seconds to wait for the first result.", {"type": "integer", "minimum": 0, "maximum": 30}
)
INTEGRATION_KEY_HEADER: Final = (PROXY_HEADERS[0],)

ONE_CONNECTION_ERRORS: Final = ("invalid_uri_params", "unknown_provider_config", "unknown_connection")
REFRESH_ERRORS: Final = (
    *ONE_CONNECTION_ERRORS,
    "unknown_provider_template",
    "reconnect_needed",
    "token_endpoint_unavailable",
)
SCOPE: Final = "environment"
DEPRECATED_ALIAS: Final = "Deprecated alias; use `/connections…`."
HTML: Final = "text/html"

OAUTH_CLIENT: Final = {
    "type": "OAUTH2",
    "client_id": "the-client-id",
    "client_secret": "the-client-secret",
    "scopes": "read:jira-work,offline_access",
}
IMPORT_EXAMPLE: Final = {
    "provider_config_key": "openai",
    "connection_id": "user-1",
    "credentials": {"type": "API_KEY", "apiKey": "…"},
}
SESSION_EXAMPLE: Final = {"end_user": {"id": "user-1", "email": "user@example.com"}, "allowed_integrations": ["jira"]}
METADATA_EXAMPLE: Final = {"connection_id": ["user-1"], "provider_config_key": "jira", "metadata": {"plan": "pro"}}

UPDATE_EXAMPLE: Final = {"tags": {"team": "red"}}
FLAT_IMPORT_EXAMPLE: Final = {"provider_config_key": "openai", "connection_id": "user-1", "apiKey": "…"}


def _form_example(form: credential_forms.Form) -> dict[str, str]:
    """Return an example of the form's fields, without fields that only a few providers need."""
    return dict.fromkeys(sorted(form.names or {"username", "password"}), "…")


# fmt: off
OPERATIONS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/providers", "List providers", PROVIDERS, responses.ProviderList, query=FIND_PROVIDERS_PARAMS, description="The response has an `ETag`. Send it as `If-None-Match` to get 304 if nothing has changed."),
    Endpoint("GET", "/providers/{provider}", "Get a provider", PROVIDERS, responses.ProviderResponseJson, errors=("not_found", "invalid_uri_params")),
    Endpoint("GET", "/providers/{provider}/operations", "List a provider's API operations", PROVIDERS, responses.ApiOperationList, query=FIND_OPERATIONS_PARAMS, errors=("not_found", "invalid_uri_params"), description="Use them in key rules, as agent tools, and to find out which scopes you need. The catalog does not have the operations of every provider, and no list is complete."),

    Endpoint("GET", "/integrations", "List integrations", INTEGRATIONS, responses.IntegrationList, scope=f"{SCOPE}:integrations:list"),
    Endpoint("POST", "/integrations", "Create an integration", INTEGRATIONS, responses.IntegrationResponse, NewIntegration, scope=f"{SCOPE}:integrations:create", example={"provider": "jira", "unique_key": "jira-eu", "credentials": OAUTH_CLIENT}),
    Endpoint("GET", "/integrations/{unique_key}", "Get an integration", INTEGRATIONS, responses.IntegrationResponse, query=(Param("include", "What to include: `webhook` (the webhook URL), `credentials`, or both.", _words("webhook", "credentials")),), errors=("not_found", "invalid_uri_params"), scope=f"{SCOPE}:integrations:read", description="`include=credentials` needs the scope `environment:integrations:read_credentials`; without it, `credentials` is left out."),
    Endpoint("PATCH", "/integrations/{unique_key}", "Update an integration", INTEGRATIONS, responses.IntegrationResponse, IntegrationChanges, errors=("not_found", "invalid_uri_params", "conflict"), scope=f"{SCOPE}:integrations:update", example={"display_name": "Jira (EU)"}, description="Integrations declared in `gateway.yaml` cannot be changed (409 `conflict`)."),
    Endpoint("DELETE", "/integrations/{unique_key}", "Delete an integration and its connections", INTEGRATIONS, responses.DeletedIntegration, errors=("not_found", "invalid_uri_params", "conflict"), scope=f"{SCOPE}:integrations:delete", description="Deletes all connections of the integration and revokes their tokens at the provider; the response is sent after that. Integrations declared in `gateway.yaml` cannot be deleted (409 `conflict`)."),

    Endpoint("GET", "/connections", "List connections", CONNECTIONS, responses.ConnectionList, query=LIST_CONNECTIONS_PARAMS, scope=f"{SCOPE}:connections:list", description="Newest first."),
    Endpoint("POST", "/connections", "Import a credential", CONNECTIONS, responses.ConnectionJson, Import, errors=CREATE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:create", status=201, example=IMPORT_EXAMPLE, description="If a connection with this id exists, its credential is replaced. The fields of `credentials` depend on the provider's auth mode."),
    Endpoint("POST", "/connections/metadata", "Replace metadata", CONNECTIONS, responses.MetadataOf, NewMetadata, errors=ONE_CONNECTION_ERRORS[1:], scope=f"{SCOPE}:connections:update", status=201, example=METADATA_EXAMPLE, description="All or nothing: fails if any id is unknown."),
    Endpoint("PATCH", "/connections/metadata", "Merge metadata", CONNECTIONS, responses.MetadataOf, NewMetadata, errors=ONE_CONNECTION_ERRORS[1:], scope=f"{SCOPE}:connections:update", example=METADATA_EXAMPLE, description="Replaces the given top-level members and keeps all others. All or nothing: fails if any id is unknown."),
    Endpoint("GET", "/connections/{connection_id}", "Get a connection and its credential", CONNECTIONS, responses.ConnectionJson, query=READ_CONNECTION_PARAMS, errors=REFRESH_ERRORS, scope=f"{SCOPE}:connections:read", description="Refreshes the credential first if it is due. `credentials` is filled only for keys with the scope `environment:connections:read_credentials`. If the refresh fails but the token is still valid, the header `Gateway-Refresh-Failed` has the error code."),
    Endpoint("PATCH", "/connections/{connection_id}", "Update a connection's tags, end user or webhook URL", CONNECTIONS, responses.Success, ConnectionChanges, query=(INTEGRATION_KEY_PARAM,), errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:update", example=UPDATE_EXAMPLE),
    Endpoint("DELETE", "/connections/{connection_id}", "Delete a connection and revoke its tokens", CONNECTIONS, responses.DeletedConnection, query=DELETE_CONNECTION_PARAMS, errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:delete"),
    Endpoint("GET", "/connection", "List connections", CONNECTIONS, responses.ConnectionList, query=LIST_CONNECTIONS_PARAMS, scope=f"{SCOPE}:connections:list", description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("POST", "/connection", "Import a credential, with its fields at the top level", CONNECTIONS, responses.AnyJson, responses.AnyJson, example=FLAT_IMPORT_EXAMPLE, response_example={"connection_id": "user-1", "provider_config_key": "openai"}, errors=CREATE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:create", status=201, description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("POST", "/connection/metadata", "Replace metadata", CONNECTIONS, responses.MetadataOf, NewMetadata, errors=ONE_CONNECTION_ERRORS[1:], scope=f"{SCOPE}:connections:update", status=201, example=METADATA_EXAMPLE, description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("PATCH", "/connection/metadata", "Merge metadata", CONNECTIONS, responses.MetadataOf, NewMetadata, errors=ONE_CONNECTION_ERRORS[1:], scope=f"{SCOPE}:connections:update", example=METADATA_EXAMPLE, description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("GET", "/connection/{connection_id}", "Get a connection and its credential", CONNECTIONS, responses.ConnectionJson, query=READ_CONNECTION_PARAMS, errors=REFRESH_ERRORS, scope=f"{SCOPE}:connections:read", description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("PATCH", "/connection/{connection_id}", "Update a connection's tags, end user or webhook URL", CONNECTIONS, responses.Success, ConnectionChanges, example=UPDATE_EXAMPLE, query=(INTEGRATION_KEY_PARAM,), errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:update", description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("DELETE", "/connection/{connection_id}", "Delete a connection and revoke its tokens", CONNECTIONS, responses.DeletedConnection, query=DELETE_CONNECTION_PARAMS, errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:delete", description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("POST", "/connection/{connection_id}/metadata", "Replace metadata", CONNECTIONS, responses.Metadata, responses.Metadata, example=METADATA_EXAMPLE["metadata"], headers=INTEGRATION_KEY_HEADER, errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:update", status=201, description=DEPRECATED_ALIAS, deprecated=True),
    Endpoint("PATCH", "/connection/{connection_id}/metadata", "Merge metadata", CONNECTIONS, responses.Metadata, responses.Metadata, example=METADATA_EXAMPLE["metadata"], headers=INTEGRATION_KEY_HEADER, errors=ONE_CONNECTION_ERRORS, scope=f"{SCOPE}:connections:update", description=DEPRECATED_ALIAS, deprecated=True),

    Endpoint("POST", "/connect/sessions", "Create a connect session", SESSIONS, responses.ConnectSessionResponse, NewSession, scope=f"{SCOPE}:connect_sessions:write", status=201, example=SESSION_EXAMPLE, description="In a connect session, one end user can connect accounts. It expires after `expires_in` seconds (default 1,800)."),
    Endpoint("POST", "/connect/sessions/reconnect", "Create a session to reconnect an existing connection", SESSIONS, responses.ConnectSessionResponse, Reconnect, errors=("unknown_provider_config", "unknown_connection"), scope=f"{SCOPE}:connect_sessions:write", status=201, example={"connection_id": "user-1", "integration_id": "jira"}, description="The end user authorizes again. The connection keeps its id and site, and its end user unless you send another."),
    Endpoint("GET", "/connect/sessions/{session_id}", "Get the result of a connect session", SESSIONS, responses.SessionResult, query=(WAIT_PARAM,), errors=("not_found",), scope=f"{SCOPE}:connect_sessions:write", description="The session's `poll_url` is this URL. The result is available until an hour after the session has ended."),
    Endpoint("POST", "/connect/sessions/{session_id}/complete", "Complete a connect session that has a code challenge", SESSIONS, responses.CompletionResponse, Completion, errors=("not_found", "invalid_code_verifier", "conflict", "connection_id_required", "invalid_connection", "connection_validation_failed", "unknown_provider_config", "unknown_provider_template"), scope=f"{SCOPE}:connect_sessions:write", example={"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "connection_id": "7c1d1c1e-5c0e-4a3a-9a0e-0d5c1f7a2b3c"}, description="Stores the pending connection. Send the `connection_id` of the verified result: it names the connection that this browser made. Call this within 10 minutes of the end user's authorization. A pending connection is not listed and cannot be used for calls. After five wrong verifiers, the session's pending connections are deleted."),
    Endpoint("GET", "/connect/session", "Get the connect session", SESSIONS, responses.SessionResponse, authentication="session"),
    Endpoint("DELETE", "/connect/session", "End the connect session", SESSIONS, authentication="session", status=204),
    Endpoint("GET", "/connect/session/result", "Get the result of the connect session from the browser", SESSIONS, responses.SessionResult, query=(Param("client", "Only results of the window with this `ws_client_id`."), WAIT_PARAM), authentication="session"),
    Endpoint("POST", "/connect/telemetry", "Report a telemetry event of the connect page", SESSIONS, body=Telemetry, example={"token": "…", "event": "open"}, errors=("invalid_connect_session_token_format", "unknown_connect_session_token", "invalid_json", "invalid_body", "invalid_content_type", "body_too_large", "store_unavailable"), authentication="open", status=204, description="Accepted for compatibility and discarded.", internal=True),
    Endpoint("GET", "/connect/", "Connect page (URL of published clients)", SESSIONS, query=(Param("session_token", "The token of the connect session."),), authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/assets/{name}", "Asset of the connect page", SESSIONS, errors=("not_found",), authentication="open", content="*/*", internal=True),
    Endpoint("GET", "/connect/s/{session_id}", "Connect page of a session whose token is in a cookie", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/i/{integration_id}", "Connect page: form of one integration", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("POST", "/connect/s/{session_id}/i/{integration_id}", "Submit the form of one integration", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/i/{integration_id}/result", "Result page of the form", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/leave/{flow}", "Redirect to the provider", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/return", "Redirect to the application with the signed result", SESSIONS, query=(Param("i", "Key of the integration that the result belongs to."),), authentication="open", status=303, content=HTML, internal=True),
    Endpoint("POST", "/oauth/site", "Submit the end user's choice of a site", SESSIONS, authentication="open", content=HTML, internal=True),
    Endpoint("GET", "/connect", "Connect page (the URL in `connect_link`)", SESSIONS, query=(Param("session_token", "The token of the connect session."),), authentication="open", content=HTML),
    Endpoint("GET", "/oauth/connect/{integration_id}", "Start an authorization", SESSIONS, authentication="session", status=302, content=HTML, description="Open this URL in the end user's browser, which is redirected to the page on which the end user confirms. A program is redirected to the provider. If the authorization cannot start, a client that accepts `text/html` gets a page with status 400, and other clients get the error as JSON."),
    Endpoint("GET", "/oauth/callback", "OAuth callback: providers redirect the browser here", SESSIONS, authentication="open", content=HTML),
    Endpoint("GET", "/app-auth/connect", "Callback after the installation of an app", SESSIONS, authentication="open", content=HTML),
    Endpoint("GET", "/oauth/client-metadata/{environment}/{integration_id}", "Get the client metadata document for MCP authorization servers", SESSIONS, responses.ClientMetadata, errors=("not_found",), authentication="open"),
    *(
        Endpoint("POST", f"{path}/{{integration_id}}", f"Connect with credentials that the end user enters: {form.mode}", SESSIONS, responses.Connected, responses.AnyJson, example=_form_example(form), errors=(*CREATE_CONNECTION_ERRORS, "invalid_auth_mode", ("integration_not_allowed", 400), "connect_session_used", "too_many_request", "invalid_connection", "missing_client_id", "missing_client_secret", "client_credentials_fetch_error", "invalid_query_params"), authentication="session")
        for path, form in credential_forms.FORMS.items()
    ),
    Endpoint("POST", "/auth/oauth-outbound/{integration_id}", "Always fails: no provider of the catalog starts an installation itself", SESSIONS, responses.Connected, errors=("unknown_provider_config", "unknown_provider_template", "invalid_auth_mode", ("integration_not_allowed", 400), "invalid_query_params"), authentication="session"),

    Endpoint("POST", "/environment/webhook-signing-key/rotate", "Rotate the signing key for events", ENVIRONMENT, responses.SigningKeyResponse, scope=f"{SCOPE}:webhook_signing_key:rotate", description="Events are signed with both keys until `previous_key_retires_at`. Fails with 409 `conflict` if `gateway.yaml` declares the key.", errors=("conflict",)),
    Endpoint("GET", "/logs", "Search the call log", LOGS, responses.Logs, query=SEARCH_LOGS_PARAMS, scope=f"{SCOPE}:logs:read", description="Returns calls, refreshes, authorizations, event deliveries and webhooks, newest first. A key with limits sees only the records of connections within its limits.", errors=("store_unavailable",)),
    Endpoint("GET", "/audit", "Search the audit trail", LOGS, responses.AuditPage, query=SEARCH_AUDIT_PARAMS, scope=f"{SCOPE}:audit:read", description="Returns the records of this environment, newest first. `gateway audit verify` verifies the hash chain over all environments.", errors=("store_unavailable",)),
    Endpoint("GET", "/audit/uses", "Count which key used which connection", LOGS, responses.CredentialUses, query=COUNT_USES_PARAMS, scope=f"{SCOPE}:audit:read", description="Returns the number of proxied calls for each connection and key, in whole hours. Without `from`, the range is one day.", errors=("store_unavailable",)),
    Endpoint("GET", "/environment/api-keys", "List minted keys", ENVIRONMENT, responses.KeyList, query=(Param("limit", "Maximum number of results. Default 100.", {"type": "integer", "minimum": 1, "maximum": 1000}), Param("cursor", "Cursor for the next page: `next_cursor` of the previous response.", {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}), Param("include", "`ended`: include revoked and expired keys.", {"type": "string", "enum": ["ended"]})), scope=f"{SCOPE}:api_keys:list", description="Newest first. The keys of `gateway.yaml` are not included."),
    Endpoint("POST", "/environment/api-keys", "Mint a key or a capability URL", ENVIRONMENT, responses.NewKeyResponse, NewKeyBody, errors=("unknown_provider_config", "unknown_connection", "not_found", "conflict"), scope=f"{SCOPE}:api_keys:create", example={"display_name": "agent", "scopes": ["environment:proxy"], "limits": {"rules": ["GET /ex/*/rest/api/3/search*"]}, "expires_in_s": 3600}, description="The key is returned only once. It can never do more than the key that mints it."),
    Endpoint("DELETE", "/environment/api-keys", "Revoke a key named in the body", ENVIRONMENT, responses.RevokedKeys, RevokeKeyBody, example={"key_id": 7}, errors=("not_found",), scope=f"{SCOPE}:api_keys:delete"),
    Endpoint("DELETE", "/environment/api-keys/{key_id}", "Revoke a key", ENVIRONMENT, responses.RevokedKeys, errors=("not_found", "invalid_uri_params"), scope=f"{SCOPE}:api_keys:delete", description="Also revokes all keys that it minted. Takes effect on every node within seconds."),
    Endpoint("GET", "/environment-variables", "List the environment's variables", ENVIRONMENT, responses.Variables, scope=f"{SCOPE}:variables:read", description="Returns `environments.<name>.variables` of `gateway.yaml`."),

    Endpoint("GET", "/webhook/{environment}/{unique_key}", "Confirm the webhook URL to a provider", WEBHOOKS, errors=("unknown_provider_template", "not_found"), authentication="open", content="text/plain", description="Some providers verify the URL with a challenge before they send webhooks; the response contains that challenge. Without a query, the response is 200, because some providers check the URL in this way."),
    Endpoint("POST", "/webhook/{environment}/{unique_key}", "Receive a provider's webhook", WEBHOOKS, responses.AnyJson, response_example={"challenge": "…"}, errors=("unknown_provider_template", *WEBHOOK_SIGNATURE_ERRORS, "body_too_large", "store_unavailable"), authentication="open", other_success_statuses=(204,), description="The gateway verifies the provider's signature, unless the integration allows unsigned webhooks. If `forward_webhooks` is true, your application gets an event for each connection that the webhook concerns. 204: the gateway does not handle webhooks of this provider."),

    Endpoint("*", "/proxy/{path}", "Send a request to the provider", PROXY, headers=PROXY_HEADERS, errors=PROXY_ERRORS, scope=f"{SCOPE}:proxy", content="*/*", description="Adds the connection's credential and returns the provider's response. A response with the header `Gateway-Error` is an error of the gateway."),
    Endpoint("*", "/c/{capability}/{path}", "Send a request to the provider by a capability URL", PROXY, headers=CAPABILITY_URL_HEADERS, errors=(*PROXY_ERRORS, "unknown_account", "forbidden", "too_many_request"), authentication="open", content="*/*", description="The capability in the URL stands for a key and one connection. Append paths of the provider's API to it."),
    Endpoint("*", "/c/{capability}", "Send a request to the provider's base URL by a capability URL", PROXY, headers=CAPABILITY_URL_HEADERS, errors=(*PROXY_ERRORS, "unknown_account", "forbidden", "too_many_request"), authentication="open", content="*/*"),
    Endpoint("*", "/proxy", "Send a request to the provider's base URL", PROXY, headers=PROXY_HEADERS, errors=PROXY_ERRORS, scope=f"{SCOPE}:proxy", content="*/*"),
    Endpoint("POST", "/mcp", "Send an MCP (Model Context Protocol) message", AGENTS, responses.AnyJson, responses.AnyJson, response_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, scope=f"{SCOPE}:proxy", other_success_statuses=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, description="Needs a minted key; its rules define the tools. MCP protocol errors are JSON-RPC errors, with the HTTP status that MCP specifies. A client that accepts text/event-stream gets the other errors as JSON-RPC errors too."),
    Endpoint("POST", "/sessions", "Create an agent session", AGENTS, responses.AgentSessionResponse, NewAgentSession, errors=(*AGENT_SESSION_ERRORS, "unknown_connection", "conflict", "not_offered"), scope=f"{SCOPE}:agent_sessions:write", example={"tenant": {"connections": {"any": [{"tags": {"team": "red"}}]}}, "toolset": {"jira": {"allow": {"tools": ["search_issues", "get_issue"]}}}, "expires_in": "1h"}, description="The session uses one connection for each integration and offers operations of the catalog as tools. Its token is a minted key, returned only once."),
    Endpoint("DELETE", "/sessions/{session_id}", "End an agent session", AGENTS, responses.EndedAgentSessionResponse, errors=("session_not_found",), scope=f"{SCOPE}:agent_sessions:write"),
    Endpoint("POST", "/session/{session_id}/mcp", "Send an MCP message in an agent session", AGENTS, responses.AnyJson, responses.AnyJson, response_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, errors=("session_not_found",), scope=f"{SCOPE}:proxy", other_success_statuses=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, description="Like `POST /mcp`, but needs the session's own token."),
    Endpoint("POST", "/sessions/{session_id}/mcp", "Alias of `/session/{session_id}/mcp`", AGENTS, responses.AnyJson, responses.AnyJson, response_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, errors=("session_not_found",), scope=f"{SCOPE}:proxy", other_success_statuses=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, description="Like `POST /mcp`, but needs the session's own token."),
    Endpoint("*", "/c/{capability}/mcp", "Send an MCP message by a capability URL", AGENTS, errors=(*PROXY_ERRORS, "unknown_account", "forbidden", "too_many_request"), authentication="open", content="*/*", description="Accepts only `POST`. If the provider is itself an MCP server, requests of any method are forwarded to it."),

    Endpoint("GET", "/health", "Liveness check", HEALTH, responses.Result, authentication="open"),
    Endpoint("GET", "/ready", "Readiness check", HEALTH, responses.Readiness, authentication="open", errors=(), description="200 while the node accepts calls. 503 with the same shape before that, and from the moment a stop begins."),
    Endpoint("GET", "/openapi.json", "OpenAPI document", HEALTH, responses.AnyJson, response_example={"openapi": "3.1.0", "info": {"title": "Integration gateway"}, "paths": {}}, authentication="open"),
    Endpoint("GET", "/docs", "API reference page", HEALTH, authentication="open", content=HTML),
    Endpoint("GET", "/console", "Console for operators", HEALTH, authentication="open", errors=("not_found",), status=303, content=HTML),
    Endpoint("GET", "/console/{tail}", "Console page; with `.json` appended, its data", HEALTH, authentication="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("POST", "/console/{tail}", "Submit a form of the console", HEALTH, authentication="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("GET", "/console/sign-in", "Sign-in page (the link that `gateway console` prints)", HEALTH, authentication="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("POST", "/console/sign-in", "Sign in to the console", HEALTH, authentication="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/sign-in/oidc", "Redirect to the identity provider", HEALTH, authentication="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/callback", "Sign-in callback of the identity provider", HEALTH, authentication="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("POST", "/console/sign-out", "Sign out of the console", HEALTH, authentication="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/logos/{name}.svg", "Provider logo for the console", HEALTH, authentication="open", errors=("not_found",), content="image/svg+xml", internal=True),
    Endpoint("GET", "/console/assets/{name}", "Style, script and icon of the console", HEALTH, authentication="open", errors=("not_found",), content="*/*", internal=True),
    Endpoint("GET", "/providers/{provider}/guide", "Provider setup guide page", PROVIDERS, authentication="open", content=HTML, errors=("not_found",)),
    Endpoint("GET", "/guides", "Provider list page, with a link to each setup guide", PROVIDERS, query=(FIND_PROVIDERS_PARAMS[0], FIND_PROVIDERS_PARAMS[1], CURSOR_PARAM), authentication="open", content=HTML),
    Endpoint("GET", "/images/template-logos/{name}.svg", "Provider logo", PROVIDERS, authentication="open", content="image/svg+xml", errors=("not_found",), internal=True),
)
# fmt: on
