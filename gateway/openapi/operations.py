"""Every route, one entry each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from typing_extensions import TypeAliasType

from gateway.api import answers, typed_in
from gateway.api.agent_sessions import NewAgentSession
from gateway.api.connect_endpoints import NewSession, Reconnect
from gateway.api.connection_import import Import
from gateway.api.connections import MOST, ConnectionChanges, NewMetadata
from gateway.api.integration_shapes import IntegrationChanges, NewIntegration
from gateway.api.keys import GoneKeyBody, NewKeyBody
from gateway.api.session_results import Completion, Telemetry
from gateway.catalog.api_operations import RISKS
from gateway.errors import Code
from gateway.openapi.codes import MAKING, PROXIED, SESSION_REFUSED, WEBHOOK_SIGNATURE
from gateway.records.audit import AuditAction
from gateway.records.operation import KINDS

# ── The description of one route.

Who = Literal["key", "session", "open"]
Shape = type[Any] | TypeAliasType  # a request model, or a shape of gateway/api/answers.py


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter or a header. `schema`: JSON Schema. `style` ``deepObject`` is ``name[key]=value``."""

    name: str
    says: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    style: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `path` has its parameters as ``{name}``; `method` ``*`` is any.

    `who` may call it: the holder of a secret key with `scope`, an end user's browser with a connect session, or anyone.
    `errors`: the codes of this route, besides those that every route has; with a status if it is not the code's usual
    one. `also`: other success statuses, without a body. `content`: the type of an answer that is not JSON. `example`:
    an example body.
    """

    method: str
    path: str
    summary: str
    group: str
    answer: Shape | None = None
    body: Shape | None = None
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    errors: tuple[Code | tuple[Code, int], ...] = ()
    scope: str | None = None
    who: Who = "key"
    status: int = 200
    also: tuple[int, ...] = ()
    content: str = "application/json"
    more: str = ""
    example: Any = None
    deprecated: bool = False
    internal: bool = False
    answer_example: Any = None

    @property
    def id(self) -> str:
        """A name for generated clients and for links: ``get_connections_connection_id``."""
        words = "".join(char if char.isalnum() else " " for char in self.path).split()
        end = ["index"] if self.path.endswith("/") else []
        return "_".join(["any" if self.method == "*" else self.method.lower(), *words, *end]).lower()


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

TRUTH: Final = {"type": "string", "enum": ["true", "false", "1", "0", "yes", "no", "on", "off"]}
TEXT: Final = {"type": "string"}
KEY: Final = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9~:.@ _-]+$"}
OF: Final = Param("provider_config_key", "The integration's key.", KEY, required=True)
CURSOR: Final = Param("cursor", "Where to go on: `next_cursor` of the last answer.")


def _words(*words: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(words)}}


LIST: Final = (
    Param("connectionId", "Exactly this id."),
    Param("search", "Part of the id, or of the end user's name or e-mail, in any case."),
    Param("endUserId", "Only connections of this end user."),
    Param("endUserOrganizationId", "Only connections of this organization."),
    Param("integrationId", "Only connections of these integrations: keys separated by commas."),
    Param(
        "tags",
        "That have all these tags: `tags[team]=red`.",
        {
            "type": "object",
            "propertyNames": {"pattern": "^[a-zA-Z][a-zA-Z0-9_./-]{0,63}$"},
            "additionalProperties": TEXT,
            "maxProperties": 10,
        },
        style="deepObject",
    ),
    Param(
        "limit",
        "Maximum number of results, 1 to 2,000. Default 10,000. If there are more, `next_cursor` continues.",
        {"type": "integer", "minimum": 1, "maximum": MOST},
    ),
    Param(
        "page", "Which page of that size, from 0; or use `cursor`.", {"type": "integer", "minimum": 0, "maximum": 10**9}
    ),
    CURSOR,
    Param(
        "missingScopes",
        "true: those that lack scopes which their integration, or the provider's API, asks for. Up to 10,000 connections are looked at; go on at `next_cursor`.",
    ),
)
READ: Final = (
    OF,
    Param("force_refresh", "Refresh the credential now.", TRUTH),
    Param("refresh_token", "Show the refresh token too.", TRUTH),
    Param("refresh_github_app_jwt_token", "Understood, and without effect.", TRUTH),
    Param("include", "`history`: how it came to be as it is, and what helps.", {"type": "string", "enum": ["history"]}),
)
DELETE: Final = (OF, Param("revoke", "`false` leaves its tokens alive at the provider.", TRUTH))
FIND: Final = (
    Param("search", "Words in name, display name and categories.", {"type": "string", "maxLength": 510}),
    Param("category", "One that the catalog has."),
    Param("auth_mode", "One that the catalog has."),
    Param("limit", "How many at most; all if left out.", {"type": "integer", "minimum": 1, "maximum": 10**9 - 1}),
    CURSOR,
)
FIND_OPERATIONS: Final = (
    Param("search", "Words in id, path and summary."),
    Param("risk", "Only operations of this risk.", {"type": "string", "enum": list(RISKS)}),
    Param("scope", "That name this scope."),
    Param("starter", "`true`: those that an assistant needs most.", {"type": "string", "enum": ["true"]}),
    Param("granted", "Scopes, with spaces or commas between: what they lack, and what is not needed."),
    Param("limit", "How many at most; 100 if left out.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    CURSOR,
)
PAGED: Final = Param(
    "Gateway-Paginate",
    "`all`, or a number of pages: the whole list, one record a line. With GET, and with a POST that requests a list.",
)
ON_BEHALF: Final = (
    Param("Provider-Config-Key", "The integration's key.", KEY, required=True),
    Param(
        "Connection-Id", "The connection in it.", {"type": "string", "minLength": 1, "maxLength": 255}, required=True
    ),
    Param("Base-Url-Override", "Another base address for this call, of those that are allowed."),
    Param("Retries", "How often to try again, 0 to 10."),
    Param("Retry-On", "More statuses to try again on: `409,423`."),
    Param("Decompress", "Undo the provider's content coding.", {"type": "string", "enum": ["true", "false"]}),
    Param("Gateway-Timeout", "Seconds until the answer begins."),
    Param("Gateway-Dry-Run", "`true`: show the request, send nothing.", {"type": "string", "enum": ["true", "false"]}),
    PAGED,
    Param("Gateway-Paginate-From", "The cursor of such an answer."),
    Param("Gateway-Select", "A JMESPath expression: only this of a JSON answer."),
    Param(
        "Gateway-Max-Bytes",
        "At most so many bytes of the answer, cut by whole values.",
        {"type": "integer", "minimum": 100, "maximum": 1 << 20},
    ),
)
BY_ADDRESS: Final = ON_BEHALF[2:]
SEARCH_LOGS: Final = (
    Param("from", "The beginning of the time span: ISO 8601, or a duration before now such as `2h`."),
    Param("to", "The end of the time span."),
    Param("kind", "Only records of this kind.", {"type": "string", "enum": list(KINDS)}),
    Param("integrationId", "Only records of this integration."),
    Param("connectionId", "Only records of this connection, which may be deleted."),
    Param("endUserId", "Only records of this end user's connections."),
    LIST[5],
    Param("keyId", "Only records of this minted key.", {"type": "integer", "minimum": 1}),
    Param(
        "status",
        "A status such as `404`, or a class such as `4xx`.",
        {"type": "string", "pattern": "^([1-5][xX]{2}|[0-9]{3})$"},
    ),
    Param(
        "failed",
        "Only records with (`true`) or without (`false`) an error or a status from 400.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    Param("code", "Only records with this error code."),
    Param("method", "Only records with this method."),
    Param("path", "Only records whose path begins with this text."),
    Param(
        "text",
        "Only records with this text in path, code or detail; upper and lower case are the same.",
        {"type": "string", "minLength": 2, "maxLength": 200},
    ),
    Param("tool", "Made by an agent with this tool."),
    Param("requestId", "Under this request id."),
    Param("traceId", "Only records of this trace."),
    Param("limit", "How many at most; 100 if left out.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Param(
        "cursor",
        "Where to go on: `next_cursor` of the last answer.",
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ),
    Param(
        "after",
        "Stored after the operation with this id: to follow the log.",
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ),
    Param(
        "include",
        "`operations`: with the others under each one's request; at most 20 then.",
        {"type": "string", "enum": ["operations"]},
    ),
)
KEY_OF_AUDIT: Final = Param(
    "keyId",
    "Only records of this minted key; 0, for `/audit/uses`: the keys of `gateway.yaml`.",
    {"type": "integer", "minimum": 0},
)
SEARCH_AUDIT: Final = (
    *SEARCH_LOGS[:2],
    Param("action", "Only records of this action.", {"type": "string", "enum": list(AuditAction)}),
    *SEARCH_LOGS[3:5],
    Param("endUserId", "Only records on behalf of this end user; none are found after the end user was forgotten."),
    KEY_OF_AUDIT,
    Param("limit", "How many at most; 100 if left out.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Param("cursor", "Where to go on: `next_cursor` of the last answer.", {"type": "integer", "minimum": 1}),
    Param(
        "after", "Behind the record with this sequence number: to follow the trail.", {"type": "integer", "minimum": 0}
    ),
)
SUM_USES: Final = (
    *SEARCH_LOGS[:2],
    *SEARCH_LOGS[3:5],
    KEY_OF_AUDIT,
    Param("limit", "How many at most; 1000 if left out.", {"type": "integer", "minimum": 1, "maximum": 1000}),
)
WAIT: Final = Param(
    "wait_s", "Wait so long for the first outcome, in seconds.", {"type": "integer", "minimum": 0, "maximum": 30}
)
IN_HEADER: Final = (ON_BEHALF[0],)

OF_ONE: Final = ("invalid_uri_params", "unknown_provider_config", "unknown_connection")
REFRESHED: Final = (*OF_ONE, "unknown_provider_template", "reconnect_needed", "token_endpoint_unavailable")
SCOPE: Final = "environment"
AGAIN: Final = "The name of before; use `/connections…`."
HTML: Final = "text/html"

OAUTH_CLIENT: Final = {
    "type": "OAUTH2",
    "client_id": "the-client-id",
    "client_secret": "the-client-secret",
    "scopes": "read:jira-work,offline_access",
}
A_KEY: Final = {
    "provider_config_key": "openai",
    "connection_id": "user-1",
    "credentials": {"type": "API_KEY", "apiKey": "…"},
}
SESSION: Final = {"end_user": {"id": "user-1", "email": "user@example.com"}, "allowed_integrations": ["jira"]}
NOTED: Final = {"connection_id": ["user-1"], "provider_config_key": "jira", "metadata": {"plan": "pro"}}

CHANGED: Final = {"tags": {"team": "red"}}
FLAT: Final = {"provider_config_key": "openai", "connection_id": "user-1", "apiKey": "…"}


def _form_example(form: typed_in.Form) -> dict[str, str]:
    """Return an example of the form's fields, without fields that only a few providers need."""
    return dict.fromkeys(sorted(form.names or {"username", "password"}), "…")


# fmt: off
OPERATIONS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/providers", "List the catalog", PROVIDERS, answers.ProviderList, query=FIND, more="With an `ETag`; `If-None-Match` saves the body."),
    Endpoint("GET", "/providers/{provider}", "Read one entry", PROVIDERS, answers.ProviderAnswerJson, errors=("not_found", "invalid_uri_params")),
    Endpoint("GET", "/providers/{provider}/operations", "List API operations of a provider", PROVIDERS, answers.ApiOperationList, query=FIND_OPERATIONS, errors=("not_found", "invalid_uri_params"), more="What its API can do: for rules of keys, agents and scopes. Not every provider has them, and none has all."),

    Endpoint("GET", "/integrations", "List the integrations", INTEGRATIONS, answers.IntegrationList, scope=f"{SCOPE}:integrations:list"),
    Endpoint("POST", "/integrations", "Make an integration", INTEGRATIONS, answers.IntegrationAnswer, NewIntegration, scope=f"{SCOPE}:integrations:create", example={"provider": "jira", "unique_key": "jira-eu", "credentials": OAUTH_CLIENT}),
    Endpoint("GET", "/integrations/{unique_key}", "Read an integration", INTEGRATIONS, answers.IntegrationAnswer, query=(Param("include", "`webhook` and `credentials` add these; may be repeated.", _words("webhook", "credentials")),), errors=("not_found", "invalid_uri_params"), scope=f"{SCOPE}:integrations:read", more="`credentials` need the scope `environment:integrations:read_credentials`."),
    Endpoint("PATCH", "/integrations/{unique_key}", "Change an integration", INTEGRATIONS, answers.IntegrationAnswer, IntegrationChanges, errors=("not_found", "invalid_uri_params", "conflict"), scope=f"{SCOPE}:integrations:update", example={"display_name": "Jira (EU)"}, more="Not one that `gateway.yaml` declares."),
    Endpoint("DELETE", "/integrations/{unique_key}", "Delete an integration and its connections", INTEGRATIONS, answers.DeletedIntegration, errors=("not_found", "invalid_uri_params", "conflict"), scope=f"{SCOPE}:integrations:delete", more="Answers when all are gone, and their tokens ended at the provider. Not one that `gateway.yaml` declares."),

    Endpoint("GET", "/connections", "List the connections", CONNECTIONS, answers.ConnectionList, query=LIST, scope=f"{SCOPE}:connections:list", more="Newest first."),
    Endpoint("POST", "/connections", "Import a credential", CONNECTIONS, answers.ConnectionJson, Import, errors=MAKING, scope=f"{SCOPE}:connections:create", status=201, example=A_KEY, more="The same id again replaces what it held. Which fields `credentials` have depends on the provider's auth mode."),
    Endpoint("POST", "/connections/metadata", "Set metadata", CONNECTIONS, answers.MetadataOf, NewMetadata, errors=OF_ONE[1:], scope=f"{SCOPE}:connections:update", status=201, example=NOTED, more="All or nothing: fails if one of the ids is unknown."),
    Endpoint("PATCH", "/connections/metadata", "Merge metadata", CONNECTIONS, answers.MetadataOf, NewMetadata, errors=OF_ONE[1:], scope=f"{SCOPE}:connections:update", example=NOTED, more="Top-level members that are not named stay."),
    Endpoint("GET", "/connections/{connection_id}", "Read a connection, refreshed where due", CONNECTIONS, answers.ConnectionJson, query=READ, errors=REFRESHED, scope=f"{SCOPE}:connections:read", more="`credentials` need the scope `environment:connections:read_credentials`. The header `Gateway-Refresh-Failed` names why a token that is still valid could not be refreshed."),
    Endpoint("PATCH", "/connections/{connection_id}", "Change tags, end user or webhook address", CONNECTIONS, answers.Success, ConnectionChanges, query=(OF,), errors=OF_ONE, scope=f"{SCOPE}:connections:update", example=CHANGED),
    Endpoint("DELETE", "/connections/{connection_id}", "Delete a connection and end its tokens", CONNECTIONS, answers.DeletedConnection, query=DELETE, errors=OF_ONE, scope=f"{SCOPE}:connections:delete"),
    Endpoint("GET", "/connection", "List the connections", CONNECTIONS, answers.ConnectionList, query=LIST, scope=f"{SCOPE}:connections:list", more=AGAIN, deprecated=True),
    Endpoint("POST", "/connection", "Import a credential, its fields beside the rest", CONNECTIONS, answers.AnyJson, answers.AnyJson, example=FLAT, answer_example={"connection_id": "user-1", "provider_config_key": "openai"}, errors=MAKING, scope=f"{SCOPE}:connections:create", status=201, more=AGAIN, deprecated=True),
    Endpoint("GET", "/connection/{connection_id}", "Read a connection", CONNECTIONS, answers.ConnectionJson, query=READ, errors=REFRESHED, scope=f"{SCOPE}:connections:read", more=AGAIN, deprecated=True),
    Endpoint("PATCH", "/connection/{connection_id}", "Change a connection", CONNECTIONS, answers.Success, ConnectionChanges, example=CHANGED, query=(OF,), errors=OF_ONE, scope=f"{SCOPE}:connections:update", more=AGAIN, deprecated=True),
    Endpoint("DELETE", "/connection/{connection_id}", "Delete a connection", CONNECTIONS, answers.DeletedConnection, query=DELETE, errors=OF_ONE, scope=f"{SCOPE}:connections:delete", more=AGAIN, deprecated=True),
    Endpoint("POST", "/connection/{connection_id}/metadata", "Set metadata", CONNECTIONS, answers.Metadata, answers.Metadata, example=NOTED["metadata"], headers=IN_HEADER, errors=OF_ONE, scope=f"{SCOPE}:connections:update", status=201, more=AGAIN, deprecated=True),
    Endpoint("PATCH", "/connection/{connection_id}/metadata", "Merge metadata", CONNECTIONS, answers.Metadata, answers.Metadata, example=NOTED["metadata"], headers=IN_HEADER, errors=OF_ONE, scope=f"{SCOPE}:connections:update", more=AGAIN, deprecated=True),

    Endpoint("POST", "/connect/sessions", "Make a connect session", SESSIONS, answers.ConnectSessionAnswer, NewSession, scope=f"{SCOPE}:connect_sessions:write", status=201, example=SESSION, more="In which one end user may connect: for 30 minutes, or for `expires_in` seconds."),
    Endpoint("POST", "/connect/sessions/reconnect", "Make a session to authorize one connection again", SESSIONS, answers.ConnectSessionAnswer, Reconnect, errors=("unknown_provider_config", "unknown_connection"), scope=f"{SCOPE}:connect_sessions:write", status=201, example={"connection_id": "user-1", "integration_id": "jira"}, more="Its id, its site and its end user stay."),
    Endpoint("GET", "/connect/sessions/{session_id}", "Read the result of a session", SESSIONS, answers.SessionResult, query=(WAIT,), errors=("not_found",), scope=f"{SCOPE}:connect_sessions:write", more="Its `poll_url`."),
    Endpoint("POST", "/connect/sessions/{session_id}/complete", "Complete what a session with a code challenge has connected", SESSIONS, answers.CompletionAnswer, Completion, errors=("not_found", "invalid_code_verifier", "conflict", "connection_id_required", "invalid_connection", "connection_validation_failed", "unknown_provider_config", "unknown_provider_template"), scope=f"{SCOPE}:connect_sessions:write", example={"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "connection_id": "7c1d1c1e-5c0e-4a3a-9a0e-0d5c1f7a2b3c"}, more="Send the `connection_id` of the verified result: it names what this browser has connected. Within 10 minutes of the end user's authorization. Until then its connections are pending: in no list, and not proxied. Five wrong verifiers drop them."),
    Endpoint("GET", "/connect/session", "Read the session", SESSIONS, answers.SessionAnswer, who="session"),
    Endpoint("DELETE", "/connect/session", "End the session", SESSIONS, who="session", status=204),
    Endpoint("GET", "/connect/session/result", "Read the result of the session, from the browser", SESSIONS, answers.SessionResult, query=(Param("client", "Of the window that named it as `ws_client_id` alone."), WAIT), who="session"),
    Endpoint("POST", "/connect/telemetry", "Report what the page's user does", SESSIONS, body=Telemetry, example={"token": "…", "event": "open"}, errors=("invalid_connect_session_token_format", "unknown_connect_session_token", "invalid_json", "invalid_body", "invalid_content_type", "body_too_large", "store_unavailable"), who="open", status=204, more="Taken and forgotten.", internal=True),
    Endpoint("GET", "/connect/", "The same page, at the address that published clients know", SESSIONS, query=(Param("session_token", "The token of the connect session."),), who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/assets/{name}", "A file of the page", SESSIONS, errors=("not_found",), who="open", content="*/*", internal=True),
    Endpoint("GET", "/connect/s/{session_id}", "The page, once the token is in a cookie", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/i/{integration_id}", "Its form of one integration", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("POST", "/connect/s/{session_id}/i/{integration_id}", "What was typed into that form", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/i/{integration_id}/result", "The result of that form", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/leave/{flow}", "On to the provider", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect/s/{session_id}/return", "Back to the application, with the signed result", SESSIONS, query=(Param("i", "The integration that the result belongs to."),), who="open", status=303, content=HTML, internal=True),
    Endpoint("POST", "/oauth/site", "The choice of a site, where several fit", SESSIONS, who="open", content=HTML, internal=True),
    Endpoint("GET", "/connect", "The page behind `connect_link`", SESSIONS, query=(Param("session_token", "The token of the connect session."),), who="open", content=HTML),
    Endpoint("GET", "/oauth/connect/{integration_id}", "Begin an authorization", SESSIONS, who="session", status=302, content=HTML, more="Navigated to by a browser; 400 with a page where it cannot begin."),
    Endpoint("GET", "/oauth/callback", "Where providers send the browser back to", SESSIONS, who="open", content=HTML),
    Endpoint("GET", "/app-auth/connect", "The same, where an app was installed", SESSIONS, who="open", content=HTML),
    Endpoint("GET", "/oauth/client-metadata/{environment}/{integration_id}", "Who we are, for MCP authorization servers", SESSIONS, answers.ClientMetadata, errors=("not_found",), who="open"),
    *(
        Endpoint("POST", f"{path}/{{integration_id}}", f"Connect with credentials that the end user typed in: {form.mode}", SESSIONS, answers.Connected, answers.AnyJson, example=_form_example(form), errors=(*MAKING, "invalid_auth_mode", ("integration_not_allowed", 400), "connect_session_used", "invalid_connection", "missing_client_id", "missing_client_secret", "client_credentials_fetch_error", "invalid_query_params"), who="session")
        for path, form in typed_in.FORMS.items()
    ),
    Endpoint("POST", "/auth/oauth-outbound/{integration_id}", "Always refused: no provider of the catalog starts an installation itself", SESSIONS, answers.Connected, errors=("unknown_provider_config", "unknown_provider_template", "invalid_auth_mode", ("integration_not_allowed", 400), "invalid_query_params"), who="session"),

    Endpoint("POST", "/environment/webhook-signing-key/rotate", "Sign events with a new key", ENVIRONMENT, answers.SigningKeyAnswer, scope=f"{SCOPE}:webhook_signing_key:rotate", more="The former key signs beside it for a while. Not where `gateway.yaml` names the key.", errors=("conflict",)),
    Endpoint("GET", "/logs", "Search the call log", LOGS, answers.Logs, query=SEARCH_LOGS, scope=f"{SCOPE}:logs:read", more="Calls, refreshes, authorizations, deliveries of events and webhooks, newest first. A key that is limited to connections sees theirs only.", errors=("store_unavailable",)),
    Endpoint("GET", "/audit", "Read the audit trail", LOGS, answers.AuditPage, query=SEARCH_AUDIT, scope=f"{SCOPE}:audit:read", more="The records of this environment, newest first. `gateway audit verify` checks the chain of the records of all environments.", errors=("store_unavailable",)),
    Endpoint("GET", "/audit/uses", "Add up which key used which connection", LOGS, answers.CredentialUses, query=SUM_USES, scope=f"{SCOPE}:audit:read", more="Proxied calls by connection and key, over whole hours; the last day without `from`.", errors=("store_unavailable",)),
    Endpoint("GET", "/environment/api-keys", "List the keys", ENVIRONMENT, answers.KeyList, query=(Param("limit", "The maximum number of keys.", {"type": "integer", "minimum": 1, "maximum": 1000}), Param("cursor", "Where to go on: `next_cursor` of the last answer.", {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}), Param("include", "`ended`: those too that are revoked or have expired.", {"type": "string", "enum": ["ended"]})), scope=f"{SCOPE}:api_keys:list", more="Keys that `gateway.yaml` names are not listed."),
    Endpoint("POST", "/environment/api-keys", "Mint a key or a capability address", ENVIRONMENT, answers.NewKeyAnswer, NewKeyBody, errors=("unknown_provider_config", "unknown_connection", "not_found", "conflict"), scope=f"{SCOPE}:api_keys:create", example={"display_name": "agent", "scopes": ["environment:proxy"], "limits": {"rules": ["GET /ex/*/rest/api/3/search*"]}, "expires_in_s": 3600}, more="It may never do more than the key that mints it."),
    Endpoint("DELETE", "/environment/api-keys", "Revoke a key, named in the body", ENVIRONMENT, answers.RevokedKeys, GoneKeyBody, example={"key_id": 7}, errors=("not_found",), scope=f"{SCOPE}:api_keys:delete"),
    Endpoint("DELETE", "/environment/api-keys/{key_id}", "Revoke a key", ENVIRONMENT, answers.RevokedKeys, errors=("not_found", "invalid_uri_params"), scope=f"{SCOPE}:api_keys:delete", more="And those that it minted; on every node within seconds."),
    Endpoint("GET", "/environment-variables", "Read the environment's variables", ENVIRONMENT, answers.Variables, scope=f"{SCOPE}:variables:read", more="Those of `environments.<name>.variables` in `gateway.yaml`."),

    Endpoint("GET", "/webhook/{environment}/{unique_key}", "Answer a provider that asks whether the address is ours", WEBHOOKS, errors=("unknown_provider_template", "not_found"), who="open", content="text/plain"),
    Endpoint("POST", "/webhook/{environment}/{unique_key}", "Take a provider's webhook", WEBHOOKS, answers.AnyJson, answer_example={"challenge": "…"}, errors=("unknown_provider_template", *WEBHOOK_SIGNATURE, "body_too_large", "store_unavailable"), who="open", also=(204,), more="Proven by the provider's signature. Connections that it is about get it as an event."),

    Endpoint("*", "/proxy/{path}", "Send a request to the provider", PROXY, headers=ON_BEHALF, errors=PROXIED, scope=f"{SCOPE}:proxy", content="*/*", more="The provider's own answer comes back; an answer with the header `Gateway-Error` is ours."),
    Endpoint("*", "/c/{capability}/{path}", "Send a request by a capability address", PROXY, headers=BY_ADDRESS, errors=(*PROXIED, "unknown_account", "forbidden", "too_many_request"), who="open", content="*/*", more="The address says who calls and for which connection; below it lies the provider's own API."),
    Endpoint("*", "/c/{capability}", "Send a request to the provider's base address, likewise", PROXY, headers=BY_ADDRESS, errors=(*PROXIED, "unknown_account", "forbidden", "too_many_request"), who="open", content="*/*"),
    Endpoint("*", "/proxy", "Send a request to the provider's base address", PROXY, headers=ON_BEHALF, errors=PROXIED, scope=f"{SCOPE}:proxy", content="*/*"),
    Endpoint("POST", "/mcp", "Send a message of the Model Context Protocol", AGENTS, answers.AnyJson, answers.AnyJson, answer_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, scope=f"{SCOPE}:proxy", also=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, more="For minted keys alone: their rules are the tools. An error of the protocol itself is an answer by JSON-RPC, with the status that the protocol names."),
    Endpoint("POST", "/sessions", "Make an agent session", AGENTS, answers.AgentSessionAnswer, NewAgentSession, errors=(*SESSION_REFUSED, "unknown_connection", "conflict", "not_offered"), scope=f"{SCOPE}:agent_sessions:write", example={"tenant": {"connections": {"any": [{"tags": {"team": "red"}}]}}, "toolset": {"jira": {"allow": {"tools": ["search_issues", "get_issue"]}}}, "expires_in": "1h"}, more="One connection of each integration, and operations of the catalog as tools. The token is a minted key."),
    Endpoint("DELETE", "/sessions/{session_id}", "End an agent session", AGENTS, answers.EndedAgentSessionAnswer, errors=("session_not_found",), scope=f"{SCOPE}:agent_sessions:write"),
    Endpoint("POST", "/session/{session_id}/mcp", "Send a message in an agent session", AGENTS, answers.AnyJson, answers.AnyJson, answer_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, errors=("session_not_found",), scope=f"{SCOPE}:proxy", also=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, more="As `POST /mcp`, for the session's own token alone."),
    Endpoint("POST", "/sessions/{session_id}/mcp", "Send a message in an agent session, likewise", AGENTS, answers.AnyJson, answers.AnyJson, answer_example={"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, errors=("session_not_found",), scope=f"{SCOPE}:proxy", also=(202,), example={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, more="As `POST /mcp`, for the session's own token alone."),
    Endpoint("*", "/c/{capability}/mcp", "Send such a message by a capability address", AGENTS, errors=(*PROXIED, "unknown_account", "forbidden", "too_many_request"), who="open", content="*/*", more="`POST` alone. Where the provider is an MCP server itself, any method goes to it."),

    Endpoint("GET", "/health", "Whether the process lives", HEALTH, answers.Result, who="open"),
    Endpoint("GET", "/ready", "Whether it serves", HEALTH, answers.Readiness, who="open", errors=(), more="503 with the same shape before it does, and from the moment a stop begins."),
    Endpoint("GET", "/openapi.json", "This description", HEALTH, answers.AnyJson, answer_example={"openapi": "3.1.0", "info": {"title": "Integration gateway"}, "paths": {}}, who="open"),
    Endpoint("GET", "/docs", "The same as a page", HEALTH, who="open", content=HTML),
    Endpoint("GET", "/console", "The console, for operators", HEALTH, who="open", errors=("not_found",), status=303, content=HTML),
    Endpoint("GET", "/console/{tail}", "A page of it; its data with `.json` at the end", HEALTH, who="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("POST", "/console/{tail}", "A form of it", HEALTH, who="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("GET", "/console/sign-in", "The page behind a link of `gateway console`", HEALTH, who="open", errors=("not_found",), content=HTML, internal=True),
    Endpoint("POST", "/console/sign-in", "Its button", HEALTH, who="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/sign-in/oidc", "On to the identity provider", HEALTH, who="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/callback", "Back from it, with a session", HEALTH, who="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("POST", "/console/sign-out", "The end of a session at the console", HEALTH, who="open", errors=("not_found",), status=303, content=HTML, internal=True),
    Endpoint("GET", "/console/logos/{name}.svg", "A provider's logo, for its pages", HEALTH, who="open", errors=("not_found",), content="image/svg+xml", internal=True),
    Endpoint("GET", "/console/assets/{name}", "Its style, script and icon", HEALTH, who="open", errors=("not_found",), content="*/*", internal=True),
    Endpoint("GET", "/providers/{provider}/guide", "How to set a provider up, as a page", PROVIDERS, who="open", content=HTML, errors=("not_found",)),
    Endpoint("GET", "/guides", "The catalog as a page, with a guide for each provider", PROVIDERS, query=(FIND[0], FIND[1], CURSOR), who="open", content=HTML),
    Endpoint("GET", "/images/template-logos/{name}.svg", "A neutral logo", PROVIDERS, who="open", content="image/svg+xml", errors=("not_found",), internal=True),
)
# fmt: on
