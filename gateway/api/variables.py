"""``GET /environment-variables``: what ``environments.<name>.variables`` in gateway.yaml holds (api-contract 1.8)."""

from aiohttp import web

from gateway.api.body import empty_body, query_of
from gateway.services import SERVICES
from middleware.facts import ENVIRONMENT
from middleware.scope import needs


@needs("environment:variables:read")
async def list_variables(request: web.Request) -> web.Response:
    """A bare array, in the order of the file; as the configuration in use has it, so a reload changes it."""
    query_of(request, ())
    empty_body(request)
    declared = request.app[SERVICES].config.environments[request[ENVIRONMENT].name].variables
    return web.json_response([{"name": name, "value": value.reveal()} for name, value in declared.items()])
