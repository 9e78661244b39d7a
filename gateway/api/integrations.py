"""Integrations: those that gateway.yaml declares, as published clients read them (api-contract 1.3)."""

from typing import Any

from aiohttp import web

from gateway.api.body import query_of
from gateway.auth.moments import iso
from gateway.errors import NotFound
from gateway.records.integration import Integration
from gateway.services import SERVICES, Services
from middleware.facts import ENVIRONMENT


async def list_integrations(request: web.Request) -> web.Response:
    query_of(request, ())
    services = request.app[SERVICES]
    there = services.integrations.of(request[ENVIRONMENT].name)
    return web.json_response({"data": [_shown(services, one) for one in there]})


async def get_integration(request: web.Request) -> web.Response:
    query_of(request, ())
    services = request.app[SERVICES]
    key = request.match_info["unique_key"]
    found = services.integrations.find(request[ENVIRONMENT].name, key)
    if found is None:
        raise NotFound("not_found", f"There is no integration '{key}'. GET /integrations lists those there are.")
    return web.json_response({"data": _shown(services, found)})


def _shown(services: Services, integration: Integration) -> dict[str, Any]:
    provider = services.creator.provider_of(integration)
    shown = services.catalog.shown(provider.name, services.config.server.public_url)
    return {
        "unique_key": integration.integration_id,
        "provider": provider.name,
        "display_name": integration.display_name or provider.display_name,
        "logo": shown["logo_url"],
        "created_at": iso(services.started_at),
        "updated_at": iso(services.started_at),
    }
