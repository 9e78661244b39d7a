"""The table of all routes. Each line has the method, the path, the middleware chain that guards the path, and the
handler."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from gateway.api import (
    agent_sessions,
    audit_endpoints,
    client_metadata,
    connect_endpoints,
    connect_socket,
    connection_import,
    connections,
    credential_forms,
    environment,
    health,
    integrations,
    keys,
    logs_endpoints,
    provider_operations,
    providers,
    session_results,
    webhooks,
)
from gateway.api import connections as connection_edits
from gateway.api import providers as logos
from gateway.api.connect_socket import WebsocketResource
from gateway.console import lazy_console
from gateway.mcp import lazy_endpoint as mcp
from gateway.middleware.request_message import no_early_continue
from gateway.middleware.surfaces import (
    AGENT,
    API,
    CAPABILITY,
    CAPABILITY_AGENT,
    OPEN,
    PROGRAM,
    PROXY,
    SESSION,
    SESSION_OR_API,
    SESSION_POST,
)
from gateway.openapi.openapi_handlers import docs, openapi_json
from gateway.pages import lazy_pages
from gateway.proxy import forward

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Connection ids can contain slashes, and Nango's published clients do not encode the slashes.
CONNECTION_ID_PATTERN: Final = r"{connection_id:.+}"
# `(?s)`: the router matches the decoded path, so `.` must also match an encoded line break (`%0A`).
REST_PATTERN: Final = r"{path:(?s:.*)}"


async def respond_to_options(request: web.Request) -> web.Response:
    """Handle ``OPTIONS`` on the gateway's own API: 204 with Allow (RFC 9110 §9.3.7). Browsers' preflight requests do
    not reach this handler, because the middleware `cors` handles them.

    No key is needed, because the response shows only what docs/http-api.md documents.
    """
    resource = request.match_info.route.resource
    methods = [] if resource is None else sorted({route.method for route in resource})
    return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(methods)})


def _post_routes(last_handler: Handler) -> tuple[tuple[str, Handler], ...]:
    return ("POST", SESSION_POST(last_handler)), ("OPTIONS", PROGRAM(respond_to_options))


ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/health", OPEN(health.health)),
    ("GET", "/ready", OPEN(health.ready)),
    ("GET", "/images/template-logos/{name}.svg", OPEN(logos.logo)),
    ("GET", "/openapi.json", PROGRAM(openapi_json)),
    ("OPTIONS", "/openapi.json", PROGRAM(respond_to_options)),
    ("GET", "/docs", OPEN(docs)),
    ("GET", "/connect", OPEN(lazy_pages.open_link)),
    ("GET", "/connect/", OPEN(lazy_pages.open_link)),
    ("GET", "/connect/assets/{name}", OPEN(lazy_pages.asset)),
    ("GET", "/connect/s/{session_id}", OPEN(lazy_pages.show_offers)),
    ("GET", "/connect/s/{session_id}/i/{integration_id}", OPEN(lazy_pages.show_form)),
    ("POST", "/connect/s/{session_id}/i/{integration_id}", OPEN(lazy_pages.submit_form)),
    ("GET", "/connect/s/{session_id}/i/{integration_id}/result", OPEN(lazy_pages.result)),
    ("GET", "/connect/s/{session_id}/leave/{flow}", OPEN(lazy_pages.leave_for_provider)),
    ("GET", "/connect/s/{session_id}/return", OPEN(lazy_pages.return_to_application)),
    ("POST", "/oauth/site", OPEN(lazy_pages.choose_site)),
    ("GET", "/oauth/connect/{integration_id}", OPEN(lazy_pages.begin)),
    ("GET", "/oauth/callback", OPEN(lazy_pages.callback)),
    ("GET", "/app-auth/connect", OPEN(lazy_pages.callback)),
    ("GET", "/oauth/client-metadata/{environment}/{integration_id}", OPEN(client_metadata.document)),
    *((method, path, chain) for path, handler in credential_forms.ROUTES for method, chain in _post_routes(handler)),
    ("GET", "/console", OPEN(lazy_console.view)),
    ("GET", "/console/sign-in", OPEN(lazy_console.sign_in)),
    ("POST", "/console/sign-in", OPEN(lazy_console.sign_in)),
    ("GET", "/console/sign-in/oidc", OPEN(lazy_console.redirect_to_identity_provider)),
    ("GET", "/console/callback", OPEN(lazy_console.finish_oidc_sign_in)),
    ("POST", "/console/sign-out", OPEN(lazy_console.sign_out)),
    ("GET", "/console/assets/{name}", OPEN(lazy_console.asset)),
    ("GET", "/console/logos/{name}.svg", OPEN(lazy_console.logo)),
    ("GET", "/console/{tail:.+}", OPEN(lazy_console.view)),
    ("POST", "/console/{tail:.+}", OPEN(lazy_console.act)),
    ("GET", "/providers", SESSION_OR_API(providers.list_providers)),
    ("OPTIONS", "/providers", PROGRAM(respond_to_options)),
    ("GET", "/providers/{provider}", SESSION_OR_API(providers.get_provider)),
    ("OPTIONS", "/providers/{provider}", PROGRAM(respond_to_options)),
    ("GET", "/providers/{provider}/operations", SESSION_OR_API(provider_operations.list_operations)),
    ("OPTIONS", "/providers/{provider}/operations", PROGRAM(respond_to_options)),
    ("GET", "/providers/{provider}/guide", OPEN(lazy_pages.guide)),
    ("GET", "/guides", OPEN(lazy_pages.guides)),
    ("GET", "/integrations", SESSION_OR_API(integrations.list_integrations)),
    ("POST", "/integrations", API(integrations.create_integration)),
    ("OPTIONS", "/integrations", PROGRAM(respond_to_options)),
    ("GET", "/integrations/{unique_key}", API(integrations.get_integration)),
    ("PATCH", "/integrations/{unique_key}", API(integrations.patch_integration)),
    ("DELETE", "/integrations/{unique_key}", API(integrations.delete_integration)),
    ("OPTIONS", "/integrations/{unique_key}", PROGRAM(respond_to_options)),
    ("POST", "/connect/sessions", API(connect_endpoints.create_session)),
    ("OPTIONS", "/connect/sessions", PROGRAM(respond_to_options)),
    ("POST", "/connect/sessions/reconnect", API(connect_endpoints.create_reconnect_session)),
    ("OPTIONS", "/connect/sessions/reconnect", PROGRAM(respond_to_options)),
    ("GET", "/connect/sessions/{session_id}", API(session_results.poll_session)),
    ("OPTIONS", "/connect/sessions/{session_id}", PROGRAM(respond_to_options)),
    ("POST", "/connect/sessions/{session_id}/complete", API(session_results.complete_session)),
    ("OPTIONS", "/connect/sessions/{session_id}/complete", PROGRAM(respond_to_options)),
    ("GET", "/connect/session", SESSION(session_results.show_session)),
    ("DELETE", "/connect/session", SESSION(session_results.end_session)),
    ("OPTIONS", "/connect/session", PROGRAM(respond_to_options)),
    ("GET", "/connect/session/result", SESSION(session_results.read_result)),
    ("OPTIONS", "/connect/session/result", PROGRAM(respond_to_options)),
    ("POST", "/connect/telemetry", SESSION_POST(session_results.telemetry)),
    ("OPTIONS", "/connect/telemetry", PROGRAM(respond_to_options)),
    ("GET", "/connections", API(connections.list_connections)),
    ("POST", "/connections", API(connection_import.import_connection)),
    ("OPTIONS", "/connections", PROGRAM(respond_to_options)),
    ("POST", "/connections/metadata", API(connection_edits.set_metadata)),
    ("PATCH", "/connections/metadata", API(connection_edits.merge_metadata)),
    ("GET", f"/connections/{CONNECTION_ID_PATTERN}", API(connections.get_connection)),
    ("PATCH", f"/connections/{CONNECTION_ID_PATTERN}", API(connection_edits.patch_connection)),
    ("DELETE", f"/connections/{CONNECTION_ID_PATTERN}", API(connections.delete_connection)),
    ("OPTIONS", f"/connections/{CONNECTION_ID_PATTERN}", PROGRAM(respond_to_options)),
    ("GET", "/webhook/{environment}/{unique_key}", OPEN(webhooks.confirm_webhook)),
    ("POST", "/webhook/{environment}/{unique_key}", OPEN(webhooks.receive_webhook)),
    ("POST", "/environment/webhook-signing-key/rotate", API(environment.rotate_signing_key)),
    ("OPTIONS", "/environment/webhook-signing-key/rotate", PROGRAM(respond_to_options)),
    # Former paths, which older clients of Nango still use.
    ("GET", "/connection", API(connections.list_connections)),
    ("POST", "/connection", API(connection_import.import_flat)),
    ("OPTIONS", "/connection", PROGRAM(respond_to_options)),
    ("POST", "/connection/metadata", API(connection_edits.set_metadata)),
    ("PATCH", "/connection/metadata", API(connection_edits.merge_metadata)),
    ("POST", f"/connection/{CONNECTION_ID_PATTERN}/metadata", API(connection_edits.set_metadata_of_one)),
    ("PATCH", f"/connection/{CONNECTION_ID_PATTERN}/metadata", API(connection_edits.merge_metadata_of_one)),
    ("GET", f"/connection/{CONNECTION_ID_PATTERN}", API(connections.get_connection)),
    ("PATCH", f"/connection/{CONNECTION_ID_PATTERN}", API(connection_edits.patch_connection)),
    ("DELETE", f"/connection/{CONNECTION_ID_PATTERN}", API(connections.delete_connection)),
    ("OPTIONS", f"/connection/{CONNECTION_ID_PATTERN}", PROGRAM(respond_to_options)),
    ("GET", "/environment-variables", API(environment.list_variables)),
    ("OPTIONS", "/environment-variables", PROGRAM(respond_to_options)),
    ("GET", "/logs", API(logs_endpoints.list_operations)),
    ("OPTIONS", "/logs", PROGRAM(respond_to_options)),
    ("GET", "/audit", API(audit_endpoints.list_records)),
    ("OPTIONS", "/audit", PROGRAM(respond_to_options)),
    ("GET", "/audit/uses", API(audit_endpoints.list_uses)),
    ("OPTIONS", "/audit/uses", PROGRAM(respond_to_options)),
    ("GET", "/environment/api-keys", API(keys.list_keys)),
    ("POST", "/environment/api-keys", API(keys.create_key)),
    ("DELETE", "/environment/api-keys", API(keys.revoke_key)),
    ("OPTIONS", "/environment/api-keys", PROGRAM(respond_to_options)),
    ("DELETE", "/environment/api-keys/{key_id}", API(keys.revoke_key)),
    ("OPTIONS", "/environment/api-keys/{key_id}", PROGRAM(respond_to_options)),
    ("*", "/proxy", PROXY(forward)),
    ("*", f"/proxy/{REST_PATTERN}", PROXY(forward)),
    ("POST", "/mcp", AGENT(mcp.respond)),
    ("OPTIONS", "/mcp", PROGRAM(respond_to_options)),
    ("POST", "/sessions", API(agent_sessions.create_agent_session)),
    ("OPTIONS", "/sessions", PROGRAM(respond_to_options)),
    ("DELETE", "/sessions/{session_id}", API(agent_sessions.end_agent_session)),
    ("OPTIONS", "/sessions/{session_id}", PROGRAM(respond_to_options)),
    ("POST", "/session/{session_id}/mcp", AGENT(mcp.respond_in_session)),
    ("OPTIONS", "/session/{session_id}/mcp", PROGRAM(respond_to_options)),
    ("POST", "/sessions/{session_id}/mcp", AGENT(mcp.respond_in_session)),
    ("OPTIONS", "/sessions/{session_id}/mcp", PROGRAM(respond_to_options)),
    ("*", "/c/{capability}/mcp", CAPABILITY_AGENT(mcp.respond_at_capability)),
    ("*", "/c/{capability}", CAPABILITY(forward)),
    ("*", f"/c/{{capability}}/{REST_PATTERN}", CAPABILITY(forward)),
)


# These GETs have effects: the HEAD request of a link scanner would use up an authorization, and no browser would see
# the result.
WITHOUT_HEAD: Final = frozenset({"/oauth/callback", "/app-auth/connect", "/console/callback"})


def add_routes(app: web.Application, websocket_path: str = "/") -> None:
    """Add every route to `app`, with HEAD for each GET (RFC 9110 §9.1).

    If a request has ``Expect: 100-continue``, its key is checked before ``100 Continue`` is sent.
    """
    resource = WebsocketResource(websocket_path)
    resource.add_route("GET", OPEN(connect_socket.serve_connect_socket), expect_handler=no_early_continue)
    app.router.register_resource(resource)
    for method, path, handler in ROUTES:
        for route_method in ("HEAD", "GET") if method == "GET" and path not in WITHOUT_HEAD else (method,):
            app.router.add_route(route_method, path, handler, expect_handler=no_early_continue)
