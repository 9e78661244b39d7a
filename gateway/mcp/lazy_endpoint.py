"""The route handlers of the MCP endpoint.

The handlers import the other modules at the first message, so that a worker without agents does not load the modules.
"""

from typing import Final

from aiohttp import hdrs, web

from gateway.access.scopes import PROXY
from gateway.api.agent_sessions import is_session, session_not_found
from gateway.api.request_body import read_query
from gateway.errors import MethodNotAllowed
from gateway.middleware.chain import Chain
from gateway.middleware.facts import CALLER, CAPABILITY, ENVIRONMENT, IN_PROCESS
from gateway.middleware.key_limits import needs, scope
from gateway.middleware.request_message import json_only
from gateway.middleware.surfaces import PROXY_LINKS
from gateway.middleware.who_calls import audit_actor
from gateway.proxy import forward
from gateway.runtime import generation_of

MCP_MODES: Final = "MCP_"  # prefix of the auth modes of providers that are MCP servers themselves


@needs(PROXY, limits=True)
async def respond(request: web.Request) -> web.StreamResponse:
    """Handle ``POST /mcp``."""
    from gateway.mcp.mcp_endpoint import respond_to_mcp

    return await respond_to_mcp(request)


@needs(PROXY, limits=True)
async def respond_in_session(request: web.Request) -> web.StreamResponse:
    """Handle ``POST /session/{session_id}/mcp``. Raises NotFound if the key is not the session's own token."""
    read_query(request, ())
    session_id, key = request.match_info["session_id"], request[CALLER].key
    if key is None or str(key.id) != session_id or not is_session(key):
        raise session_not_found(session_id)
    return await respond(request)


@needs(PROXY, limits=True)
async def respond_at_capability(request: web.Request) -> web.StreamResponse:
    """Handle ``/mcp`` below a capability URL.

    The path belongs to the MCP endpoint, with two exceptions. If the provider is an MCP server, the path belongs to the
    provider. A call that the MCP endpoint makes goes to the provider too, so that a tool cannot call other tools.
    """
    if IN_PROCESS in request or _provider_serves_mcp(request):
        return await _TO_PROVIDER(request)
    if request.method != hdrs.METH_POST:
        raise MethodNotAllowed(
            "method_not_allowed",
            f"This endpoint does not support {request.method}, only POST.",
            headers={hdrs.ALLOW: "POST"},
        )
    return await _TO_MCP_ENDPOINT(request)


def _provider_serves_mcp(request: web.Request) -> bool:
    generation = generation_of(request)
    integration = generation.integrations.find(request[ENVIRONMENT].name, request[CAPABILITY].ref.integration_id)
    provider = generation.catalog.get(integration.provider) if integration is not None else None
    return provider is not None and provider.auth_mode.startswith(MCP_MODES)


_TO_PROVIDER: Final = Chain(*PROXY_LINKS)(forward)
_TO_MCP_ENDPOINT: Final = Chain(audit_actor, scope, json_only)(respond)
