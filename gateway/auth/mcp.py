"""MCP_OAUTH2 and MCP_OAUTH2_GENERIC: OAuth 2.0 for MCP servers, at which the gateway can register a client itself.

Both modes are OAUTH2 with a catalog entry that this module completes. Registration adds the client, and discovery adds
the URLs for MCP_OAUTH2_GENERIC. The result is stored in the flow and later with the credential, so that a refresh uses
the same token endpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from gateway.auth.context import AuthContext
from gateway.auth.mcp_discovery import McpServer, discover_server
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Dialogue, Granted, TokenRevocation
from gateway.auth.oauth2 import OAuth2
from gateway.auth.provider_responses import accepted_response
from gateway.errors import InvalidRequest
from gateway.oauth.token_requests import BASIC_AND_ID, OAuthClient, encode_call
from gateway.oauth.token_responses import TokenRefused
from gateway.secret import Secret

# ── Gives an ID to a client that was not registered by hand. The ID comes from a registration request (RFC 7591), or is
# the URL of the gateway's metadata document.

CLIENT_NAME: Final = "Integration gateway"
# Maps the authentication methods of RFC 7591 §2 to the catalog's names, preferred methods first. A public client with
# PKCE is preferred because it has no secret to lose. The method client_secret_post comes before client_secret_basic,
# because servers built with the MCP Python SDK read the client ID only from the body.
CATALOG_METHODS: Final[Mapping[str, str]] = {
    "none": "none",
    "client_secret_post": "body",
    "client_secret_basic": "basic",
}
REGISTERED_METHODS: Final[Mapping[str, str]] = {spelling: method for method, spelling in CATALOG_METHODS.items()}


@dataclass(frozen=True, slots=True)
class DynamicClient:
    """A registered client and its authentication method, in the catalog's spelling: ``basic``, ``body`` or ``none``."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"


def document_url(context: AuthContext) -> str:
    """Return the URL that serves `metadata_document`; this URL is the client ID."""
    integration = context.integration
    path = f"{quote(integration.environment, safe='')}/{quote(integration.integration_id, safe='')}"
    return f"{context.public_url}/oauth/client-metadata/{path}"


def metadata_document(context: AuthContext) -> dict[str, Any]:
    """Return the gateway's client metadata; servers read it at the URL that is the client ID."""
    return {"client_id": document_url(context), **_metadata(context, "none"), "client_uri": context.public_url}


def _metadata(context: AuthContext, auth_method: str) -> dict[str, Any]:
    """Return the client metadata of RFC 7591 §2."""
    return {
        "client_name": context.integration.display_name or CLIENT_NAME,
        "redirect_uris": [context.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth_method,
    }


def secret_method(context: AuthContext, methods: Sequence[str] | None) -> str:
    """Return how a client with a secret authenticates: with the method that the entry names, else with a method that
    the server supports, else with ``body``. `methods`: the server's methods as RFC 7591 names them, None if unknown."""
    secret_methods = (REGISTERED_METHODS[method] for method in ("body", "basic"))
    supported_method = next(
        (CATALOG_METHODS[method] for method in secret_methods if methods is None or method in methods), "body"
    )
    return context.provider.token_request_auth_method or supported_method


def register_client(
    context: AuthContext, url: str, methods: Sequence[str] | None, scopes: Sequence[str]
) -> Dialogue[DynamicClient]:
    """Register a new client at the server (RFC 7591 §3). `methods`: the server's authentication methods, None if
    unknown.

    The entry's `token_request_auth_method` decides the method. If the entry names no method, the server's response
    decides, and can name another method than the request. Raises TokenRefused if the server does not register the
    client.
    """
    entry_method = context.provider.token_request_auth_method
    supported_methods = (method for method in CATALOG_METHODS if methods is None or method in methods)
    auth_method = REGISTERED_METHODS.get(entry_method or "") or next(supported_methods, "client_secret_basic")
    metadata: dict[str, Any] = {**_metadata(context, auth_method), **({"scope": " ".join(scopes)} if scopes else {})}
    reply = yield encode_call("POST", url, {"Accept": "application/json"}, metadata, "json")
    response = accepted_response(reply)
    client_id, secret = response.get("client_id"), response.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise TokenRefused("invalid_client", "its registration endpoint returned no client_id")
    secret = secret if isinstance(secret, str) and secret else None
    if secret is None:
        return DynamicClient(client_id)
    # If the response has a client_secret but no token_endpoint_auth_method, use the method that the gateway requested,
    # else client_secret_basic (RFC 7591 §2).
    default_method = auth_method if auth_method != "none" else "client_secret_basic"
    catalog_method = CATALOG_METHODS.get(str(response.get("token_endpoint_auth_method") or default_method), "body")
    return DynamicClient(client_id, secret, entry_method or catalog_method)


class McpOAuth2(OAuth2):
    """The credential is stored in the format of OAUTH2, with the registered client in ``config_override`` and the URLs
    of the authorization server in ``server``. Token requests name the MCP server as ``resource`` (RFC 8707).
    """

    name = "MCP_OAUTH2"
    stored_as: ClassVar = ("OAUTH2",)
    needs_client: ClassVar = False

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        server = yield from self._server(context)
        client = yield from self._client(context, server, authorization)
        consent_request = (
            authorization if authorization.scopes or context.scopes else replace(authorization, scopes=server.scopes)
        )
        consent_request = replace(
            consent_request, params={name: text for name, text in consent_request.params.items() if name != "resource"}
        )
        registration = {"server": _server_members(server, client.auth_method), "client": asdict(client)}
        redirect = yield from super().start_consent(_complete_context(context, registration), consent_request)
        return ConsentRedirect(redirect.url, {**redirect.kept, **registration})

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        granted = yield from super().finish_consent(_complete_context(context, flow_details), flow_details, query)
        registered_client = flow_details["client"]
        client = {
            name: registered_client[name] for name in ("client_id", "client_secret") if registered_client.get(name)
        }
        credential = {**granted.held, "server": flow_details["server"]}
        if client["client_id"] != context.integration.client_id:
            credential.setdefault("config_override", client)
        return Granted(credential, granted.config)

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        if not credential.get("server"):
            return (yield from super().renew(credential, context))
        new_credential = yield from super().renew(
            credential, _complete_context(context, {"server": credential["server"]})
        )
        return {**new_credential, "server": credential["server"]}

    def revocation(self, credential: Mapping[str, Any], context: AuthContext) -> TokenRevocation | None:
        server = credential.get("server") or {}
        if not server.get("revocation_url"):
            return super().revocation(credential, context)
        client = self.client_at(server["revocation_url"], credential, context)
        return TokenRevocation(server["revocation_url"], client, _auth_method(server))

    def _server(self, context: AuthContext) -> Dialogue[McpServer]:
        yield from ()
        provider = context.provider
        return McpServer(
            resource=context.texts(provider.authorization_params).get("resource") or resource_url(context),
            authorization_url=context.url("authorization_url"),
            token_url=context.url("token_url"),
            issuer=provider.issuer,
            registration_url=context.url("registration_url") if provider.registration_url else None,
            revocation_url=context.url("revocation_url") if provider.revocation_url else None,
        )

    def _client(
        self, context: AuthContext, server: McpServer, authorization: AuthorizationRequestInput
    ) -> Dialogue[DynamicClient]:
        """Return the end user's own client if there is one, else the operator's client if the integration has one.
        Otherwise register a client as the entry says or as the server supports.

        The returned client never contains the secret of the end user or of the operator. The callback reads the
        operator's secret from the integration, and only for hosts that may receive the secret.
        """
        integration = context.integration
        registration = context.provider.client_registration
        method = secret_method(context, server.auth_methods)
        if client_id := authorization.override.get("client_id"):
            return DynamicClient(client_id, None, method if authorization.override.get("client_secret") else "none")
        if integration.client_id:
            is_public = not integration.client_secret or context.for_destinations(server.token_url).public_client()
            return DynamicClient(integration.client_id, None, "none" if is_public else method)
        has_https_url = context.public_url.startswith("https://")
        if registration == "metadata_document" or (registration is None and server.reads_documents and has_https_url):
            return DynamicClient(document_url(context))
        if registration in {None, "dynamic"} and server.registration_url:
            scopes = context.scopes or server.scopes
            return (yield from register_client(context, server.registration_url, server.auth_methods, scopes))
        raise InvalidRequest(
            "invalid_auth_mode",
            f"{context.provider.display_name} does not support dynamic client registration. Register an OAuth client "
            f"there with the callback URL {context.redirect_uri}, then set client_id of integration "
            f"'{integration.integration_id}' in gateway.yaml.",
        )


class McpOAuth2Generic(McpOAuth2):
    """OAuth 2.0 for any MCP server. The entry's `proxy.base_url`, filled with the connection's settings, is the
    server's URL. Discovery finds the server's authorization server (RFC 9728, RFC 8414).
    """

    name = "MCP_OAUTH2_GENERIC"

    def _server(self, context: AuthContext) -> Dialogue[McpServer]:
        return (yield from discover_server(resource_url(context)))


def resource_url(context: AuthContext) -> str:
    """Return the MCP server's own URL, without a slash at the end."""
    return context.fill_url(context.provider.proxy.base_url).rstrip("/")


def _server_members(server: McpServer, auth_method: str) -> dict[str, Any]:
    names = ("resource", "authorization_url", "token_url", "issuer", "revocation_url")
    members = asdict(server)
    return {name: members[name] for name in names if members[name]} | {"auth_method": auth_method}


def _complete_context(context: AuthContext, registration: Mapping[str, Any]) -> AuthContext:
    """Return `context` with the URLs and the client of `registration` in place of the entry's."""
    server = registration["server"]
    resource = {"resource": server["resource"]}
    entry = context.provider
    completed_entry = entry.model_copy(
        update={
            "authorization_url": server["authorization_url"],
            "token_url": server["token_url"],
            "refresh_url": None,
            "issuer": server.get("issuer"),
            "alternatives": {},
            "token_request_auth_method": _auth_method(server),
            "disable_pkce": None,
            "authorization_params": {**entry.authorization_params, **resource},
            "token_params": {**entry.token_params, **resource},
            "refresh_params": {**(entry.refresh_params or entry.token_params), **resource},
        }
    )
    client = registration.get("client")
    registered_client = None
    if client and client["client_id"] != context.integration.client_id:
        registered_client = OAuthClient(
            client["client_id"], Secret(client["client_secret"]) if client.get("client_secret") else None
        )
    return replace(context, provider=completed_entry, entry=context.entry or entry, registered=registered_client)


def _auth_method(server: Mapping[str, Any]) -> str:
    """Return how the client authenticates. Servers built with the MCP Python SDK need the client ID in the body, even
    if the client authenticates with Basic."""
    return BASIC_AND_ID if server["auth_method"] == "basic" else str(server["auth_method"])
