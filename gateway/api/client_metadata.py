"""Serves the gateway's client metadata document. In MCP authorization, the document's URL is the gateway's client
ID."""

from aiohttp import hdrs, web

from gateway.auth.context import AuthContext
from gateway.auth.mcp import metadata_document
from gateway.errors import NotFound
from gateway.runtime import RUNTIME, generation_of


async def document(request: web.Request) -> web.Response:
    """Serve the client metadata document of an integration with an MCP provider. Raises NotFound for all other
    integrations, which have no such document."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    path_parts = request.match_info
    integration = generation.integrations.find(path_parts["environment"], path_parts["integration_id"])
    provider = runtime.creator.provider_of(integration) if integration is not None else None
    if integration is None or provider is None or not provider.auth_mode.startswith("MCP_"):
        raise NotFound("not_found", "There is no client metadata at this URL.")
    context = AuthContext(provider, integration, public_url=generation.public_url)
    return web.json_response(metadata_document(context), headers={hdrs.CACHE_CONTROL: "public, max-age=3600"})
